"""What producers and consumers make of a route, and whose turn it is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.client.views import PublishView, publish_queues, subscribe_queues
from sharedroutes.registry import BrokerData, MessageQueue, QueueData, TopicRoute

MASTER, SLAVE, SLAVE_2 = "10.0.0.1:10911", "10.0.0.1:10921", "10.0.0.1:10931"


def route(*parts: tuple[QueueData, Mapping[int, str]]) -> TopicRoute:
    rows = tuple(data for data, _ in parts)
    return TopicRoute("t", rows, tuple(BrokerData("c", data.broker_name, members) for data, members in parts))


def queues(*places: tuple[str, int, str]) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue("t", *place) for place in places)


def test_a_producer_gets_the_write_queues_by_broker_name_then_queue_id() -> None:
    found = publish_queues(
        route(
            (QueueData("broker-b", 9, 1, 6), {0: SLAVE}),
            (QueueData("broker-a", 9, 2, 6), {0: MASTER}),
        )
    )
    assert found == queues(("broker-a", 0, MASTER), ("broker-a", 1, MASTER), ("broker-b", 0, SLAVE))


def test_a_producer_gets_no_queue_of_a_group_whose_master_is_gone() -> None:
    parts = (QueueData("broker-a", 2, 2, 6), {1: SLAVE}), (QueueData("broker-b", 1, 1, 6), {0: MASTER})
    assert publish_queues(route(*parts)) == queues(("broker-b", 0, MASTER))


def test_a_consumer_gets_the_read_queues_by_broker_name_then_queue_id() -> None:
    found = subscribe_queues(
        route(
            (QueueData("broker-b", 1, 9, 6), {0: SLAVE}),
            (QueueData("broker-a", 2, 9, 6), {0: MASTER}),
        )
    )
    assert found == queues(("broker-a", 0, MASTER), ("broker-a", 1, MASTER), ("broker-b", 0, SLAVE))


@pytest.mark.parametrize(
    ("members", "address"),
    [
        ({0: MASTER}, MASTER),
        ({2: SLAVE_2, 1: SLAVE, 0: MASTER}, MASTER),
        ({2: SLAVE_2, 1: SLAVE}, SLAVE),
        ({2: SLAVE_2}, SLAVE_2),
    ],
    ids=["master", "master before slaves", "lowest id", "only slave"],
)
def test_a_consumer_reads_at_the_master_or_else_at_the_live_replica_with_the_lowest_id(
    members: dict[int, str], address: str
) -> None:
    found = subscribe_queues(route((QueueData("broker-a", 1, 1, 6), members)))
    assert found == queues(("broker-a", 0, address))


def test_rows_of_brokers_without_a_live_replica_are_nobodys_queues() -> None:
    dead = TopicRoute("t", (QueueData("broker-a", 2, 2, 6),), ())
    assert publish_queues(dead) == subscribe_queues(dead) == ()


@pytest.mark.parametrize("perm", range(8))
def test_the_permission_bits_are_rocketmqs(perm: int) -> None:
    found = route((QueueData("broker-a", 1, 1, perm), {0: MASTER}))
    assert bool(publish_queues(found)) == (perm in {2, 3, 6, 7})
    assert bool(subscribe_queues(found)) == (perm in {4, 5, 6, 7})


def view_of(*brokers: str, queues_each: int = 2, start: int = 0) -> PublishView:
    places = [(name, number, MASTER) for name in sorted(brokers) for number in range(queues_each)]
    return PublishView(queues(*places), itertools.count(start))


NOBODY: frozenset[str] = frozenset()


@pytest.mark.parametrize("start", [0, 1, 5, 1_023])
def test_the_queues_take_turns_from_any_start(start: int) -> None:
    view = view_of("a", "b", start=start)
    picked = [view.pick(NOBODY) for _ in range(9)]
    assert picked == [view.queues[(start + turn) % 4] for turn in range(9)]


CASES = [
    ("", "", "abc"),
    ("a", "", "bc"),
    ("", "a", "bc"),
    ("a", "b", "c"),
    ("abc", "", "abc"),
    ("", "abc", "abc"),
    ("bc", "a", "bc"),
    ("a", "bc", "a"),
    ("abc", "ab", "c"),
    ("x", "y", "abc"),
]


@pytest.mark.parametrize(("blocked", "avoid", "allowed"), CASES)
def test_neither_blocked_nor_avoided_then_not_avoided_then_any(
    blocked: str, avoid: str, allowed: str
) -> None:
    view = view_of("a", "b", "c")
    picked = {view.pick(frozenset(blocked), frozenset(avoid)).broker_name for _ in range(12)}
    assert picked == set(allowed)


SOME = st.frozensets(st.sampled_from("abcdxyz"))


@given(names=st.sets(st.sampled_from("abcd"), min_size=1), blocked=SOME, avoid=SOME)
def test_a_view_with_a_queue_never_leaves_a_producer_without_one(
    names: set[str], blocked: frozenset[str], avoid: frozenset[str]
) -> None:
    view = view_of(*names)
    wanted = names - blocked - avoid or names - avoid or names
    assert {view.pick(blocked, avoid).broker_name for _ in range(2 * len(names))} == wanted


class CountingView(PublishView):
    """A view that counts how often it goes through its queues."""

    __slots__ = ("filtered",)

    def __init__(self, found: tuple[MessageQueue, ...]) -> None:
        super().__init__(found, itertools.count())
        self.filtered = 0

    def _without(self, brokers: frozenset[str]) -> tuple[MessageQueue, ...]:
        self.filtered += 1
        return super()._without(brokers)


def test_the_queues_are_filtered_once_for_one_set_of_faults() -> None:
    view = CountingView(view_of("a", "b", "c").queues)
    for _ in range(100):
        view.pick(frozenset("a"), frozenset("b"))
    assert view.filtered == 1


def test_the_queues_are_filtered_once_when_all_brokers_are_blocked_and_avoided() -> None:
    view = CountingView(view_of("a", "b").queues)
    for _ in range(100):
        assert view.pick(frozenset("ab"), frozenset("ab")) in view.queues
    assert view.filtered == 2


def test_remembered_sets_of_faults_do_not_pile_up() -> None:
    view = view_of("a", "b")
    for number in range(1_000):
        view.pick(frozenset({f"stranger-{number}"}))
    assert len(view._kept) <= 16
