"""How near the registry's trim is: short of either bound that the registry keeps, nothing can be lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.pipeline.ingest.headroom import Kept, headroom
from sharedroutes.registry.plans import HistoryBounds

KEPT = Kept(entries=1_000, min_age_ms=600_000)


def bounds(entries: int, first_id: str, last_id: str) -> HistoryBounds:
    return HistoryBounds(first_id, last_id, last_id, entries, None)


def test_who_has_read_all_has_all_the_headroom() -> None:
    found = headroom("r", bounds(1_000, "1-0", "900000-3"), "900000-3", KEPT)
    assert (found.unread, found.behind_ms, found.used, found.overtaken) == (0, 0, 0.0, False)


def test_an_empty_stream_has_nothing_unread() -> None:
    found = headroom("r", HistoryBounds(), "", KEPT)
    assert (found.unread, found.used) == (0, 0.0)


def test_half_of_the_entries_and_more_than_the_age_is_half() -> None:
    found = headroom("r", bounds(1_000, "0-1", "2000000-0"), "1000000-0", KEPT)
    assert (found.unread, found.behind_ms) == (500, 1_000_000)
    assert found.used == pytest.approx(0.5)


def test_many_but_young_entries_are_as_safe_as_they_are_young() -> None:
    found = headroom("r", bounds(50_000, "1000000-0", "1060000-0"), "1000000-0", KEPT)
    assert found.used == pytest.approx(0.1)


def test_without_an_age_only_the_entries_count() -> None:
    found = headroom("r", bounds(500, "1000-0", "2000-0"), "1500-0", Kept(1_000, 0))
    assert found.used == pytest.approx(0.25)


def test_a_stream_that_begins_after_the_position_has_overtaken_the_ingest() -> None:
    found = headroom("r", bounds(1_000, "5000-0", "2000000-0"), "4000-0", KEPT)
    assert found.overtaken
    assert found.unread == 1_000
    assert found.used == pytest.approx(1.0)


@pytest.mark.parametrize("position", ["", "0-0"])
def test_who_has_read_nothing_yet_is_not_overtaken(position: str) -> None:
    found = headroom("r", bounds(1_000, "5000-0", "605000-0"), position, KEPT)
    assert not found.overtaken
    assert (found.unread, found.behind_ms, found.used) == (1_000, 600_000, 1.0)


def test_all_entries_of_one_ms_are_told_apart() -> None:
    found = headroom("r", bounds(10, "7-0", "7-9"), "7-3", KEPT)
    assert 1 <= found.unread <= 9


@given(
    length=st.integers(1, 10**6),
    oldest=st.integers(1, 10**13),
    span=st.integers(0, 10**9),
    at=st.integers(0, 10**13),
)
def test_unread_is_within_what_the_stream_holds(length: int, oldest: int, span: int, at: int) -> None:
    stream = bounds(length, f"{oldest}-0", f"{oldest + span}-1")
    found = headroom("r", stream, f"{at}-0", KEPT)
    assert 0 <= found.unread <= length
    assert found.used >= 0
    assert (found.unread == 0) == (at > oldest + span)
