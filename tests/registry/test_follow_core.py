"""What a follower decides, and what it says of trouble; see also test_follow_machine.py."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest

from sharedroutes.registry import (
    Change,
    ChangeKind,
    CorruptData,
    Idle,
    Lookup,
    Reset,
    StoreRefused,
    StoreUnavailable,
    codec,
)
from sharedroutes.registry.change_stream.core import FollowCore, FollowHealth, ResetReason
from sharedroutes.registry.change_stream.stream import Do, Step
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import ORIGIN, ChangePage

KEYS = Keys("test")
HERE, NEXT, AFTER = "1700000000000-1", "1700000000000-2", "1700000000000-3"
AWAY = StoreUnavailable("away")
REFUSED = StoreRefused("no such user")
CORRUPT = CorruptData(KEYS.changes, "is no stream")
UP = Change(kind=ChangeKind.UP, broker_name="broker-a", broker_id=0, epoch=7, change_id=NEXT)
FILLED = Lookup(rows={"t0": ()})


def new_core(position: str | None = None, **options: Any) -> FollowCore:
    settings = {"table": True, "tail_s": 1.0, "rng": random.Random(1), **options}
    return FollowCore(KEYS, position, **settings)


def in_place(position: str = HERE) -> FollowCore:
    """Return a follower that has read its place, its table and the tail at the time 0."""
    core = new_core()
    core.found_place(position, 0.0)
    core.found_table(FILLED, 0.0)
    core.found_page(page(position=position), 0.0)
    assert core.take() == Reset(position, FILLED, ResetReason.START)
    return core


def page(*changes: Change, position: str = HERE, lost: bool = False, complete: bool = True) -> ChangePage:
    return ChangePage(changes, changes[-1].change_id if changes else position, lost, complete)


def bell(previous: str, change_id: str) -> bytes:
    return f"{previous} {change_id} ".encode() + codec.encode_change(UP)


def pauses(core: FollowCore, count: int) -> list[float]:
    """Let everything fail; return the seconds that are paused after each time."""
    found, now = [], 0.0
    for _ in range(count):
        core.failed(AWAY, now)
        step = core.next_step(now)
        assert step.do is Do.PAUSE
        found.append(step.wait_s)
        now += step.wait_s
    assert core.next_step(now).do is not Do.PAUSE
    return found


def test_the_place_is_read_before_the_table_and_the_tail_after_it() -> None:
    core = new_core()
    assert core.next_step(0.0) == Step(Do.READ_PLACE)
    core.found_place(HERE, 0.0)
    assert core.next_step(0.0) == Step(Do.READ_TABLE)
    core.found_table(FILLED, 0.0)
    assert core.next_step(0.0) == Step(Do.READ_TAIL, position=HERE)
    core.found_page(page(), 0.0)
    assert core.next_step(0.25) == Step(Do.HEAR, wait_s=0.75)
    assert core.next_step(1.0) == Step(Do.READ_TAIL, position=HERE)


def test_a_doorbell_in_sequence_needs_no_read() -> None:
    core = in_place()
    core.heard(bell(HERE, NEXT), 0.0)
    assert core.take() == UP
    assert core.next_step(0.0).do is Do.HEAR


@pytest.mark.parametrize(
    "message", [b"", bell("0-0", NEXT), b"nonsense"], ids=["subscribed", "gap", "nonsense"]
)
def test_what_may_hide_a_change_makes_it_read_at_once(message: bytes) -> None:
    core = in_place()
    core.heard(message, 0.0)
    assert core.take() is None
    assert core.next_step(0.0) == Step(Do.READ_TAIL, position=HERE)


def test_changes_that_were_told_before_a_loss_are_handed_out_before_the_table_is_read() -> None:
    core = in_place()
    core.heard(bell(HERE, NEXT), 0.0)
    core.found_page(page(lost=True), 0.0)
    assert core.next_step(0.0).do is Do.AWAIT_ROOM
    assert core.take() == UP
    assert core.next_step(0.0).do is Do.READ_PLACE


def test_the_first_entry_after_an_empty_table_is_told_by_its_doorbell() -> None:
    core = new_core(table=False)
    core.found_place(ORIGIN, 0.0)
    core.found_page(page(position=ORIGIN), 0.0)
    core.take()
    core.heard(bell(ORIGIN, NEXT), 0.0)
    assert core.take() == UP


def test_the_first_entry_of_a_stream_that_was_missing_is_a_reset() -> None:
    core = in_place(ORIGIN)
    core.heard(bell(ORIGIN, NEXT), 0.0)
    assert core.next_step(0.0) == Step(Do.READ_TAIL, position=ORIGIN)
    core.found_page(page(UP, position=ORIGIN), 0.0)
    core.found_place(NEXT, 0.0)
    core.found_table(FILLED, 0.0)
    assert core.take() == Reset(NEXT, FILLED, ResetReason.START)
    assert core.take() is None


@pytest.mark.parametrize("missed", ["connection", "bell", "entry"])
def test_a_follower_begins_anew_when_a_stream_without_entries_may_have_told_of_more(missed: str) -> None:
    core = in_place(ORIGIN)
    if missed == "connection":
        core.failed(AWAY, 1.0)
    elif missed == "bell":
        core.bell_failed(AWAY, 1.0)
    else:
        core.heard(bell(ORIGIN, NEXT), 1.0)
    core.found_page(page(position=ORIGIN), 3.0)
    assert core.next_step(3.0).do is Do.READ_PLACE
    core.found_place(ORIGIN, 3.0)
    core.found_table(FILLED, 3.0)
    assert core.take() == Reset(ORIGIN, FILLED, ResetReason.START)
    core.found_page(page(position=ORIGIN), 3.0)
    assert core.next_step(3.0).do is Do.HEAR


def test_pulses_prove_that_nothing_was_missed_where_a_stream_has_no_entries() -> None:
    core = in_place(ORIGIN)
    core.heard(f"{ORIGIN} {ORIGIN} pulse 1700000000000".encode(), 0.5)
    assert core.next_step(1.0).do is Do.HEAR


def test_idle_tells_the_position_of_what_was_handed_out() -> None:
    core = in_place()
    assert core.idle() == Idle(HERE)
    core.found_page(page(UP), 0.0)
    assert core.take() == UP
    assert core.idle() == Idle(NEXT)


def unreadable(*changes: Change, position: str = NEXT) -> ChangePage:
    return ChangePage(changes, position, lost=False, complete=True, corrupt=(CORRUPT,))


def test_a_change_that_cannot_be_read_is_told_by_a_reset_with_the_table_read_after_it() -> None:
    core = in_place()
    core.found_page(unreadable(UP), 0.0)
    assert core.next_step(0.0) == Step(Do.READ_PLACE)
    core.found_place(NEXT, 0.0)
    assert core.next_step(0.0) == Step(Do.READ_TABLE)
    core.found_table(FILLED, 0.0)
    assert core.take() == Reset(NEXT, FILLED, ResetReason.UNREADABLE)
    assert core.take() is None
    assert core.next_step(0.0) == Step(Do.READ_TAIL, position=NEXT)


def test_the_table_is_not_read_more_than_once_a_second_for_what_cannot_be_read() -> None:
    core = in_place()
    core.found_page(unreadable(), 10.0)
    core.found_place(NEXT, 10.0)
    core.found_table(FILLED, 12.0)
    assert core.take() is not None
    core.found_page(unreadable(position=AFTER), 12.1)
    assert core.next_step(12.1).do is Do.AWAIT_ROOM
    assert core.next_step(13.0) == Step(Do.READ_PLACE)
    core.found_place(AFTER, 13.0)
    core.found_table(FILLED, 13.0)
    assert core.take() == Reset(AFTER, FILLED, ResetReason.UNREADABLE)


def test_a_loss_is_looked_after_at_once_although_there_was_something_unreadable() -> None:
    core = in_place()
    core.found_page(unreadable(), 10.0)
    core.found_place(NEXT, 10.0)
    core.found_table(FILLED, 10.0)
    core.take()
    core.found_page(page(lost=True), 10.1)
    assert core.next_step(10.1) == Step(Do.READ_PLACE)


def test_without_the_table_what_cannot_be_read_is_a_reset_at_once_each_time() -> None:
    core = new_core(HERE, table=False)
    for position in (NEXT, AFTER):
        core.found_page(unreadable(position=position), 0.0)
        assert core.take() == Reset(position, None, ResetReason.UNREADABLE)
        assert core.next_step(0.0) == Step(Do.READ_TAIL, position=position)


def test_pauses_grow_to_a_second_and_are_spread() -> None:
    core = in_place()
    found = pauses(core, 12)
    assert 0.025 <= found[0] <= 0.05
    assert all(0.5 <= pause <= 1.0 for pause in found[6:])
    assert len(set(found)) == len(found)
    core.found_page(page(), 100.0)
    assert pauses(core, 1)[0] <= 0.05


def test_a_place_that_was_found_is_not_yet_the_end_of_an_outage() -> None:
    core = new_core()
    core.failed(AWAY, 0.0)
    core.found_place(HERE, 1.0)
    assert core.health(1.0).last_error == "away"
    core.found_table(FILLED, 1.0)
    assert core.health(1.5) == FollowHealth(HERE, 0.5, None, polling=False)


def test_an_outage_is_said_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    core = in_place()
    for _ in range(2):
        pauses(core, 5)
        core.found_page(page(), 100.0)
        core.found_page(page(), 101.0)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"] * 2


def test_what_is_refused_before_anything_was_told_is_final() -> None:
    core = new_core()
    core.found_place(HERE, 0.0)
    core.failed(REFUSED, 0.0)
    assert core.refused is REFUSED


@pytest.mark.parametrize("error", [AWAY, CORRUPT], ids=str)
def test_other_trouble_at_the_first_contact_is_waited_out(error: Exception) -> None:
    core = new_core()
    core.failed(error, 0.0)
    assert core.refused is None


@pytest.mark.parametrize("core", [in_place(), new_core(HERE)], ids=["after a reset", "at a position"])
def test_what_is_refused_later_on_is_waited_out(core: FollowCore) -> None:
    core.found_page(page(), 0.0)
    core.failed(REFUSED, 0.0)
    assert core.refused is None


def test_a_doorbell_that_was_cut_is_tried_again_soon_and_the_stream_is_read_meanwhile() -> None:
    core = in_place()
    core.bell_failed(AWAY, 0.0)
    assert core.health(0.0).polling
    assert core.next_step(0.0).do is Do.READ_TAIL
    assert core.bell.due_at <= 0.05
    core.heard(b"", 0.0)
    assert not core.health(0.0).polling


# --- keys of the table that are corrupt ---------------------------------------------------------------------

FOREIGN = CorruptData(KEYS.topic("t1"), "is a list")
PARTLY = Lookup(rows={"t0": ()}, corrupt=(FOREIGN,))


def without_a_key() -> FollowCore:
    """Return a follower whose table lacked what a corrupt key holds, at the time 0."""
    core = new_core()
    core.found_place(HERE, 0.0)
    core.found_table(PARTLY, 0.0)
    core.found_page(page(), 0.0)
    core.take()
    return core


def test_a_key_that_was_corrupt_when_following_began_is_told_once_it_is_well() -> None:
    core = without_a_key()
    core.found_page(page(), 29.5)
    assert core.next_step(29.75) == Step(Do.HEAR, wait_s=0.25)
    assert core.next_step(30.0) == Step(Do.READ_TABLE)
    core.looked_again(FILLED, 30.0)
    assert core.take() is None, "changes that came meanwhile would be told before what the table has of them"
    assert core.next_step(30.0) == Step(Do.READ_PLACE)
    core.found_place(NEXT, 30.0)
    core.found_table(FILLED, 30.0)
    assert core.take() == Reset(NEXT, FILLED, ResetReason.UNREADABLE)
    core.found_page(page(position=NEXT), 60.0)
    assert core.next_step(60.0).do is Do.HEAR


def test_while_a_key_is_corrupt_nothing_is_told_anew() -> None:
    core = without_a_key()
    for now in (30.0, 90.0, 210.0):
        core.found_page(page(), now - 0.5)
        assert core.next_step(now - 0.25).do is Do.HEAR
        assert core.next_step(now) == Step(Do.READ_TABLE)
        core.looked_again(Lookup(corrupt=(FOREIGN, CorruptData("another", "is a set"))), now)
        core.found_page(page(), now)
        assert core.next_step(now).do is Do.HEAR
    assert core.take() is None


def test_a_look_at_corrupt_keys_that_fails_keeps_no_change() -> None:
    core = without_a_key()
    step = core.next_step(30.0)
    assert step.failed is not None
    step.failed(CorruptData(KEYS.brokers, "is a list"), 30.0)
    core.heard(bell(HERE, NEXT), 30.0)
    assert core.take() == UP
    core.found_page(page(position=NEXT), 30.0)
    assert core.next_step(30.0).do is Do.HEAR


def test_a_table_without_corrupt_keys_is_not_read_again() -> None:
    core = in_place()
    core.found_page(page(), 1_000.0)
    assert core.next_step(1_000.0).do is Do.HEAR
