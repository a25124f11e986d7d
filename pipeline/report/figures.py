"""The plots of the report: plain values in, a picture out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Final, NamedTuple

import matplotlib as mpl
import numpy as np

from .drawing import COLOURS, GREY, Picture, drawn, to_date, with_time_axis

__all__ = [
    "Alive",
    "Mark",
    "Span",
    "availability_map",
    "broker_timeline",
    "detection_curves",
    "ladders",
    "shares_alive",
]

_WIDTH_IN: Final = 9.0
_ROW_IN: Final = 0.22
_FRAME_IN: Final = 1.3
_BAR: Final = 0.7
_COLUMNS: Final = 96
_PERCENTILES: Final = (50, 95, 99)
_ISOLATIONS_S: Final = (0, 1, 10, 60, 600)
_SOONEST_S: Final = 1e-3
_SIGNS: Final = ("x", "o", "s", "^", "v", "D", "*")
_UNKNOWN: Final = "#dddddd"
_ENDS: Final = ("open", "clean", "replaced", "expired", "fenced", "moved", "forgotten")
_END_COLOURS: Final = dict(zip(_ENDS, (COLOURS[place] for place in (2, 0, 5, 3, 4, 6, 1)), strict=True))
"""Calm ones for what is meant to happen."""


class Span(NamedTuple):
    """The time that a report is about, ms since 1970."""

    begin_ms: int
    end_ms: int


class Alive(NamedTuple):
    """A broker was alive from `begin_ms` to `end_ms`, and then away until `away_until_ms`; ms since 1970.

    `ended` says how it ended. Of other times nobody knows.
    """

    broker: str
    begin_ms: int
    end_ms: int
    ended: str
    away_until_ms: int


class Mark(NamedTuple):
    """Something happened to a broker; '' = to all of them."""

    broker: str
    at_ms: int
    what: str


def broker_timeline(sessions: Sequence[Alive], marks: Iterable[Mark], span: Span) -> str:
    """Return bars of the times in which brokers were alive, coloured by how they ended, with marks."""
    brokers = _brokers(sessions)
    ends = sorted({one.ended for one in sessions})
    with drawn(_WIDTH_IN, _height_in(len(brokers))) as picture:
        axes = picture.axes
        for ended in ends:
            bars = [one for one in sessions if one.ended == ended]
            axes.barh(
                [brokers[one.broker] for one in bars],
                [to_date(one.end_ms) - to_date(one.begin_ms) for one in bars],
                left=[to_date(one.begin_ms) for one in bars],
                height=_BAR,
                color=_END_COLOURS.get(ended, GREY),
                label=ended,
            )
        if ends:
            picture.figure.legend(title="ended", loc="outside right upper", frameon=False)
        _draw(picture, list(marks), brokers)
        _name_rows(picture, brokers)
        with_time_axis(axes, *span)
        return picture.url


def _draw(picture: Picture, marks: Sequence[Mark], brokers: Mapping[str, int]) -> None:
    """Draw what was done to brokers, each kind with a sign of its own, and to the store as a line."""
    of_brokers = [mark for mark in marks if mark.broker in brokers]
    signs = dict(zip(sorted({mark.what for mark in of_brokers}), cycle(_SIGNS), strict=False))
    handles = []
    for what, sign in signs.items():
        chosen = [mark for mark in of_brokers if mark.what == what]
        places = [to_date(mark.at_ms) for mark in chosen], [brokers[mark.broker] for mark in chosen]
        handles += picture.axes.plot(*places, sign, color="black", fillstyle="none", label=what)
    for mark in marks:
        if not mark.broker:
            picture.axes.axvline(to_date(mark.at_ms), color="black", linestyle=":", linewidth=0.8)
    if handles:
        picture.figure.legend(handles=handles, loc="outside right lower", frameon=False)


def shares_alive(sessions: Iterable[Alive], brokers: Mapping[str, int], span: Span) -> np.ndarray:
    """Return the share of each column's known time in which each broker was alive; nan = none is known.

    Rows are brokers.
    """
    edges = np.linspace(span.begin_ms, max(span.end_ms, span.begin_ms + 1), _COLUMNS + 1)
    alive_ms, known_ms = np.zeros((2, max(len(brokers), 1), _COLUMNS))
    for one in sessions:
        row = brokers[one.broker]
        alive_ms[row] += _overlaps_ms(edges, one.begin_ms, one.end_ms)
        known_ms[row] += _overlaps_ms(edges, one.begin_ms, one.away_until_ms)
    return np.divide(alive_ms, known_ms, out=np.full_like(known_ms, np.nan), where=known_ms > 0)


def _overlaps_ms(edges: np.ndarray, begin_ms: float, end_ms: float) -> np.ndarray:
    overlaps: np.ndarray = np.clip(np.minimum(edges[1:], end_ms) - np.maximum(edges[:-1], begin_ms), 0, None)
    return overlaps


def availability_map(sessions: Sequence[Alive], span: Span) -> str:
    """Return a map of which broker was alive when: dark = never, light = always, grey = nobody knows."""
    brokers = _brokers(sessions)
    with drawn(_WIDTH_IN, _height_in(len(brokers))) as picture:
        end_ms = max(span.end_ms, span.begin_ms + 1)
        image = picture.axes.imshow(
            shares_alive(sessions, brokers, span),
            aspect="auto",
            origin="lower",
            cmap=mpl.colormaps["cividis"].with_extremes(bad=_UNKNOWN),
            vmin=0,
            vmax=1,
            extent=(to_date(span.begin_ms), to_date(end_ms), -0.5, max(len(brokers), 1) - 0.5),
            interpolation="nearest",
        )
        picture.figure.colorbar(image, ax=picture.axes, label="share of the time alive")
        _name_rows(picture, brokers)
        with_time_axis(picture.axes, *span)
        return picture.url


def detection_curves(delays_s: Mapping[str, Sequence[float | None]]) -> str:
    """Return, for each way to find out, the share of the failures that are known after so many seconds.

    None = it did not become known that way, as when the broker was back before.
    """
    with drawn(_WIDTH_IN, 4.0) as picture:
        axes = picture.axes
        for (name, values), colour in zip(delays_s.items(), _cycle(len(delays_s)), strict=True):
            if not values:
                continue
            known = np.sort([max(value, _SOONEST_S) for value in values if value is not None])
            seconds = [*known[:1], *known]
            shares = np.arange(len(seconds)) / len(values)
            axes.step(seconds, shares, where="post", color=colour, label=_told(name, known, len(values)))
        latest_s = max((value for values in delays_s.values() for value in values if value), default=0.5)
        axes.set_xlim(_SOONEST_S, max(1.0, 2 * latest_s))
        axes.set_ylim(0, 1.05)
        axes.set_xscale("log")
        axes.set_xlabel("seconds after the failure")
        axes.set_ylabel("share of the failures")
        if axes.get_lines():
            picture.figure.legend(loc="outside upper left", frameon=False, fontsize=8)
        return picture.url


def _told(name: str, known_s: np.ndarray, count: int) -> str:
    if not len(known_s):
        return f"{name}: none of {count}"
    p50, p95, p99 = np.percentile(known_s, _PERCENTILES, method="inverted_cdf")  # as DETECTION_SUMMARY
    return f"{name}: {len(known_s)} of {count}; p50 {p50:.3g} s, p95 {p95:.3g} s, p99 {p99:.3g} s"


def ladders(steps: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return how long a broker is left alone after a send that took so long: (latency ms, isolation ms)."""
    with drawn(_WIDTH_IN, 3.0) as picture:
        axes = picture.axes
        end_ms = 2 * max((latency for ladder in steps.values() for latency, _ in ladder), default=1.0)
        for (name, ladder), colour in zip(steps.items(), _cycle(len(steps)), strict=True):
            ordered = sorted(ladder)
            latencies = [1.0, *(max(1.0, latency) for latency, _ in ordered), end_ms]
            isolations_s = [0.0, *(isolation / 1000 for _, isolation in ordered)]
            axes.step(latencies, [*isolations_s, isolations_s[-1]], where="post", color=colour, label=name)
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_yticks(_ISOLATIONS_S, map(str, _ISOLATIONS_S))
        axes.set_xlabel("latency of a send, ms")
        axes.set_ylabel("left alone for, s")
        if steps:
            axes.legend(loc="upper left", frameon=False)
        return picture.url


def _brokers(sessions: Iterable[Alive]) -> dict[str, int]:
    """Return the row of each broker: by name, the first one on top."""
    names = sorted({one.broker for one in sessions}, reverse=True)
    return {name: row for row, name in enumerate(names)}


def _name_rows(picture: Picture, brokers: Mapping[str, int]) -> None:
    picture.axes.set_yticks(range(len(brokers)), list(brokers))
    picture.axes.set_ylim(-0.5, max(len(brokers), 1) - 0.5)


def _height_in(rows: int) -> float:
    return _FRAME_IN + _ROW_IN * max(rows, 3)


def _cycle(count: int) -> list[str]:
    """Return that many colours; grey when they run out."""
    return [COLOURS[number] if number < len(COLOURS) else GREY for number in range(count)]
