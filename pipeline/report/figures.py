"""The plots of the report: plain values in, a picture out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

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
_ENDS: Final = ("open", "clean", "replaced", "expired", "fenced", "moved", "forgotten")
_END_COLOURS: Final = dict(zip(_ENDS, (COLOURS[place] for place in (2, 0, 5, 3, 4, 6, 1)), strict=True))
"""Calm ones for what is meant to happen."""


class Span(NamedTuple):
    """The time that a report is about, ms since 1970."""

    begin_ms: int
    end_ms: int


class Alive(NamedTuple):
    """A broker was alive from one time to another, ms since 1970; `ended` says how that ended."""

    broker: str
    begin_ms: int
    end_ms: int
    ended: str


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
        for mark in marks:
            _draw(picture, mark, brokers)
        _name_rows(picture, brokers)
        with_time_axis(axes, *span)
        if ends:
            picture.figure.legend(title="ended", loc="outside right upper", frameon=False)
        return picture.url


def _draw(picture: Picture, mark: Mark, brokers: Mapping[str, int]) -> None:
    at = to_date(mark.at_ms)
    if mark.broker in brokers:
        picture.axes.plot([at], [brokers[mark.broker]], marker="x", color="black", linestyle="none")
    elif not mark.broker:
        picture.axes.axvline(at, color="black", linestyle=":", linewidth=0.8)


def shares_alive(sessions: Iterable[Alive], brokers: Mapping[str, int], span: Span) -> np.ndarray:
    """Return the share of each column's time in which each broker was alive: rows are brokers."""
    edges = np.linspace(span.begin_ms, max(span.end_ms, span.begin_ms + 1), _COLUMNS + 1)
    shares = np.zeros((max(len(brokers), 1), _COLUMNS))
    for one in sessions:
        overlap = np.minimum(edges[1:], one.end_ms) - np.maximum(edges[:-1], one.begin_ms)
        shares[brokers[one.broker]] += np.clip(overlap, 0, None) / np.diff(edges)
    return np.clip(shares, 0, 1)


def availability_map(sessions: Sequence[Alive], span: Span) -> str:
    """Return a map of which broker was alive when: dark = never in that column, light = all the time."""
    brokers = _brokers(sessions)
    with drawn(_WIDTH_IN, _height_in(len(brokers))) as picture:
        end_ms = max(span.end_ms, span.begin_ms + 1)
        image = picture.axes.imshow(
            shares_alive(sessions, brokers, span),
            aspect="auto",
            origin="lower",
            cmap="cividis",
            vmin=0,
            vmax=1,
            extent=(to_date(span.begin_ms), to_date(end_ms), -0.5, max(len(brokers), 1) - 0.5),
            interpolation="nearest",
        )
        picture.figure.colorbar(image, ax=picture.axes, label="share of the time alive")
        _name_rows(picture, brokers)
        with_time_axis(picture.axes, *span)
        return picture.url


def detection_curves(delays_s: Mapping[str, Sequence[float]]) -> str:
    """Return, for each way to find out, the share of the failures that are known after so many seconds."""
    with drawn(_WIDTH_IN, 4.0) as picture:
        axes = picture.axes
        for (name, values), colour in zip(delays_s.items(), _cycle(len(delays_s)), strict=True):
            if not values:
                continue
            ordered = np.sort(np.maximum(np.asarray(values, dtype=float), 1e-3))
            p50, p95, p99 = np.percentile(ordered, _PERCENTILES)
            label = f"{name}: p50 {p50:.3g} s, p95 {p95:.3g} s, p99 {p99:.3g} s (n = {len(ordered)})"
            shares = np.arange(1, len(ordered) + 1) / len(ordered)
            axes.step(np.r_[ordered[0], ordered], np.r_[0, shares], where="post", color=colour, label=label)
        axes.set_xscale("log")
        axes.set_xlabel("seconds after the failure")
        axes.set_ylabel("share of the failures")
        if axes.get_lines():
            picture.figure.legend(loc="outside upper left", frameon=False, fontsize=8)
        return picture.url


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
