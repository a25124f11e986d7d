"""Which queues a member of a consumer group reads: RocketMQ's answers, and what must hold for all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.client.selection import (
    AllocateAveragely,
    AllocateAveragelyByCircle,
    AllocateByMachineRoom,
    AllocateConsistentHash,
    AllocateMachineRoomNearby,
    AllocateStrategy,
)
from sharedroutes.registry import InvalidInput, MessageQueue

GOLDEN: Final = Path(__file__).parents[1] / "data" / "allocation" / "rocketmq-5.3.3.json"


def room_of_queue(queue: MessageQueue) -> str:
    return queue.broker_name.partition("@")[0]


def room_of_member(member_id: str) -> str:
    return member_id.partition("@")[0]


def nearby(inner: AllocateStrategy) -> AllocateMachineRoomNearby:
    return AllocateMachineRoomNearby(inner, room_of_queue, room_of_member)


STRATEGIES: Final[dict[str, AllocateStrategy]] = {
    "AVG": AllocateAveragely(),
    "AVG_BY_CIRCLE": AllocateAveragelyByCircle(),
    "CONSISTENT_HASH": AllocateConsistentHash(),
    "CONSISTENT_HASH/3": AllocateConsistentHash(3),
    "MACHINE_ROOM_NEARBY-AVG": nearby(AllocateAveragely()),
    "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE": nearby(AllocateAveragelyByCircle()),
    "MACHINE_ROOM_NEARBY-CONSISTENT_HASH": nearby(AllocateConsistentHash()),
    "MACHINE_ROOM/x,y": AllocateByMachineRoom(frozenset("xy")),
}
CASES: Final[list[dict[str, Any]]] = json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case['strategy']}" for n, case in enumerate(CASES)])
def test_every_member_gets_what_rocketmq_gives_it(case: dict[str, Any]) -> None:
    strategy = STRATEGIES[case["strategy"]]
    queues = [MessageQueue(case["topic"], name, number, "10.0.0.1:1") for name, number in case["queues"]]
    for member_id, expected in case["answers"].items():
        found = strategy.allocate("g", member_id, queues, case["members"])
        assert [[queue.broker_name, queue.queue_id] for queue in found] == expected


def test_the_answers_of_rocketmq_cover_every_strategy() -> None:
    assert {case["strategy"] for case in CASES} == set(STRATEGIES)


QUEUES = st.lists(
    st.builds(
        MessageQueue, st.just("t"), st.sampled_from(["x@a", "x@b", "y@a"]), st.integers(0, 9), st.just("h:1")
    ),
    unique=True,
)
MEMBERS = st.lists(
    st.builds("{}@{}".format, st.sampled_from("xyz"), st.integers(0, 9)), min_size=1, unique=True
)
ALL_QUEUES = st.sampled_from(sorted(STRATEGIES))


@given(name=ALL_QUEUES, queues=QUEUES, members=MEMBERS)
def test_every_queue_goes_to_exactly_one_member(
    name: str, queues: list[MessageQueue], members: list[str]
) -> None:
    parts = [STRATEGIES[name].allocate("g", member, queues, members) for member in members]
    assert sorted(queue for part in parts for queue in part) == sorted(queues)


@given(name=ALL_QUEUES, queues=QUEUES, members=MEMBERS, data=st.data())
def test_members_agree_whatever_the_order_in_which_they_see_queues_and_members(
    name: str, queues: list[MessageQueue], members: list[str], data: st.DataObject
) -> None:
    other_queues, other_members = data.draw(st.permutations(queues)), data.draw(st.permutations(members))
    for member in members:
        assert STRATEGIES[name].allocate("g", member, queues, members) == STRATEGIES[name].allocate(
            "g", member, other_queues, other_members
        )


@pytest.mark.parametrize("name", ["AVG", "AVG_BY_CIRCLE", "MACHINE_ROOM/x,y"])
@given(queues=QUEUES, members=MEMBERS)
def test_no_member_has_two_queues_more_than_another(
    name: str, queues: list[MessageQueue], members: list[str]
) -> None:
    sizes = [len(STRATEGIES[name].allocate("g", member, queues, members)) for member in members]
    assert max(sizes) - min(sizes) <= 1


@given(queues=QUEUES, members=MEMBERS)
def test_a_queue_stays_in_its_zone_while_that_has_a_member(
    queues: list[MessageQueue], members: list[str]
) -> None:
    zones = {room_of_member(member) for member in members}
    for member in members:
        for queue in nearby(AllocateAveragely()).allocate("g", member, queues, members):
            assert room_of_queue(queue) == room_of_member(member) or room_of_queue(queue) not in zones


@given(queues=QUEUES, members=MEMBERS)
def test_on_the_ring_a_new_member_only_takes_and_gives_nothing_to_others(
    queues: list[MessageQueue], members: list[str]
) -> None:
    more = [*members, "newcomer"]
    for member in members:
        after = AllocateConsistentHash().allocate("g", member, queues, more)
        assert set(after) <= set(AllocateConsistentHash().allocate("g", member, queues, members))


def some_queues(count: int = 4) -> Sequence[MessageQueue]:
    return [MessageQueue("t", "x@a", number, "h:1") for number in range(count)]


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_member_that_the_group_does_not_know_yet_gets_nothing(name: str) -> None:
    assert STRATEGIES[name].allocate("g", "x@new", some_queues(), ["x@old"]) == ()
    assert STRATEGIES[name].allocate("g", "x@new", some_queues(), []) == ()


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_member_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="member_id: must not be empty"):
        STRATEGIES[name].allocate("g", "", some_queues(), [""])


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_member_that_is_listed_twice_counts_once(name: str) -> None:
    assert len(STRATEGIES[name].allocate("g", "x@1", some_queues(), ["x@1", "x@1"])) == 4


def test_an_empty_zone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="zone of '@1': must not be empty"):
        nearby(AllocateAveragely()).allocate("g", "@1", some_queues(), ["@1"])


@pytest.mark.parametrize("virtual_nodes", [0, -1, 10_001, 1.5])
def test_a_number_of_virtual_nodes_that_does_not_fit_is_refused(virtual_nodes: Any) -> None:
    with pytest.raises(InvalidInput, match="virtual_nodes"):
        AllocateConsistentHash(virtual_nodes)
