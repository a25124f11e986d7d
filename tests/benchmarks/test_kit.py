"""The kit of the benchmarks: the command line, figures and rounds, tables and JSON, the load of a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.__main__ import BENCHMARKS, SOON, main
from benchmarks.kit.command import render, to_json
from benchmarks.kit.figures import (
    Benchmark,
    Figure,
    Outcome,
    Target,
    at_least,
    at_most,
    interleave,
    percentile,
    ratio,
    seconds,
)
from benchmarks.kit.machine import Machine, cpu_model, server_version, this_machine
from benchmarks.kit.usage import Sample, by_second, commands_of, worst_second
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


def test_several_names_run_those_benchmarks_in_their_usual_order() -> None:
    output = run("heartbeat", "lookup").output
    assert 0 <= output.index("lookup: ") < output.index("heartbeat: ")
    assert "register: " not in output


def test_a_quick_run_without_a_name_is_about_those_that_are_soon_done() -> None:
    begun = [line.partition(": Is ")[0] for line in run("--quick").output.splitlines() if ": Is " in line]
    assert begun == [name for name in BENCHMARKS if name in SOON]
    assert all(f"{name}: " in run("all", "--quick").output for name in BENCHMARKS)


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


def test_what_was_measured_is_kept_when_a_later_benchmark_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "figures.json"
    monkeypatch.setitem(BENCHMARKS, "register", Benchmark("?", refuse, refuse))
    assert run("lookup", "register", "--out", str(path)).exit_code == 1
    document = json.loads(path.read_text(encoding="utf-8"))
    assert [benchmark["name"] for benchmark in document["benchmarks"]] == ["lookup"]


def test_a_json_file_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    result = run("--json", str(tmp_path / "absent" / "figures.json"))
    assert result.exit_code == 2
    assert "lookup: " not in result.output


def test_a_missing_server_is_said_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "lookup", Benchmark("?", refuse, refuse))
    result = run("lookup")
    assert result.exit_code == 1
    assert "Error: no server to measure with" in result.output


def test_a_figure_is_its_median_with_the_range_of_its_rounds() -> None:
    figure = Figure("first time", "ms", (5.0, 1.0, 2.0))
    assert (figure.median, figure.low, figure.high) == (2.0, 1.0, 5.0)


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [
        (at_most(40), 40.0, True),
        (at_most(40), 40.1, False),
        (at_least(0.6), 0.6, True),
        (at_least(0.6), 0.59, False),
    ],
)
def test_a_target_is_held_against_the_median(target: Target, value: float, *, met: bool) -> None:
    assert Figure("x", "ms", (0.0, value, 100.0), target).met is met


def test_a_figure_without_a_target_is_neither_met_nor_missed() -> None:
    figure = Figure("x", "ms", (1.0,))
    assert figure.met is None
    assert Outcome([figure]).met


def test_an_outcome_is_missed_when_one_target_is() -> None:
    good, bad = Figure("a", "ms", (1.0,), at_most(2)), Figure("b", "ms", (3.0,), at_most(2))
    assert not Outcome([good, bad]).met


def test_a_ratio_is_taken_round_by_round() -> None:
    slow, fast = Figure("slow", "ms", (10.0, 40.0, 90.0)), Figure("fast", "ms", (5.0, 10.0, 30.0))
    figure = ratio(slow, fast, at_most(2.5))
    assert (figure.name, figure.unit, list(figure.rounds)) == ("slow / fast", "x", [2.0, 4.0, 3.0])
    assert figure.met is False


def test_figures_of_different_rounds_have_no_ratio() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratio(Figure("a", "ms", (1.0, 2.0)), Figure("b", "ms", (1.0,)))


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)])
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_contestants_take_turns_and_the_first_round_does_not_count() -> None:
    log: list[str] = []

    def contestant(name: str) -> float:
        log.append(name)
        return float(len(log))

    values = interleave(2, {"a": lambda: contestant("a"), "b": lambda: contestant("b")})
    assert log == ["a", "b", "a", "b", "a", "b"]
    assert values == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_seconds_are_those_of_one_call() -> None:
    calls: list[None] = []
    assert seconds(lambda: calls.append(None)) >= 0
    assert len(calls) == 1


MACHINE = Machine(
    "EPYC", 2, "Linux", "3.11.7", "Redis 7.0.15", "2026-01-02T03:04:05+00:00", {"redis": "8.1.0"}
)
OUTCOME = Outcome(
    [
        Figure("first time", "ms", (36.0, 35.5, 1234.5), at_most(40)),
        Figure("raw / bare", "x", (0.5,), at_least(0.6)),
        Figure("longest", "ms", (1.234, 1.0)),
    ],
    ["in chunks of 500"],
)


def test_the_table_has_the_question_a_row_a_figure_and_the_notes() -> None:
    head, columns, rule, *rows, note = render("register", "How long?", OUTCOME).splitlines()
    assert head == "register: How long?"
    assert columns.split() == ["measured", "median", "quartiles", "unit", "target"]
    assert set(rule) == {"-"}
    assert [row.split() for row in rows] == [
        ["first", "time", "36.0", "35.8", "-", "635", "ms", "<=", "40", "met"],
        ["raw", "/", "bare", "0.500", "x", ">=", "0.6", "NOT", "MET"],
        ["longest", "1.12", "1.06", "-", "1.18", "ms"],
    ]
    assert note == "note: in chunks of 500"


def test_the_columns_of_the_table_are_aligned() -> None:
    rows = render("register", "How long?", OUTCOME).splitlines()[3:6]
    assert len({row.index(unit) for row, unit in zip(rows, ("ms  ", "x   ", "ms"), strict=True)}) == 1


def test_the_json_has_figures_ratios_targets_and_the_machine() -> None:
    document = json.loads(to_json(MACHINE, {"register": ("How long?", OUTCOME)}, load=(0.5, 1.5), quick=True))
    assert document["machine"] == {
        "cpu": "EPYC",
        "cores": 2,
        "system": "Linux",
        "python": "3.11.7",
        "server": "Redis 7.0.15",
        "date": "2026-01-02T03:04:05+00:00",
        "versions": {"redis": "8.1.0"},
    }
    assert document["quick"] is True
    assert document["load"] == {"begin": 0.5, "end": 1.5}
    (benchmark,) = document["benchmarks"]
    assert (benchmark["name"], benchmark["question"], benchmark["met"]) == ("register", "How long?", False)
    assert benchmark["notes"] == ["in chunks of 500"]
    assert benchmark["figures"][0] == {
        "name": "first time",
        "unit": "ms",
        "median": 36.0,
        "min": 35.5,
        "max": 1234.5,
        "quartiles": [35.75, 635.25],
        "rounds": [36.0, 35.5, 1234.5],
        "target": {"bound": "<=", "limit": 40},
        "met": True,
    }
    assert benchmark["figures"][2]["target"] is None


def test_this_machine_is_described_completely() -> None:
    machine = this_machine()
    assert machine.cores >= 1
    assert all((machine.cpu, machine.system, machine.python, machine.date))
    assert "absent" not in {machine.versions[package] for package in ("redis", "hiredis", "kazoo", "aetcd")}
    assert machine.server.split()[0] in {"Redis", "Valkey"}


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", "Redis 7.0.15"),
        ("Valkey server v=9.1.2 sha=00000000:0 malloc=libc bits=64", "Valkey 9.1.2"),
        ("KeyDB 6\n", "KeyDB 6"),
    ],
)
def test_the_server_is_named_with_its_version(described: str, expected: str) -> None:
    assert server_version(described) == expected


def test_the_cpu_is_the_one_that_cpuinfo_names() -> None:
    assert cpu_model("processor\t: 0\nmodel name\t: AMD EPYC 9R14\nmodel name\t: other\n") == "AMD EPYC 9R14"


def test_without_cpuinfo_the_platform_names_the_cpu() -> None:
    assert cpu_model("") != ""


def samples(*commands: int) -> list[Sample]:
    """Return a sample every half second."""
    return [Sample(100 + number / 2, count, 0, 0.0) for number, count in enumerate(commands)]


def test_the_worst_second_begins_wherever_it_is_worst() -> None:
    assert worst_second(samples(0, 10, 100, 190, 200, 210), commands_of) == pytest.approx(180)


def test_what_is_shorter_than_a_second_is_taken_as_a_whole() -> None:
    assert worst_second(samples(0, 30), commands_of) == pytest.approx(60)


def test_seconds_in_turn_do_not_overlap() -> None:
    assert [*by_second(samples(0, 10, 100, 190, 200, 210))] == pytest.approx([100, 100])
