"""The table, the JSON and what they say of the machine."""

from __future__ import annotations

import json

import pytest

from benchmarks.kit.command import Machine, cpu_model, render, server_version, this_machine, to_json
from benchmarks.kit.figures import Figure, Outcome, at_least, at_most

MACHINE = Machine("EPYC", 2, "Linux", "3.11.7", "8.1.0", "3.5.0", "Redis 7.0.15", "2026-01-02T03:04:05+00:00")
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
    assert columns.split() == ["measured", "median", "min", "-", "max", "unit", "target"]
    assert set(rule) == {"-"}
    assert [row.split() for row in rows] == [
        ["first", "time", "36.0", "35.5", "-", "1,234", "ms", "<=", "40", "met"],
        ["raw", "/", "bare", "0.500", "x", ">=", "0.6", "NOT", "MET"],
        ["longest", "1.12", "1.00", "-", "1.23", "ms"],
    ]
    assert note == "note: in chunks of 500"


def test_the_columns_of_the_table_are_aligned() -> None:
    rows = render("register", "How long?", OUTCOME).splitlines()[3:6]
    assert len({row.index(unit) for row, unit in zip(rows, ("ms  ", "x   ", "ms"), strict=True)}) == 1


def test_the_json_has_figures_ratios_targets_and_the_machine() -> None:
    document = json.loads(to_json(MACHINE, {"register": ("How long?", OUTCOME)}))
    assert document["machine"] == {
        "cpu": "EPYC",
        "cores": 2,
        "system": "Linux",
        "python": "3.11.7",
        "redis_py": "8.1.0",
        "hiredis": "3.5.0",
        "server": "Redis 7.0.15",
        "date": "2026-01-02T03:04:05+00:00",
    }
    (benchmark,) = document["benchmarks"]
    assert (benchmark["name"], benchmark["question"], benchmark["met"]) == ("register", "How long?", False)
    assert benchmark["notes"] == ["in chunks of 500"]
    assert benchmark["figures"][0] == {
        "name": "first time",
        "unit": "ms",
        "median": 36.0,
        "min": 35.5,
        "max": 1234.5,
        "rounds": [36.0, 35.5, 1234.5],
        "target": {"bound": "<=", "limit": 40},
        "met": True,
    }
    assert benchmark["figures"][2]["target"] is None


def test_this_machine_is_described_completely() -> None:
    machine = this_machine()
    assert machine.cores >= 1
    assert all((machine.cpu, machine.system, machine.python, machine.redis_py, machine.date))
    assert machine.hiredis != "absent"
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
