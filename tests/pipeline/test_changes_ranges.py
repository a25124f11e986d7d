"""A range of ids is cut into parts that together are the whole, and of about the same length."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.pipeline.sources.ranges import SAMPLE, Range, cut, is_id, order

DAY_MS = 86_400_000
BEGIN_MS = 1_790_000_000_000


class Stream:
    """A stream in memory; counts the entries that are looked at."""

    def __init__(self, places: Sequence[tuple[int, int]]) -> None:
        self.ids = [f"{ms}-{seq}" for ms, seq in places]
        self.orders = [order(entry_id) for entry_id in self.ids]
        self.looked_at = 0

    @property
    def whole(self) -> Range:
        return Range("0-0", self.ids[-1])

    def entries(self, place: Range) -> list[str]:
        return self.ids[
            bisect_right(self.orders, order(place.after)) : bisect_right(self.orders, order(place.until))
        ]

    def probe(self, ranges: Sequence[Range]) -> list[list[str]]:
        found = [self.entries(place)[:SAMPLE] for place in ranges]
        self.looked_at += sum(map(len, found))
        return found

    def cut(self, parts: int, whole: Range | None = None) -> list[list[str]]:
        """Return the entries of each part; check that the parts follow on one another at entries."""
        whole = whole or self.whole
        ranges = cut(whole, parts, len(self.ids), self.probe)
        assert 1 <= len(ranges) <= parts
        assert (ranges[0].after, ranges[-1].until) == (whole.after, whole.until)
        for one, other in pairwise(ranges):
            assert one.until == other.after
            assert one.until in self.ids
        return [self.entries(place) for place in ranges]


def even(count: int) -> list[tuple[int, int]]:
    return [(BEGIN_MS + 3 * number, 0) for number in range(count)]


def burst_after_a_quiet_day() -> list[tuple[int, int]]:
    quiet = [(BEGIN_MS + hour * 3_600_000, 0) for hour in range(24)]
    return [*quiet, *((BEGIN_MS + DAY_MS + number // 10, number % 10) for number in range(20_000))]


def burst_before_a_quiet_day() -> list[tuple[int, int]]:
    burst = [(BEGIN_MS + number // 10, number % 10) for number in range(20_000)]
    return [*burst, *((BEGIN_MS + DAY_MS + hour * 3_600_000, 0) for hour in range(24))]


def two_bursts() -> list[tuple[int, int]]:
    first = [(BEGIN_MS + number, 0) for number in range(10_000)]
    return [*first, *((BEGIN_MS + 30 * DAY_MS + number, 0) for number in range(10_000))]


def all_in_one_ms() -> list[tuple[int, int]]:
    return [(BEGIN_MS, number) for number in range(20_000)]


@pytest.mark.parametrize(
    "places",
    [even(20_000), burst_after_a_quiet_day(), burst_before_a_quiet_day(), two_bursts(), all_in_one_ms()],
    ids=["even", "burst at the end", "burst at the beginning", "two bursts", "all in one ms"],
)
@pytest.mark.parametrize("parts", [2, 4])
def test_parts_are_about_equal_and_few_entries_are_looked_at(
    places: list[tuple[int, int]], parts: int
) -> None:
    stream = Stream(places)
    found = stream.cut(parts)
    assert [entry for part in found for entry in part] == stream.ids
    assert len(found) == parts
    assert max(map(len, found)) < 1.6 * len(stream.ids) / parts
    assert stream.looked_at < len(stream.ids) / 2


def test_a_hot_ms_among_others_is_one_part_and_nothing_is_lost() -> None:
    stream = Stream(
        [*even(100), *((BEGIN_MS + 1_000, number) for number in range(20_000)), (BEGIN_MS + 5_000, 0)]
    )
    found = stream.cut(4)
    assert [entry for part in found for entry in part] == stream.ids


def test_what_is_short_is_not_cut_nor_looked_at() -> None:
    stream = Stream(even(2_000))
    assert len(stream.cut(8)) == 1
    assert stream.looked_at == 0


def test_a_short_range_of_a_long_stream_is_not_cut() -> None:
    stream = Stream(even(20_000))
    assert len(stream.cut(8, Range(stream.ids[-900], stream.ids[-1]))) == 1


def test_a_range_that_is_empty_is_one_part() -> None:
    stream = Stream(even(20_000))
    assert cut(Range(stream.ids[-1], "9999999999999-0"), 4, 20_000, stream.probe) == [
        Range(stream.ids[-1], "9999999999999-0")
    ]


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3_000)), min_size=1, max_size=5),
    st.integers(0, 40),
    st.integers(1, 9),
    st.data(),
)
def test_parts_hold_every_entry_once_whatever_the_stream(
    runs: list[tuple[int, int]], spread: int, parts: int, data: st.DataObject
) -> None:
    places = sorted(
        {
            (BEGIN_MS + (number << spread) + step * index * DAY_MS, step * index)
            for number, (step, length) in enumerate(runs)
            for index in range(length + 1)
        }
    )
    stream = Stream(places)
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(places) - 1)] * 2)))
    whole = data.draw(st.sampled_from([stream.whole, Range(stream.ids[first], stream.ids[last])]))
    found = stream.cut(parts, whole)
    assert [entry for part in found for entry in part] == stream.entries(whole)


@pytest.mark.parametrize(
    ("text", "one"), [("0-0", True), ("1-2", True), ("1", False), ("$", False), ("1-", False)]
)
def test_an_id_is_whole(text: str, *, one: bool) -> None:
    assert is_id(text) is one
