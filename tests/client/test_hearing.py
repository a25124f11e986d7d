"""How a client hears of changes: by its doorbell, by the tail of the stream, or not at all."""

from __future__ import annotations

import logging

import pytest

from sharedroutes.client.hearing import Hearing
from sharedroutes.registry import Change, ChangeKind, ChangePage, StoreRefused
from sharedroutes.registry.change_stream.core import DEAF_AFTER, REFUSED_PAUSE_S

KEY = "{sharedroutes}:changes"
PLACE = "1700000000000-1"
TAIL_S = 1.0
NEWS = (Change(kind=ChangeKind.TOPICS, broker_name="a", broker_id=0, epoch=1, changed=("t",)),)


@pytest.fixture
def hearing() -> Hearing:
    """Return what a client hears by that has found its place."""
    hearing = Hearing(KEY, TAIL_S)
    hearing.begin(PLACE, 0.0)
    return hearing


def page(*changes: Change, lost: bool = False, complete: bool = True) -> ChangePage:
    return ChangePage(changes, PLACE, lost, complete)


def test_the_tail_is_read_at_once_at_first_and_then_after_a_while(hearing: Hearing) -> None:
    assert Hearing(KEY, TAIL_S).tail_at == 0.0
    assert hearing.tail_at == TAIL_S
    hearing.read(page(), 5.0)
    assert hearing.tail_at == 5.0 + TAIL_S


@pytest.mark.parametrize("what", ["a part", "lost", "missed", "no answer"])
def test_the_tail_is_read_at_once_when_something_is_left_or_may_have_been_missed(
    hearing: Hearing, what: str
) -> None:
    before = hearing.misses_nothing
    if what == "missed":
        assert hearing.rang(b"") == ()
    elif what == "no answer":
        hearing.lost_touch()
    else:
        hearing.read(page(lost=what == "lost", complete=what == "lost"), 0.0)
    assert hearing.tail_at == 0.0
    assert (before, hearing.misses_nothing) == (True, False)
    assert hearing.position == (None if what == "lost" else PLACE)


def test_while_the_streams_key_is_foreign_changes_may_be_missed_and_it_is_looked_at_as_ever(
    hearing: Hearing,
) -> None:
    hearing.found_foreign(0.0)
    assert not hearing.misses_nothing
    assert hearing.tail_at == TAIL_S
    hearing.read(page(), 1.0)
    assert hearing.misses_nothing


def test_a_doorbell_without_a_stream_tells_of_its_change_and_has_the_key_looked_at(hearing: Hearing) -> None:
    (change,) = hearing.rang(b'- - {"kind":"up","broker":"a","epoch":1}')
    assert (change.kind, change.broker_name) == (ChangeKind.UP, "a")
    assert hearing.tail_at == 0.0
    assert hearing.position == PLACE


def test_what_a_foreign_stream_and_its_doorbell_do_not_tell_of_is_missed_once(hearing: Hearing) -> None:
    assert [hearing.found_foreign(float(now)) for now in range(3)] == [True, False, False]
    hearing.rang(b'- - {"kind":"up","broker":"a","epoch":1}')
    assert not hearing.found_foreign(3.0)
    hearing.rang(b"- - ")
    assert [hearing.found_foreign(float(now)) for now in (4, 5)] == [True, False]


def test_a_doorbell_that_did_not_ring_for_some_changes_in_a_row_is_dead_until_it_is_renewed(
    hearing: Hearing,
) -> None:
    for _ in range(DEAF_AFTER):
        assert not hearing.is_dead
        hearing.read(page(*NEWS), 0.0)
        hearing.read(page(), 0.0)
    assert hearing.is_dead
    hearing.renewed()
    assert not hearing.is_dead


def test_changes_that_the_doorbell_had_no_chance_to_tell_do_not_count(hearing: Hearing) -> None:
    for _ in range(2 * DEAF_AFTER):
        hearing.lost_touch()
        hearing.read(page(*NEWS), 0.0)
    hearing.refused(StoreRefused("NOPERM"), 0.0)
    for _ in range(2 * DEAF_AFTER):
        hearing.read(page(*NEWS), 0.0)
    assert not hearing.is_dead


def test_a_doorbell_that_is_refused_is_said_once_and_done_without_for_a_while(
    hearing: Hearing, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for now in (0.0, REFUSED_PAUSE_S):
        assert not hearing.deaf(now)
        hearing.refused(StoreRefused("NOPERM"), now)
        assert hearing.deaf(now)
    assert [record.levelno for record in caplog.records] == [logging.INFO]
    assert "every 1.0 s: NOPERM" in caplog.text
