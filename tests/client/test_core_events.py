"""What a client tells of itself: each event when it happens, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharedroutes.client import HintConfig
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
from tests.client.heard import DOWN, PLACE, TAIL_S, Core

# --- where routes come from ---------------------------------------------------------------------------------


def test_the_first_contact_is_told_without_a_reason(table: FakeTable) -> None:
    core = Core(table)
    core.follower.found_place(PLACE, 0.0)
    core.look()
    core.follower.caught_up()
    core.follower.caught_up()
    assert core.heard.take() == [SourceChanged("none", "live", "")]


def test_a_first_contact_that_fails_is_told_once_and_its_end_once(table: FakeTable) -> None:
    core = Core(table)
    for _ in range(3):
        core.follower.failed(DOWN, 0.0)
    assert core.heard.take() == [SourceChanged("none", "none", "down")]
    core.follower.found_place(PLACE, 0.0)
    core.look()
    core.follower.caught_up()
    assert core.heard.take() == [SourceChanged("none", "live", "down")]


def test_a_snapshot_is_told_and_that_it_is_all_there_is(table: FakeTable, tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    earlier = Core(table, snapshot_path=path)
    table.register("a", "t")
    earlier.ask("t")
    earlier.follower.take_snapshot(0.0)()
    core = Core(table, snapshot_path=path)
    core.follower.load_snapshot()
    assert core.heard.take() == [SourceChanged("none", "snapshot", "")]
    core.follower.failed(DOWN, 0.0)
    core.follower.failed(DOWN, 0.0)
    assert core.heard.take() == [SourceChanged("snapshot", "snapshot", "down")]
    core.hear()
    core.look()
    core.follower.caught_up()
    assert core.heard.all(SourceChanged) == [SourceChanged("snapshot", "live", "down")]


def test_an_outage_and_its_end_are_told_once_with_the_first_reason(known: Core) -> None:
    for error in (DOWN, ConnectionError("still"), ConnectionError("down")):
        known.follower.failed(error, 0.0)
        known.hear()  # one answer is no end of trouble
    assert known.heard.take() == [SourceChanged("live", "memory", "down")]
    known.look(5.0)
    for _ in range(2):
        known.follower.caught_up()
    assert known.heard.take() == [SourceChanged("memory", "live", "down")]
    known.follower.failed(ConnectionError("again"), 0.0)
    assert known.heard.take() == [SourceChanged("live", "memory", "again")]


# --- lookups and routes -------------------------------------------------------------------------------------


def test_a_lookup_is_told_with_what_it_asked_for_and_what_changed(core: Core) -> None:
    core.table.register("a", "t")
    core.ask("t", "no-such", "nor-this")
    assert core.heard.take() == [RoutesChanged(("t",)), LookupDone(3, 2, 0.25)]


def test_a_look_at_leases_that_finds_nothing_new_is_not_told(known: Core) -> None:
    for now in (TAIL_S, 2 * TAIL_S, 3 * TAIL_S):
        known.look(now)
        known.hear(now=now)
    assert known.heard.take() == []


def test_a_route_that_an_answer_changes_is_told_once(known: Core) -> None:
    known.hear(known.table.expire("b"))
    known.look(TAIL_S)
    known.look(2 * TAIL_S)
    assert known.heard.take() == [RoutesChanged(("u",))]


def test_a_broker_that_says_itself_that_it_ends_changes_routes_at_once(known: Core) -> None:
    known.hear(known.table.unregister("a"))
    assert known.heard.take() == [RoutesChanged(("t",))]


def test_lost_changes_are_told_with_the_last_position(known: Core) -> None:
    known.hear(lost=True)
    assert known.heard.take() == [FeedLost(PLACE)]
    known.follower.found_place("0-0", 0.5)
    known.look(0.5)
    assert known.heard.take() == [LookupDone(2, 0, 0.0)]


# --- brokers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["tail", "doorbell"])
def test_an_isolation_is_told_and_ends_when_the_broker_is_started_anew(known: Core, by: str) -> None:
    known.fail("a")
    assert known.heard.take() == [BrokerIsolated("a", "failure", 10.0)]
    change = known.table.come_up("a")
    if by == "tail":
        known.hear(change)
    else:
        known.follower.heard(f"{PLACE} {PLACE[:-1]}2 {codec.encode_change(change).decode()}".encode(), 0.0)
    assert known.heard.take() == [BrokerReturned("a")]
    known.look()
    assert known.heard.take() == [RoutesChanged(("t",))]


def test_an_isolation_that_ends_by_itself_is_told_when_somebody_looks(known: Core) -> None:
    known.fail("b")
    known.heard.take()
    view = known.view("u")
    assert view is not None
    known.brokers.pick("u", view, frozenset(), 9.9)
    assert known.heard.take() == []
    known.brokers.pick("u", view, frozenset(), 10.0)
    known.brokers.pick("u", view, frozenset(), 10.0)
    assert known.heard.take() == [BrokerReturned("b")]


def test_whom_others_cannot_reach_is_told_when_it_changes() -> None:
    core = Core(hints=HintConfig())
    hints = {"a": frozenset({"x", "y", "z"})}
    assert core.brokers.hints is not None
    for said in ({}, hints, hints, {}, {}):
        core.brokers.heard(said, ["a", "b"], 0.0)
    assert core.heard.take() == [BrokersSuspected(("a",)), BrokersSuspected(())]


# --- the snapshot -------------------------------------------------------------------------------------------


def test_what_becomes_of_the_file_is_told(table: FakeTable, tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    core = Core(table, snapshot_path=path)
    table.register("a", "t")
    core.ask("t")
    core.heard.take()
    core.follower.take_snapshot(0.0)()
    assert core.heard.take() == [SnapshotSaved(1)]
    path.write_bytes(b"{")
    core.follower.load_snapshot()
    (event,) = core.heard.take()
    assert isinstance(event, SnapshotUnusable)
    assert (event.path, event.use) == (str(path), "read")
