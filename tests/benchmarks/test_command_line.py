"""`python -m benchmarks`, with benchmarks that measure nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.kit.figures import Benchmark, Figure, Outcome, at_most
from sharedroutes.registry import EmbeddedServerError


def outcome(value: float) -> Outcome:
    return Outcome([Figure("cost", "ms", (value,), at_most(10))])


def refuse() -> Outcome:
    raise EmbeddedServerError("no server to measure with")


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each benchmark cost 5 ms, or quickly 7, and `select` miss its target."""
    for name in BENCHMARKS:
        monkeypatch.setitem(
            BENCHMARKS, name, Benchmark(f"Is {name} quick?", lambda: outcome(5), lambda: outcome(7))
        )
    monkeypatch.setitem(BENCHMARKS, "select", Benchmark("No?", lambda: outcome(50), lambda: outcome(70)))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_without_a_name_all_benchmarks_run() -> None:
    result = run()
    assert result.exit_code == 0
    assert all(f"{name}: " in result.output for name in BENCHMARKS)


def test_all_is_the_same_as_no_name() -> None:
    assert run("all").output.count("Is ") == run().output.count("Is ") == len(BENCHMARKS) - 1


def test_one_name_runs_that_benchmark_alone() -> None:
    result = run("lookup")
    assert "lookup: Is lookup quick?" in result.output
    assert "register: " not in result.output


def test_an_unknown_name_is_refused() -> None:
    assert run("lookups").exit_code == 2


def test_quick_is_the_quick_variant() -> None:
    assert "7.00" in run("lookup", "--quick").output


def test_a_missed_target_is_only_said() -> None:
    result = run("select")
    assert "NOT MET" in result.output
    assert result.exit_code == 0


def test_a_missed_target_fails_a_check() -> None:
    assert run("select", "--check").exit_code == 1
    assert run("lookup", "--check").exit_code == 0


def test_the_list_names_every_question_and_measures_nothing() -> None:
    result = run("--list")
    assert [line.split()[0] for line in result.output.splitlines()] == list(BENCHMARKS)
    assert "Is lookup quick?" in result.output
    assert "ms" not in result.output


def test_the_json_file_holds_what_was_run(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    assert run("--json", str(path)).exit_code == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    assert [benchmark["name"] for benchmark in document["benchmarks"]] == list(BENCHMARKS)


def test_a_json_file_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    result = run("--json", str(tmp_path / "absent" / "figures.json"))
    assert result.exit_code == 2
    assert "lookup: " not in result.output


def test_a_missing_server_is_said_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "lookup", Benchmark("?", refuse, refuse))
    result = run("lookup")
    assert result.exit_code == 1
    assert "Error: no server to measure with" in result.output
