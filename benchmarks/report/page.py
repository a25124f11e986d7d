"""The page, the plots that it shows, and a page of figures for each benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any, Final, NamedTuple

from ..__main__ import BENCHMARKS
from ..kit.command import number
from ..kit.registries.all import REGISTRIES
from ..kit.registries.ours import OURS
from ..peers import crash, lookup, propagate, register, watchers
from .runs import Cell, Run, benchmarks_of, by_registry, cell_of
from .templates import TEMPLATES

NAME: Final = "benchmarks"
_COLUMNS: Final = {
    register.WHAT: "a broker registered",
    lookup.COLD: "a route asked of the server",
    lookup.CACHED: "a route read from memory",
    propagate.CHANGE: "a change known, p50",
    propagate.CHANGE_P99: "p99",
    propagate.PING: "least request, p50",
    crash.KNOWN: "a crash known, p50",
    crash.KNOWN_P99: "p99 ",
    watchers.LAST: "last of the watchers knows",
    watchers.MEMORY: "memory of the server with them",
    watchers.IDLE_CPU: "its CPU while nothing changes",
    watchers.CHANGE_CPU: "its CPU for one change",
}
_OF_ALL_ROUNDS: Final = {propagate.CHANGE_P99, crash.KNOWN_P99}
_PLOTS: Final = {
    "register": (register.WHAT, "A broker with 1,000 topics is registered"),
    "lookup": (lookup.COLD, "A route is asked of the server"),
    "cached": (lookup.CACHED, "A route is read from the memory of a client"),
    "propagate": (propagate.CHANGE, "A change is known to another process, p50"),
    "crash": (crash.KNOWN, "A killed broker is known to a client, p50"),
    "watchers": (watchers.LAST, "The last of all watchers knows of a change"),
}
_LEFT: Final = 260
_WIDTH: Final = 480
_ROW: Final = 26
_TOP: Final = 52


class Bar(NamedTuple):
    """A row of a plot; places in pixels."""

    name: str
    y: int
    end: float
    low: float
    high: float
    label: str
    ours: bool


class Tick(NamedTuple):
    """A place on its axis."""

    x: float
    label: str


def text(runs: Sequence[Run]) -> str:
    """Return the page in Markdown."""
    columns = {what: by_registry(runs, what) for what in _COLUMNS}
    registries = _in_order(name for cells in columns.values() for name in cells)
    return TEMPLATES.get_template("page.md.j2").render(
        runs=runs,
        benchmarks=[*benchmarks_of(runs)],
        missing=[name for name in BENCHMARKS if name not in {one["name"] for one in benchmarks_of(runs)}],
        questions={name: one.question for name, one in BENCHMARKS.items()},
        heads=[head.strip() for what, head in _COLUMNS.items() if columns[what]],
        rows={
            name: [_shown(what, cells.get(name)) for what, cells in columns.items() if cells]
            for name in registries
        },
        plots={name: title for name, (what, title) in _PLOTS.items() if by_registry(runs, what)},
        quick=any(run["quick"] for run in runs),
    )


def figures(runs: Sequence[Run]) -> dict[str, str]:
    """Return a page in Markdown for each benchmark, by its name: all its figures."""
    template = TEMPLATES.get_template("figures.md.j2")
    return {one["name"]: template.render(benchmark=one, figures=_figures) for one in benchmarks_of(runs)}


def plots(runs: Sequence[Run]) -> dict[str, str]:
    """Return each plot as SVG, by name; those of which nothing was measured are left out."""
    template = TEMPLATES.get_template("bars.svg.j2")
    found = {}
    for name, (what, title) in _PLOTS.items():
        cells = by_registry(runs, what)
        if cells:
            bars, ticks = _bars(cells)
            found[name] = template.render(
                title=title,
                bars=bars,
                ticks=ticks,
                left=_LEFT,
                right=_LEFT + _WIDTH,
                bottom=_TOP + _ROW * len(bars),
            )
    return found


def _bars(cells: Mapping[str, Cell]) -> tuple[list[Bar], list[Tick]]:
    """Return the bars, on an axis of powers of ten: the registries differ by more than a thousand times."""
    least = floor(log10(min(cell.low for cell in cells.values())))
    most = max(ceil(log10(max(cell.high for cell in cells.values()))), least + 1)

    def place(value: float) -> float:
        return round(_LEFT + _WIDTH * (log10(value) - least) / (most - least), 1)

    bars = [
        Bar(
            name,
            _TOP + _ROW * row,
            place(cell.median),
            place(cell.low),
            place(cell.high),
            f"{number(cell.median)} {cell.unit}",
            name.startswith("sharedroutes"),
        )
        for row, (name, cell) in enumerate((name, cells[name]) for name in _in_order(cells))
    ]
    unit = next(iter(cells.values())).unit
    ticks = [Tick(place(10.0**power), f"{10.0**power:,g} {unit}") for power in range(least, most + 1)]
    return bars, ticks


def _in_order(names: Iterable[str]) -> list[str]:
    """Return the registries, each once: ours, the others, and what a store can do at most."""
    found = dict.fromkeys(names)
    known = dict.fromkeys([OURS.name, crash.BESIDE, *REGISTRIES])
    return [*(name for name in known if name in found), *(name for name in found if name not in known)]


def _shown(what: str, cell: Cell | None) -> str:
    if cell is None:
        return ""
    shown = f"{number(cell.median)} {cell.unit}"
    if cell.rounds > 1:
        return f"{shown} ({number(cell.low)} to {number(cell.high)})"
    return shown if what in _OF_ALL_ROUNDS else f"{shown} (one round)"


def _figures(benchmark: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Return what a benchmark has found, a row a figure."""
    for figure in benchmark["figures"]:
        cell = cell_of(figure)
        target = figure["target"]
        wanted = "" if target is None else f"{target['bound']} {target['limit']:g}"
        verdict = {None: "", True: ", met", False: ", not met"}[figure["met"]]
        spread = f"{number(cell.low)} to {number(cell.high)}" if cell.rounds > 1 else ""
        yield figure["name"], number(cell.median), spread, cell.unit, str(cell.rounds), wanted + verdict
