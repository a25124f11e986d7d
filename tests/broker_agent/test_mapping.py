"""Reading topicQueueMapping.json: a real one, and every way in which one can be wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.broker_agent.rocketmq.topics import TopicsInvalid, mappings_at, parse_mappings
from sharedroutes.registry import DataVersion, QueueMapping
from tests.broker_agent.data_files import REAL, detail, mapping_json

REAL_MAPPINGS = (REAL / "topicQueueMapping.json").read_bytes()


def problems(content: bytes) -> tuple[str, ...]:
    with pytest.raises(TopicsInvalid) as caught:
        parse_mappings(content)
    return caught.value.problems


def mapping_of(**fields: Any) -> QueueMapping:
    return parse_mappings(mapping_json({"t": {**detail([0]), **fields}})).mappings["t"]


def test_the_file_of_a_real_broker_is_read() -> None:
    found = parse_mappings(REAL_MAPPINGS)
    assert found.version == DataVersion(0, 1795202976263, 1)
    same = {number: number for number in range(6)}
    assert found.mappings == {"static-orders": QueueMapping(6, 1795202977232, same)}


def test_a_broker_holds_the_queues_whose_last_place_it_is() -> None:
    here, there = {"bname": "broker-a", "queueId": 3}, {"bname": "broker-b", "queueId": 9}
    hosted = {0: [there, here], 1: [here, there], 2: [here], 7: []}
    assert mapping_of(hostedQueues=hosted).current_ids == {0: 3, 2: 3}


def test_what_a_broker_registers_is_understood_too() -> None:
    """Without hosted queues: TopicQueueMappingInfo, as a name server gets it."""
    info = {"bname": "broker-a", "currIdMap": {"1": 5}, "epoch": 4, "totalQueues": 2, "topic": "t"}
    assert mappings_at("$", {"t": info}, []) == {"t": QueueMapping(2, 4, {1: 5})}


def test_the_key_counts_and_not_the_name_inside() -> None:
    assert set(parse_mappings(mapping_json({"key": {**detail([0]), "topic": "inside"}})).mappings) == {"key"}


def test_as_a_broker_registers_it_a_mapping_is_global_and_not_dirty() -> None:
    found = mapping_of(scope="other", dirty=True)
    assert (found.scope, found.dirty) == ("__global__", False)


def test_equal_mappings_are_the_same_objects_as_before() -> None:
    before = parse_mappings(mapping_json({"a": detail([0]), "b": detail([0])}))
    after = parse_mappings(mapping_json({"a": detail([0]), "b": detail([0, 1])}), before)
    assert after.mappings["a"] is before.mappings["a"]
    assert after.mappings["b"].current_ids == {0: 0, 1: 1}


def test_no_static_topic_is_no_problem() -> None:
    assert parse_mappings(mapping_json({})).mappings == {}


def test_every_problem_is_reported_with_its_json_path() -> None:
    hosted = {
        "x": [],
        1: {},
        2: [7],
        3: [{"bname": "broker-a", "queueId": "0"}],
    }
    content = mapping_json(
        {
            "a": {**detail([0]), "hostedQueues": hosted},
            "b.c": {**detail([0]), "totalQueues": -1},
            "d": 5,
            "e": {**detail([0]), "hostedQueues": {0: [{"bname": "broker-a", "queueId": -1}]}},
            "good": detail([0]),
        }
    ).replace(b'"counter": 1', b'"counter": true')
    place = "$.topicQueueMappingInfoMap"
    assert problems(content) == (
        "$.dataVersion.counter: expected a whole number, got True",
        f"{place}.a.hostedQueues.x: expected a whole number as the key",
        f"{place}.a.hostedQueues.1: expected a list, got {{}}",
        f"{place}.a.hostedQueues.2[0]: expected an object, got 7",
        f"{place}.a.hostedQueues.3[0].queueId: expected a whole number, got '0'",
        f'{place}["b.c"].totalQueues: -1 is not within 0..2147483647',
        f"{place}.d: expected an object, got 5",
        f"{place}.e.currIdMap[0]: -1 is not within 0..2147483647",
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "$: the file is empty"),
        (b" \n", "$: the file is empty"),
        (b"[]", "$: expected an object, got []"),
        (b"{}", "$.topicQueueMappingInfoMap: is missing"),
        (b'{"topicQueueMappingInfoMap": 1}', "$.topicQueueMappingInfoMap: expected an object, got 1"),
    ],
)
def test_another_structure_is_a_problem(content: bytes, problem: str) -> None:
    assert problems(content) == (problem,)


@given(st.integers(0, len(REAL_MAPPINGS) - 1))
def test_no_part_of_a_file_passes_for_the_file(length: int) -> None:
    assert all(problem.startswith("$: ") for problem in problems(REAL_MAPPINGS[:length]))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda v: st.lists(v) | st.dictionaries(st.text("0a", max_size=2), v),
    )
)
def test_any_json_is_either_understood_or_refused_with_a_place(value: Any) -> None:
    for content in (value, {"topicQueueMappingInfoMap": value}, {"topicQueueMappingInfoMap": {"t": value}}):
        found: tuple[str, ...] = ()
        try:
            parse_mappings(json.dumps(content).encode())
        except TopicsInvalid as error:
            found = error.problems
        assert all(problem.startswith("$") for problem in found)
