"""What a page says of an answer holds for all of its rows, however many there are."""

from __future__ import annotations

import pyarrow as pa

from sharedroutes.pipeline.report.found import Found

MANY = Found(
    pa.table({"broker": [f"b{n:05d}" for n in range(6_000)], "away_ms": range(6_000), "n": [1] * 6_000})
)


def test_sums_and_counts_are_of_all_rows_and_only_the_first_are_shown() -> None:
    assert (MANY.total, MANY.sum("n"), len(MANY.rows)) == (6_000, 6_000, 5_000)
    assert Found(pa.table({"n": pa.array([], pa.int64())})).sum("n") == 0


def test_what_is_drawn_is_not_cut() -> None:
    assert len(MANY.values("n")) == 6_000
    assert len(MANY.of(("broker",), [(f"b{n:05d}",) for n in range(6_000)])) == 6_000


def test_the_largest_are_found_wherever_they_stand() -> None:
    assert [row["broker"] for row in MANY.most("away_ms", 2)] == ["b05999", "b05998"]


def test_the_rows_of_some_keys_are_found_wherever_they_stand() -> None:
    found = MANY.of(("broker",), [("b05999",), ("b00003",), ("nobody",)])
    assert [row["away_ms"] for row in found] == [3, 5_999]
    assert MANY.of(("broker",), []) == []
