"""Plots of a run, as SVG: what processes took, and how long attempts took, with the faults behind them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from tests.faults.checker.history import Event, Fault, Sent, Usage

_WIDTH: Final = 960
_HEIGHT: Final = 360
_LEFT: Final = 60
_RIGHT: Final = 170
_TOP: Final = 30
_BOTTOM: Final = 30
_TICKS: Final = 5
_WINDOW_S: Final = 5.0
_COLORS: Final = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b"),
    *("#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#3b3b98", "#218c74"),
)


class Point(NamedTuple):
    """A value at a time, in seconds since the begin."""

    at_s: float
    value: float


Lines = Mapping[str, Sequence[Point]]


def plots_of(history: Sequence[Event]) -> dict[str, str]:
    """Return the plots of a history by name: memory, descriptors, latency."""
    begin_us = history[0].at_us
    end_s = (history[-1].at_us - begin_us) / 1e6
    faults = [*_windows(history, begin_us, end_s)]
    memory, descriptors = defaultdict[str, list[Point]](list), defaultdict[str, list[Point]](list)
    for event in history:
        if isinstance(event, Usage):
            at_s = (event.at_us - begin_us) / 1e6
            memory[event.process].append(Point(at_s, event.rss_kb / 1_000))
            descriptors[event.process].append(Point(at_s, event.descriptors))
    return {
        "memory": svg("Resident memory, MB", memory, faults, end_s),
        "descriptors": svg("Descriptors", descriptors, faults, end_s),
        "latency": svg("Attempts, ms: half of them and 99 % within", _latency(history), faults, end_s),
    }


def _windows(history: Iterable[Event], begin_us: int, end_s: float) -> Iterator[tuple[float, float, str]]:
    open_: dict[tuple[str, str], float] = {}
    for event in history:
        if isinstance(event, Fault):
            key, at_s = (event.name, event.target), (event.at_us - begin_us) / 1e6
            if event.phase == "begin":
                open_[key] = at_s
            elif key in open_:
                yield open_.pop(key), at_s, event.name
    for (name, _), at_s in open_.items():
        yield at_s, end_s, name


def _latency(history: Sequence[Event]) -> Lines:
    begin_us = history[0].at_us
    took_ms: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for event in history:
        if isinstance(event, Sent):
            window = int((event.at_us - begin_us) / 1e6 / _WINDOW_S)
            took_ms[event.who][window].append((event.at_us - event.began_us) / 1_000)
    found: dict[str, list[Point]] = {}
    for who, windows in took_ms.items():
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            found[f"{who} {name}"] = [
                Point((window + 0.5) * _WINDOW_S, sorted(times)[int(share * (len(times) - 1))])
                for window, times in sorted(windows.items())
            ]
    return found


def svg(title: str, lines: Lines, faults: Sequence[tuple[float, float, str]], end_s: float) -> str:
    """Return a line chart over time, with the faults as grey bands that name themselves."""
    top = max((point.value for points in lines.values() for point in points), default=1.0) or 1.0
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def x(at_s: float) -> float:
        return _LEFT + (right - _LEFT) * min(at_s / max(end_s, 1e-9), 1.0)

    def y(value: float) -> float:
        return bottom - (bottom - _TOP) * value / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-size="11">',
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(title)}</text>',
    ]
    for since_s, until_s, name in faults:
        width = max(x(until_s) - x(since_s), 1.0)
        parts.append(
            f'<rect x="{x(since_s):.1f}" y="{_TOP}" width="{width:.1f}" height="{bottom - _TOP}" '
            f'fill="#ddd" opacity="0.6"><title>{escape(name)}</title></rect>'
        )
    for tick in range(_TICKS + 1):
        at_s, value = end_s * tick / _TICKS, top * tick / _TICKS
        parts.append(f'<text x="{x(at_s):.1f}" y="{_HEIGHT - 10}" text-anchor="middle">{at_s:.0f} s</text>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for number, (name, points) in enumerate(sorted(lines.items())):
        color = _COLORS[number % len(_COLORS)]
        path = " ".join(f"{x(point.at_s):.1f},{y(point.value):.1f}" for point in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.3"/>')
        parts.append(
            f'<text x="{right + 8}" y="{_TOP + 14 * number + 10}" fill="{color}">{escape(name)}</text>'
        )
    return "\n".join((*parts, "</svg>")) + "\n"


def write_plots(folder: Path, deployment: str, history: Sequence[Event]) -> Iterator[Path]:
    """Write the plots of a run into a folder; yield where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in plots_of(history).items():
        path = folder / f"{deployment}-{name}.svg"
        path.write_text(text, encoding="utf-8")
        yield path
