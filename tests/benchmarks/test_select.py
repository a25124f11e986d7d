"""Choosing a queue: beside RocketMQ's Java client where it can run, and by several threads."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from benchmarks import select
from benchmarks.kit.rocketmq import FAULTY, QUIET, JavaAbsent, java_selection
from benchmarks.select import Together

MAVEN = """#!/bin/sh
for word; do case $word in -Dmdep.outputFile=*) printf /the/jars >"${word#*=}";; esac; done
"""
JAVA = """#!/bin/sh
test "$2" = /the/jars || exit 1
while read -r kind count; do
  if [ "$kind" = quiet ]; then echo 50.5; else echo "$count"; fi
done
"""
SIZE = select.Size(rounds=1, selections=10, together=16, brokers=2, queues=1, wide_queues=4, isolated=1)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder on PATH besides those of the system's own tools."""
    for name, script in (("mvn", MAVEN), ("java", JAVA), ("javac", "")):
        (tmp_path / name).write_text(script, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    return tmp_path


def test_rounds_are_run_by_the_java_process(tools: Path) -> None:
    with java_selection(8, 4, 2) as java:
        assert java.nanoseconds(QUIET, 10) == pytest.approx(50.5)
        assert java.nanoseconds(FAULTY, 70) == pytest.approx(70)


def test_a_java_process_that_ends_is_an_error_and_not_a_figure(tools: Path) -> None:
    (tools / "java").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    with pytest.raises((RuntimeError, BrokenPipeError)), java_selection(8, 4, 2) as java:
        java.nanoseconds(QUIET, 10)


def test_without_its_tools_it_is_absent(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tools))
    (tools / "mvn").unlink()
    with pytest.raises(JavaAbsent, match="mvn is not on PATH"), java_selection(8, 4, 2):
        pass


def test_what_maven_cannot_fetch_is_absent(tools: Path) -> None:
    (tools / "mvn").write_text("#!/bin/sh\necho no network\nexit 1\n", encoding="utf-8")
    with pytest.raises(JavaAbsent, match="Maven did not fetch"), java_selection(8, 4, 2):
        pass


@pytest.mark.long
def test_the_benchmark_says_that_it_could_not_compare(tools: Path) -> None:
    (tools / "mvn").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    outcome = select.run(SIZE)
    assert any("not compared with RocketMQ's Java client: Maven" in note for note in outcome.notes)
    assert not any("RocketMQ" in figure.name for figure in outcome.figures)


@pytest.mark.long
def test_the_benchmark_compares_with_rocketmq_where_it_can(tools: Path) -> None:
    names = [figure.name for figure in select.run(SIZE).figures]
    assert "select_queue, no faults / RocketMQ's MQFaultStrategy, no faults" in names


def test_one_thread_and_eight_do_the_same_work() -> None:
    shares: list[int] = []
    Together("x", shares.append, 80).round()
    assert shares == [80, *[10] * 8]


def test_the_first_round_does_not_count() -> None:
    together = Together("x", range, 80)
    for _ in range(3):
        together.round()
    assert [len(figure.rounds) for figure in together.figures()] == [2, 2]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not say who runs where")
def test_only_the_threads_that_are_measured_share_one_core() -> None:
    before = os.sched_getaffinity(0)
    cores: list[int] = []
    Together("x", lambda _: cores.append(len(os.sched_getaffinity(0))), 8).round()
    assert cores == [1] * 9
    assert os.sched_getaffinity(0) == before


def test_eight_threads_work_at_the_same_time() -> None:
    together = threading.Barrier(8)
    Together("x", lambda share: together.wait(20) if share == 1 else None, 8).round()
