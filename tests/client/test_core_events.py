"""What a client tells of itself: each event when it happens, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharedroutes.client import HintConfig
from sharedroutes.client.core import ClientCore
from sharedroutes.client.observers.events import (
    BrokerIsolated,
    BrokerReturned,
    BrokersSuspected,
    FeedLost,
    LookupDone,
    RoutesChanged,
    SnapshotSaved,
    SnapshotUnusable,
    SourceChanged,
)
from sharedroutes.registry import codec
from tests.client.fake_table import FakeTable
from tests.client.heard import DOWN, PLACE, TAIL_S, Heard, ask, fail, hear, look, make_core

# --- where routes come from ---------------------------------------------------------------------------------


def test_the_first_contact_is_told_without_a_reason(heard: Heard, table: FakeTable) -> None:
    core = make_core(heard)
    core.follower.found_place(PLACE, 0.0)
    look(core, table)
    core.follower.caught_up()
    core.follower.caught_up()
    assert heard.take() == [SourceChanged("none", "live", "")]


def test_a_first_contact_that_fails_is_told_once_and_its_end_once(heard: Heard, table: FakeTable) -> None:
    core = make_core(heard)
    for _ in range(3):
        core.follower.failed(DOWN, 0.0)
    assert heard.take() == [SourceChanged("none", "none", "down")]
    core.follower.found_place(PLACE, 0.0)
    look(core, table)
    core.follower.caught_up()
    assert heard.take() == [SourceChanged("none", "live", "down")]


def test_a_snapshot_is_told_and_that_it_is_all_there_is(
    heard: Heard, table: FakeTable, tmp_path: Path
) -> None:
    path = tmp_path / "routes.json"
    earlier = make_core(snapshot_path=path)
    table.register("a", "t")
    ask(earlier, table, "t")
    earlier.follower.save_snapshot(0.0)
    core = make_core(heard, snapshot_path=path)
    core.follower.load_snapshot()
    assert heard.take() == [SourceChanged("none", "snapshot", "")]
    core.follower.failed(DOWN, 0.0)
    core.follower.failed(DOWN, 0.0)
    assert heard.take() == [SourceChanged("snapshot", "snapshot", "down")]
    hear(core)
    look(core, table)
    core.follower.caught_up()
    assert heard.all(SourceChanged) == [SourceChanged("snapshot", "live", "down")]


def test_an_outage_and_its_end_are_told_once_with_the_first_reason(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    for error in (DOWN, ConnectionError("still"), ConnectionError("down")):
        known.follower.failed(error, 0.0)
        hear(known)  # one answer is no end of trouble
    assert heard.take() == [SourceChanged("live", "memory", "down")]
    look(known, table, 5.0)
    for _ in range(2):
        known.follower.caught_up()
    assert heard.take() == [SourceChanged("memory", "live", "down")]
    known.follower.failed(ConnectionError("again"), 0.0)
    assert heard.take() == [SourceChanged("live", "memory", "again")]


# --- lookups and routes -------------------------------------------------------------------------------------


def test_a_lookup_is_told_with_what_it_asked_for_and_what_changed(
    core: ClientCore, table: FakeTable, heard: Heard
) -> None:
    table.register("a", "t")
    ask(core, table, "t", "no-such", "nor-this")
    assert heard.take() == [RoutesChanged(("t",)), LookupDone(3, 2, 0.25)]


def test_a_look_at_leases_that_finds_nothing_new_is_not_told(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    for now in (TAIL_S, 2 * TAIL_S, 3 * TAIL_S):
        look(known, table, now)
        hear(known, now=now)
    assert heard.take() == []


def test_a_route_that_an_answer_changes_is_told_once(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    table.expire("b")
    look(known, table, TAIL_S)
    look(known, table, 2 * TAIL_S)
    assert heard.take() == [RoutesChanged(("u",))]


def test_a_broker_that_says_itself_that_it_ends_changes_routes_at_once(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    hear(known, table.unregister("a"))
    assert heard.take() == [RoutesChanged(("t",))]


def test_lost_changes_are_told_with_the_last_position(
    known: ClientCore, table: FakeTable, heard: Heard
) -> None:
    hear(known, lost=True)
    assert heard.take() == [FeedLost(PLACE)]
    known.follower.found_place("0-0", 0.5)
    look(known, table, 0.5)
    assert heard.take() == [LookupDone(2, 0, 0.0)]


# --- brokers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["tail", "doorbell"])
def test_an_isolation_is_told_and_ends_when_the_broker_is_started_anew(
    known: ClientCore, table: FakeTable, heard: Heard, by: str
) -> None:
    fail(known, "a")
    assert heard.take() == [BrokerIsolated("a", "failure", 10.0)]
    change = table.come_up("a")
    if by == "tail":
        hear(known, change)
    else:
        known.follower.heard(f"{PLACE} {PLACE[:-1]}2 {codec.encode_change(change).decode()}".encode())
    assert heard.take() == [BrokerReturned("a")]
    look(known, table)
    assert heard.take() == [RoutesChanged(("t",))]


def test_an_isolation_that_ends_by_itself_is_told_when_somebody_looks(
    known: ClientCore, heard: Heard
) -> None:
    fail(known, "b")
    heard.take()
    view = known.view("u")
    assert view is not None
    known.brokers.pick("u", view, frozenset(), 9.9)
    assert heard.take() == []
    known.brokers.pick("u", view, frozenset(), 10.0)
    known.brokers.pick("u", view, frozenset(), 10.0)
    assert heard.take() == [BrokerReturned("b")]


def test_whom_others_cannot_reach_is_told_when_it_changes(heard: Heard) -> None:
    core = make_core(heard, hints=HintConfig())
    hints = {"a": frozenset({"x", "y", "z"})}
    assert core.brokers.hints is not None
    for said in ({}, hints, hints, {}, {}):
        core.brokers.heard(said, ["a", "b"], 0.0)
    assert heard.take() == [BrokersSuspected(("a",)), BrokersSuspected(())]


def test_attempts_are_told_to_observers_and_not_to_the_log(heard: Heard) -> None:
    assert make_core().tell_attempt is None
    assert make_core(heard).tell_attempt is not None


# --- the snapshot -------------------------------------------------------------------------------------------


def test_what_becomes_of_the_file_is_told(heard: Heard, table: FakeTable, tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    core = make_core(heard, snapshot_path=path)
    table.register("a", "t")
    ask(core, table, "t")
    heard.take()
    core.follower.save_snapshot(0.0)
    assert heard.take() == [SnapshotSaved(1)]
    path.write_bytes(b"{")
    core.follower.load_snapshot()
    (event,) = heard.take()
    assert isinstance(event, SnapshotUnusable)
    assert (event.path, event.use) == (str(path), "read")
