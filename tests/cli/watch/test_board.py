"""What `watch` makes of the feed and of listings; no terminal, and time is an argument."""

from __future__ import annotations

from typing import Final

import pytest

from sharedroutes.cli.watch.board import Board, Fault, Filter, StoreState
from sharedroutes.registry import Broker, RouteStore, TopicConfig
from sharedroutes.registry.plans import ORIGIN, whole_table
from sharedroutes.registry.plans.replicas import ReplicaState, roster

A: Final = Broker("broker-a", "10.0.0.1:1")
B: Final = Broker("broker-b", "10.0.0.2:1", cluster="other")
ORDERS: Final = TopicConfig("orders")


class Watched:
    """A board, and the registry that it is fed from, step by step."""

    def __init__(self, store: RouteStore) -> None:
        self.store, self.board, self._position = store, Board(), ORIGIN
        self.board.reset(store.run(whole_table(store.keys)))

    def follow(self) -> None:
        page = self.store.changes_since(self._position)
        for change in page.changes:
            self.board.change(change)
        self._position = page.position

    def list(self, now_s: float = 0.0, *, since: bool = False) -> None:
        found = self.store.run(roster(self.store.keys, since=since)).found
        self.board.listed(found, self.store.hints(), now_s)

    def state(self, name: str, now_s: float = 0.0) -> tuple[ReplicaState, str]:
        (row,) = self.board.brokers(now_s, name)
        return row.state, row.trouble

    def topics(self, query: str = "", shown: Filter = Filter.ALL) -> dict[str, tuple[str, str]]:
        rows = self.board.topics(query, shown)
        return {row.name: (" ".join(row.live), " ".join(row.gone)) for row in rows}


@pytest.fixture
def watched(store: RouteStore) -> Watched:
    """Return what is known of a registry with two brokers."""
    store.register(A, [ORDERS, TopicConfig("audit")])
    store.register(B, [ORDERS])
    made = Watched(store)
    made.follow()
    made.list(since=True)
    return made


def test_a_lease_runs_down_and_fills_up_again(watched: Watched) -> None:
    first = watched.board.brokers(4.0, "broker-a")[0]
    assert first.left_s is not None
    assert first.share is not None
    assert 10.0 < first.left_s <= 11.0
    assert first.share == pytest.approx(first.left_s / 15.0)
    assert watched.board.brokers(100.0, "broker-a")[0].left_s == 0.0
    watched.list(100.0)
    assert watched.board.brokers(100.0, "broker-a")[0].share == pytest.approx(1.0, abs=0.1)


def test_a_lease_that_nobody_renews_is_a_fault_before_it_ends(watched: Watched) -> None:
    assert watched.board.faults(0.0) == []
    assert [fault.what for fault in watched.board.faults(11.0, "broker-a")] == ["lease not renewed"]
    watched.board.failed("it is gone", 11.0)
    assert [fault.subject for fault in watched.board.faults(11.0)] == ["store"]  # nobody could renew it


def test_a_broker_that_leaves_is_dead_with_the_reason_that_only_the_feed_tells(watched: Watched) -> None:
    watched.store.unregister(watched.store.register(B, [ORDERS]), reason="host lost")
    watched.follow()
    watched.list()
    assert watched.state("broker-b:0") == (ReplicaState.DEAD, "dead: host lost")
    assert watched.topics()["orders"] == ("broker-a", "broker-b")
    watched.list()  # a listing does not tell why, and takes nothing away
    assert watched.state("broker-b:0") == (ReplicaState.DEAD, "dead: host lost")
    watched.store.register(B, [ORDERS])
    watched.follow()
    watched.list()
    assert watched.state("broker-b:0") == (ReplicaState.LIVE, "")
    assert watched.topics()["orders"] == ("broker-a broker-b", "")


def test_what_operators_and_clients_say_of_a_broker_is_a_fault(watched: Watched) -> None:
    watched.store.admin.wipe_write_perm("broker-a")
    watched.store.hint("client-1", ["broker-a"], ttl_s=60.0)
    watched.store.admin.withdraw(B, reason="drained")
    watched.follow()
    watched.list()
    assert watched.board.faults(0.0) == [
        Fault("broker-a:0", "wiped: no write permission; 1 client cannot reach it"),
        Fault("broker-b:0", "out: by an operator"),
    ]


def test_a_broker_of_which_only_a_slave_lives_is_a_fault(watched: Watched) -> None:
    watched.store.register(Broker("broker-c", "10.0.0.3:1", 1), [])
    watched.follow()
    watched.list()
    assert watched.board.faults(0.0) == [Fault("broker-c", "only slaves live: nothing can be written to it")]


def test_topics_come_and_go_with_the_feed(watched: Watched) -> None:
    assert watched.topics() == {"audit": ("broker-a", ""), "orders": ("broker-a broker-b", "")}
    watched.store.register(A, [ORDERS, TopicConfig("new")])
    watched.follow()
    assert watched.topics() == {"new": ("broker-a", ""), "orders": ("broker-a broker-b", "")}
    watched.store.admin.delete_topic("orders")
    watched.follow()
    assert watched.topics() == {"new": ("broker-a", "")}
    assert watched.board.topic_count == 1


def test_a_topic_without_a_live_broker_is_a_fault(watched: Watched) -> None:
    watched.store.unregister(watched.store.register(A, [ORDERS, TopicConfig("audit")]))
    watched.follow()
    watched.list()
    assert Fault("audit", "no live broker has it") in watched.board.faults(0.0)
    assert watched.topics(shown=Filter.TROUBLE).keys() == {"audit", "orders"}
    assert watched.topics(shown=Filter.LIVE).keys() == {"orders"}


def test_a_reset_forgets_what_was_known_of_topics(watched: Watched) -> None:
    empty = watched.store.lookup([])
    watched.board.reset(empty)
    assert watched.topics() == {}


def test_rows_are_searched_by_any_word_of_them_whatever_the_case(watched: Watched) -> None:
    for query, names in {"OTHER": ["broker-b:0"], "0.0.1": ["broker-a:0"], "x": []}.items():
        assert [row.name for row in watched.board.brokers(0.0, query)] == names
    assert watched.topics("AUD").keys() == {"audit"}
    assert watched.topics("broker-b").keys() == {"orders"}
    assert {row.subject for row in watched.board.changes_of("broker-b")} == {"broker-b:0"}


def test_the_filter_goes_round(watched: Watched) -> None:
    assert [one.following for one in Filter] == [Filter.LIVE, Filter.TROUBLE, Filter.ALL]
    watched.store.unregister(watched.store.register(B, [ORDERS]))
    watched.follow()
    watched.list()
    found = {one: [row.name for row in watched.board.brokers(0.0, shown=one)] for one in Filter}
    assert found == {
        Filter.ALL: ["broker-a:0", "broker-b:0"],
        Filter.LIVE: ["broker-a:0"],
        Filter.TROUBLE: ["broker-b:0"],
    }


def test_a_store_that_goes_away_and_comes_back_is_told_with_how_long_it_was(watched: Watched) -> None:
    watched.board.failed("connection refused", 10.0)
    watched.board.failed("connection refused", 12.0)
    assert (watched.board.state, watched.board.away_s(15.0)) == (StoreState.AWAY, 5.0)
    watched.list(22.0)
    assert (watched.board.state, watched.board.away_s(22.0)) == (StoreState.ANSWERS, 0.0)
    notes = [(row.kind, row.subject, row.details) for row in watched.board.changes if row.ms is None]
    assert notes == [("store", "back", "after 12.0 s"), ("store", "away", "connection refused")]


def test_a_store_that_has_not_answered_yet_is_awaited() -> None:
    board = Board()
    board.failed("connection refused", 0.0)
    assert board.state is StoreState.AWAITED
    assert board.faults(0.0) == [Fault("store", "connection refused")]
    assert [*board.changes] == []


def test_the_newest_changes_are_kept(watched: Watched) -> None:
    for number in range(600):
        watched.store.kv.put("ns", f"k{number}", "v")
    watched.follow()
    assert len(watched.board.changes) == 500
    assert watched.board.changes[0].subject == "ns/k599"
