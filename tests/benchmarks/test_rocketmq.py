"""RocketMQ's Java client is measured where it can be, and its absence is said; its tools are stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import select
from benchmarks.kit.rocketmq import FAULTY, QUIET, JavaAbsent, java_selection

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


def test_the_benchmark_says_that_it_could_not_compare(tools: Path) -> None:
    (tools / "mvn").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    outcome = select.run(SIZE)
    assert any("not compared with RocketMQ's Java client: Maven" in note for note in outcome.notes)
    assert not any("RocketMQ" in figure.name for figure in outcome.figures)


def test_the_benchmark_compares_with_rocketmq_where_it_can(tools: Path) -> None:
    names = [figure.name for figure in select.run(SIZE).figures]
    assert "select_queue, no faults / RocketMQ's MQFaultStrategy, no faults" in names
