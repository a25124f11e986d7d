"""How tests are shared out among workers: the longest files first, so that all workers end together."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import ANSWERS, LONG_S, LongestFirst

ROOT: Final = Path(__file__).resolve().parents[1]
TESTS: Final = (
    *(f"tests/test_small.py::test_{n}" for n in range(3)),
    *(f"tests/test_of_many.py::test_{n}" for n in range(90)),
    "tests/demo/test_demo.py::test_it",
    "tests/pipeline/spark/test_load.py::test_it",
    "tests/pipeline/spark/test_report.py::test_it",
    "tests/pipeline/spark/test_history.py::test_it",
    "tests/pipeline/spark/test_past.py::test_it",
)


class Worker:
    """Takes in what it is told to run."""

    def __init__(self) -> None:
        self.told: list[list[str]] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.told.append([TESTS[index] for index in indices])


def test_the_longest_are_given_out_first_and_those_on_spark_in_two_parts() -> None:
    shared: Any = LongestFirst.__new__(LongestFirst)
    worker = Worker()
    shared.assigned_work, shared.registered_collections = {}, {worker: list(TESTS)}
    shared.workqueue = OrderedDict()
    for test in TESTS:
        shared.workqueue.setdefault(shared._split_scope(test), {})[test] = False
    while shared.workqueue:
        shared._assign_work_unit(worker)
    assert [(unit[0].partition("::")[0], len(unit)) for unit in worker.told] == [
        ("tests/pipeline/spark/test_load.py", 2),
        ("tests/pipeline/spark/test_report.py", 2),
        ("tests/demo/test_demo.py", 1),
        ("tests/test_of_many.py", 90),
        ("tests/test_small.py", 3),
    ]


@pytest.mark.parametrize("scope", sorted({*LONG_S, *ANSWERS}))
def test_what_is_known_to_take_long_exists(scope: str) -> None:
    assert (ROOT / scope).exists()
