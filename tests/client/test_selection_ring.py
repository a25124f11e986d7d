"""Message groups: the same key goes to the same queue, and most still do when queues come and go."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharedroutes.client.selection import PublishView, RoundRobin, Weighted, publish_queues
from sharedroutes.client.selection.queues import QueueRing
from sharedroutes.registry import BrokerData, InvalidInput, MessageQueue, QueueData, QueueMapping, TopicRoute
from tests.client.topics import NOBODY, QUIET, route_of, verdict, view_of
from tests.support import examples

KEYS = [f"order-{number}" for number in range(2_000)]


def choices(queues: dict[str, int]) -> dict[str, MessageQueue]:
    view = PublishView(route_of(queues), RoundRobin(), itertools.count(), max_isolated_share=0.5)
    return {key: view.pick_for(key, QUIET, NOBODY) for key in KEYS}


def test_a_key_keeps_its_queue_whatever_else_is_chosen_and_whoever_asks() -> None:
    one, other = view_of("abc", 4, start=3), view_of("abc", 4, strategy=Weighted({"a": 9}))
    for key in KEYS[:50]:
        next(one.turns)
        assert one.pick_for(key, QUIET, NOBODY) == other.pick_for(key.encode(), QUIET, NOBODY)


def test_the_places_of_keys_are_the_same_in_every_version() -> None:
    view = view_of("abc", 4)
    found = [
        view.pick_for(key, QUIET, NOBODY) for key in ("", "order-1", "order-2", "größe", "\ud800", b"\xff")
    ]
    assert [f"{queue.broker_name}{queue.queue_id}" for queue in found] == ["c2", "c3", "b3", "b3", "c0", "b3"]


def test_keys_are_spread_over_all_queues() -> None:
    counts = Counter(choices(dict.fromkeys("abcd", 4)).values())
    assert len(counts) == 16
    assert max(counts.values()) <= 2 * len(KEYS) / 16
    assert min(counts.values()) >= 0.4 * len(KEYS) / 16


TOPIC = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 6), min_size=2)


@settings(max_examples=examples(25))
@given(queues=TOPIC, more=st.integers(1, 3), data=st.data())
def test_new_queues_take_their_part_of_the_keys_and_no_other_key_moves(
    queues: dict[str, int], more: int, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from("abcdefgh"))
    before, after = choices(queues), choices({**queues, name: queues.get(name, 0) + more})
    moved = [key for key in KEYS if before[key] != after[key]]
    assert {after[key] for key in moved}.isdisjoint(before.values())
    assert len(moved) / len(KEYS) <= 2.2 * more / (sum(queues.values()) + more)


@settings(max_examples=examples(25))
@given(queues=TOPIC, data=st.data())
def test_when_a_broker_goes_only_its_keys_move(queues: dict[str, int], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(sorted(queues)))
    before, after = choices(queues), choices({name: n for name, n in queues.items() if name != gone})
    moved = {key for key in KEYS if before[key] != after[key]}
    assert moved == {key for key in KEYS if before[key].broker_name == gone}


@given(blocked=st.sampled_from("abcd"), avoid=st.frozensets(st.sampled_from("abcd"), max_size=2))
def test_the_keys_of_a_failing_broker_go_where_they_would_go_without_it_and_the_others_stay(
    blocked: str, avoid: frozenset[str]
) -> None:
    view = view_of("abcd", 4)
    left = view_of(sorted(set("abcd") - {blocked} - avoid), 4)
    for key in KEYS[:300]:
        assert view.pick_for(key, verdict(blocked), avoid) == left.pick_for(key, QUIET, NOBODY)


def test_a_key_returns_with_its_broker() -> None:
    view = view_of("ab", 4)
    before = [view.pick_for(key, QUIET, NOBODY) for key in KEYS]
    for key in KEYS:
        assert view.pick_for(key, verdict("a"), NOBODY).broker_name == "b"
    assert [view.pick_for(key, QUIET, NOBODY) for key in KEYS] == before


def test_a_key_stays_with_a_logical_queue_that_moves_to_another_broker() -> None:
    def places(first: dict[int, int], second: dict[int, int]) -> dict[str, MessageQueue]:
        ids = {"a": first, "b": second}
        route = TopicRoute(
            "t",
            tuple(QueueData(name, 9, 9, 6, queue_mapping=QueueMapping(4, 1, ids[name])) for name in ids),
            tuple(BrokerData("c", name, {0: f"{name}:1"}) for name in ids),
        )
        view = PublishView(route, RoundRobin(), itertools.count(), max_isolated_share=0.5)
        return {key: view.pick_for(key, QUIET, NOBODY) for key in KEYS[:200]}

    before, after = places({0: 0, 1: 1, 2: 2}, {3: 0}), places({0: 0, 1: 1}, {3: 0, 2: 7})
    assert {key: queue.queue_id for key, queue in before.items()} == {
        key: queue.queue_id for key, queue in after.items()
    }
    assert {queue.broker_name for queue in before.values() if queue.queue_id == 2} == {"a"}
    assert {queue.broker_name for queue in after.values() if queue.queue_id == 2} == {"b"}


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="key: expected a string or bytes, got 7"):
        view_of("a").pick_for(7, QUIET, NOBODY)  # type: ignore[arg-type]


# --- the ring of the route before ---------------------------------------------------------------------------


def ring_of(queues: dict[str, int], last: QueueRing | None = None) -> QueueRing:
    return QueueRing(publish_queues(route_of(dict(sorted(queues.items())))), last=last)


@settings(max_examples=examples(50))
@given(history=st.lists(TOPIC, min_size=2, max_size=5))
def test_a_ring_that_follows_others_is_the_same_as_a_new_one(history: list[dict[str, int]]) -> None:
    ring: QueueRing | None = None
    for queues in history:
        ring, new = ring_of(queues, ring), ring_of(queues)
        for key in KEYS[:200]:
            assert ring.find(key, frozenset(queues)) == new.find(key, frozenset(queues))


def test_when_brokers_go_and_come_back_their_places_serve_again() -> None:
    whole = dict.fromkeys("abcd", 4)
    first = ring_of(whole)
    part = ring_of({"a": 4, "c": 4}, first)
    again = ring_of(whole, part)
    assert first.places.points is part.places.points is again.places.points


def test_a_ring_most_of_whose_queues_have_gone_is_made_anew() -> None:  # or a search would take long
    first = ring_of(dict.fromkeys("abcde", 4))
    left = ring_of(dict.fromkeys("ab", 4), first)
    assert len(left.places.points) < len(first.places.points)


def test_a_queue_whose_broker_moved_is_found_at_its_new_address() -> None:
    old = publish_queues(route_of({"a": 4}))
    new = [replace_address(queue, "elsewhere:1") for queue in old]
    ring = QueueRing(new, last=QueueRing(old))
    assert {ring.find(key, frozenset("a")).address for key in KEYS[:50]} == {"elsewhere:1"}


def replace_address(queue: MessageQueue, address: str) -> MessageQueue:
    return MessageQueue(queue.topic, queue.broker_name, queue.queue_id, address)


def test_the_ring_of_logical_queues_does_not_serve_for_those_of_brokers() -> None:
    queues = publish_queues(route_of({"a": 4}))
    static = QueueRing(queues, static=True)
    after = QueueRing(queues, last=static)
    new = QueueRing(queues)
    assert [after.find(key, frozenset("a")) for key in KEYS] == [
        new.find(key, frozenset("a")) for key in KEYS
    ]
