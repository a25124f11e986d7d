"""Runs as their files have them: documents of JSON, merged so that each benchmark is there once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

Run: TypeAlias = dict[str, Any]
"""What `python -m benchmarks --out` writes: the machine, its load, and benchmarks."""

_DIGITS: Final = 5


class Cell(NamedTuple):
    """A figure: its median, and between which values the middle half of its rounds is."""

    median: float
    low: float
    high: float
    unit: str
    rounds: int


def merged(documents: Iterable[Run | list[Run]]) -> list[Run]:
    """Return the runs, each without the benchmarks that a later one has too; empty ones are left out."""
    runs = [run for document in documents for run in (document if isinstance(document, list) else [document])]
    seen: set[str] = set()
    kept: list[Run] = []
    for run in reversed(runs):
        benchmarks = [one for one in run["benchmarks"] if one["name"] not in seen]
        seen |= {one["name"] for one in benchmarks}
        if benchmarks:
            kept.append({**run, "benchmarks": [_short(one) for one in benchmarks]})
    return kept[::-1]


def _short(benchmark: Mapping[str, Any]) -> dict[str, Any]:
    """Return a benchmark whose numbers have no more digits than anybody reads."""
    figures = [{key: _rounded(value) for key, value in one.items()} for one in benchmark["figures"]]
    return {**benchmark, "figures": figures}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def benchmarks_of(runs: Sequence[Run]) -> Iterator[Mapping[str, Any]]:
    """Return all benchmarks."""
    for run in runs:
        yield from run["benchmarks"]


def by_registry(runs: Sequence[Run], what: str) -> dict[str, Cell]:
    """Return what was measured of each registry: the figures that are named `what: REGISTRY`."""
    found = {}
    for benchmark in benchmarks_of(runs):
        for figure in benchmark["figures"]:
            said, _, registry = figure["name"].partition(": ")
            if said == what and " / " not in registry:
                found[registry] = cell_of(figure)
    return found


def cell_of(figure: Mapping[str, Any]) -> Cell:
    """Return a figure as it is shown."""
    low, high = figure["quartiles"]
    return Cell(figure["median"], low, high, figure["unit"], len(figure["rounds"]))
