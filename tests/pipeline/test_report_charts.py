"""Where bars and ticks of the charts lie."""

from __future__ import annotations

from typing import Any

from sharedroutes.pipeline.report.charts import Span, ranges, time_ticks

NOON_MS = 1_795_262_400_000
"""2026-11-21 12:00:00 UTC."""


def told(stage: str, ends: int = 4, p50: float = 100.0, most: float = 10_000.0) -> dict[str, Any]:
    row = {"registry": "r", "stage": stage, "ends": ends, "p50_ms": p50, "p95_ms": most, "p99_ms": most}
    return {**row, "max_ms": most}


def test_a_time_lies_within_its_span() -> None:
    span = Span(100, 300)
    assert [span.place(at_ms) for at_ms in (0, 100, 150, 300, 999)] == [0, 0, 25, 100, 100]
    assert Span(5, 5).place(5) == 0


def test_ticks_are_few_and_round() -> None:
    hour = time_ticks(Span(NOON_MS + 1, NOON_MS + 3_600_000))
    assert [tick.text for tick in hour] == ["12:20", "12:40", "13:00"]
    minute = time_ticks(Span(NOON_MS, NOON_MS + 60_000))
    assert [tick.text for tick in minute] == ["12:00:00", "12:00:20", "12:00:40", "12:01:00"]
    night = time_ticks(Span(NOON_MS, NOON_MS + 30 * 3_600_000))
    assert [tick.text for tick in night] == ["11-21 12:00", "18:00", "11-22 00:00", "06:00", "12:00", "18:00"]
    days = time_ticks(Span(NOON_MS, NOON_MS + 9 * 86_400_000))
    assert [tick.text for tick in days][:2] == ["11-23", "11-25"]


def test_a_range_goes_from_half_of_the_ends_to_the_last_one() -> None:
    chart = ranges([told("told"), told("rocketmq told", p50=100_000.0, most=100_000.0)])
    assert chart is not None
    (ours,), (theirs,) = (lane.bars for lane in chart.lanes)
    assert (ours.at, round(ours.at + ours.length, 6)) == (0, 66.666667)
    assert (theirs.at, theirs.length) == (100, 0)
    assert [tick.text for tick in chart.ticks] == ["100 ms", "1 s", "10 s", "1 min 40 s"]


def test_what_has_nothing_is_neither_drawn_nor_in_the_legend() -> None:
    assert ranges([]) is None
    assert ranges([told("told", ends=0)]) is None
    chart = ranges([told("told"), told("client knew", ends=0), told("told late")])
    assert chart is not None
    assert [lane.name for lane in chart.lanes] == ["the registry told it"]
    assert [*(chart.legend or {})] == ["measured"]
