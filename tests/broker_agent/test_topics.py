"""Reading topics.json and topicQueueMapping.json: real ones, and every way in which one can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.broker_agent.rocketmq.topics import (
    TopicsInvalid,
    effective,
    mappings_at,
    parse,
    parse_mappings,
)
from sharedroutes.registry import DataVersion, QueueMapping, TopicConfig
from sharedroutes.registry.model import TOPIC_FIELDS
from tests.broker_agent.data_files import REAL, as_written, detail, mapping_json, topics_json

REAL_TOPICS = (REAL / "topics.json").read_bytes()
REAL_MAPPINGS = (REAL / "topicQueueMapping.json").read_bytes()


def problems(read: Callable[[bytes], object], content: bytes) -> tuple[str, ...]:
    with pytest.raises(TopicsInvalid) as caught:
        read(content)
    return caught.value.problems


def test_the_file_of_a_real_broker_is_read_with_its_system_topics() -> None:
    file = parse(REAL_TOPICS)
    assert len(file.topics) == 20
    assert file.version == DataVersion(0, 1795202976261, 7)
    assert file.topics["orders"] == TopicConfig("orders", 8, 8)
    assert file.topics["orders-fifo"].attributes == {"message.type": "FIFO"}
    assert file.topics["ledger"].order
    assert file.topics["audit"].perm == 4
    assert file.topics["TBW102"].perm == 7
    assert file.topics["unit-events"].topic_sys_flag == 1
    assert file.topics["BenchmarkTest"].read_queue_nums == 1024
    assert file.topics["rmq_sys_SYNC_BROKER_MEMBER_broker-a"].perm == 1


def test_the_backup_of_a_real_broker_is_one_version_behind() -> None:
    backup = parse((REAL / "topics.json.bak.before-shutdown").read_bytes())
    assert backup.version.counter == 6
    assert set(parse(REAL_TOPICS).topics) - set(backup.topics) == {"static-orders"}


def test_unchanged_topics_are_the_same_objects_as_before() -> None:
    before = parse(topics_json("a", "b"))
    after = parse(as_written({"a": {}, "b": {"perm": 4}, "c": {}}), before)
    assert after.topics["a"] is before.topics["a"]
    assert after.topics["b"] is not before.topics["b"]
    assert after.topics["b"].perm == 4


def test_the_name_inside_a_topic_counts_and_not_its_key() -> None:
    assert set(parse(as_written({"key": {"topicName": "inside"}})).topics) == {"inside"}


@pytest.mark.parametrize("given_fields", ["", ', "perm": null, "attributes": null, "order": null'])
def test_what_is_missing_or_null_has_the_default_of_rocketmq(given_fields: str) -> None:
    content = f'{{"topicConfigTable": {{"a": {{"topicName": "a"{given_fields}}}}}}}'.encode()
    assert parse(content).topics == {"a": TopicConfig("a", 16, 16, 6)}


def test_fields_that_a_later_version_adds_are_passed_over() -> None:
    assert parse(as_written({"a": {"newField": [1]}})).topics == {"a": TopicConfig("a", 4, 4)}


@pytest.mark.parametrize(("permission", "expected"), [(6, 7), (7, 7), (4, 4), (2, 2), (0, 0)])
def test_a_broker_that_permits_less_takes_it_from_its_topics(permission: int, expected: int) -> None:
    table = parse(as_written({"a": {"perm": 7, "topicSysFlag": 1}}, counter=3))
    found = effective(table, {}, permission)
    assert found.topics == {"a": TopicConfig("a", 4, 4, expected, 1)}
    assert found.version == table.version


def test_a_table_that_nothing_is_added_to_or_taken_from_is_the_same_object() -> None:
    table = parse(REAL_TOPICS)
    assert effective(table, {}, 6) is table


@pytest.mark.parametrize(("permission", "perm"), [(6, 6), (4, 4)])
def test_static_topics_get_their_queue_mapping(permission: int, perm: int) -> None:
    table, mapping = parse(topics_json("a", "b")), QueueMapping(4, 1, {0: 0})
    found = effective(table, {"b": mapping, "unknown": mapping}, permission)
    assert found.topics == {
        "a": TopicConfig("a", 4, 4, perm),
        "b": TopicConfig("b", 4, 4, perm, queue_mapping=mapping),
    }
    again = effective(table, {"b": QueueMapping(4, 1, {0: 0})}, permission, found)
    assert all(again.topics[name] is found.topics[name] for name in again.topics)


def test_equal_values_of_a_large_table_are_one_object() -> None:
    names = {
        str(number): {"attributes": {"message.type": "FIFO"} if number % 2 else {}} for number in range(9)
    }
    topics = parse(as_written(names)).topics.values()
    assert len({id(config.attributes) for config in topics}) == 2
    assert len({id(config.topic_filter_type) for config in topics}) == 1


@pytest.mark.parametrize("field", ["perm", "order", "topicSysFlag", "readQueueNums"])
def test_a_value_of_another_type_does_not_pass_because_it_was_right_before(field: str) -> None:
    before = parse(as_written({"a": {"perm": 0, "readQueueNums": 1, "topicSysFlag": 0, "order": False}}))
    wrong = {"perm": False, "readQueueNums": True, "topicSysFlag": False, "order": 0}
    given_now = as_written({"a": {"perm": 0, "readQueueNums": 1, field: wrong[field]}})
    (problem,) = parse(given_now, before).odd
    assert problem.startswith(f"$.topicConfigTable.a.{field}: expected ")


def test_a_field_that_is_left_out_again_has_its_default_again() -> None:
    before = parse(as_written({"a": {}}))
    after = parse(as_written({"a": {"readQueueNums": None}}), before)
    assert after.topics == {"a": TopicConfig("a", 16, 4)}


def test_a_topic_that_makes_no_sense_takes_no_other_one_away() -> None:
    before = parse(as_written({"known": {"perm": 4}, "good": {}}))
    content = as_written({"known": {"readQueueNums": -1}, "unknown": {"writeQueueNums": 70_000}, "good": {}})
    table = parse(content, before)
    assert table.topics == before.topics
    assert table.odd == (
        "$.topicConfigTable.known.readQueueNums: -1 is not within 0..65536",
        "$.topicConfigTable.unknown.writeQueueNums: 70000 is not within 0..65536",
    )


def test_a_table_in_which_no_topic_makes_sense_is_none() -> None:
    assert problems(parse, as_written({"a": {"perm": 9}})) == (
        "$.topicConfigTable.a.perm: 9 is not within 0..7",
    )


def test_every_problem_is_reported_with_its_json_path() -> None:
    content = as_written(
        {
            "orders": {"perm": 9, "order": "yes"},
            "a.b": {"readQueueNums": -1},
            "good": {},
            "named": {"topicName": "good"},
            "nameless": {"topicName": None, "writeQueueNums": 4.5},
            "typed": {"topicFilterType": "NO_TAG", "attributes": {"k": 1}},
        }
    ).replace(b'"counter": 1', b'"counter": "x"')
    assert problems(parse, content) == (
        "$.dataVersion.counter: expected a whole number, got 'x'",
        "$.topicConfigTable.orders.perm: 9 is not within 0..7",
        "$.topicConfigTable.orders.order: expected true or false, got 'yes'",
        '$.topicConfigTable["a.b"].readQueueNums: -1 is not within 0..65536',
        "$.topicConfigTable.named.topicName: 'good' stands already at $.topicConfigTable.good",
        "$.topicConfigTable.nameless.topicName: is missing",
        "$.topicConfigTable.nameless.writeQueueNums: expected a whole number, got 4.5",
        "$.topicConfigTable.typed.topicFilterType: 'NO_TAG' is neither SINGLE_TAG nor MULTI_TAG",
        "$.topicConfigTable.typed.attributes: 'k': 1 is not a pair of strings",
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "$: the file is empty"),
        (b" \n", "$: the file is empty"),
        (b"[]", "$: expected an object, got []"),
        (b"{}", "$.topicConfigTable: is missing"),
        (
            b'{"topicConfigTable": {}}',
            "$.topicConfigTable: holds no topic, and every broker has some of its own",
        ),
        (b'{"topicConfigTable": 1}', "$.topicConfigTable: expected an object, got 1"),
        (b'{"topicConfigTable": {"a": 1}}', "$.topicConfigTable.a: expected an object, got 1"),
        (b'{"topicConfigTable": {}} {"topicConfigTable": {}}', "$: is no JSON: extra data: line 1 column 26"),
        (b'{"topicConfigTable": {"\\ud800": 1}}', '$.topicConfigTable["\\ud800"]: expected an object, got 1'),
        (
            b'{"topicConfigTable": {"a": {"topicName": "\\ud800"}}}',
            "$.topicConfigTable.a.topicName: '\\ud800' cannot be written as UTF-8",
        ),
        (
            b'{"topicConfigTable": {"a": {"topicName": "a", "perm": ' + b"9" * 5000 + b"}}}",
            "$: is no JSON: a number too long: line 1 column 28",
        ),
        (b'{"topicConfigTable": {}, "dataVersion": 7}', "$.dataVersion: expected an object, got 7"),
    ],
)
def test_another_structure_is_a_problem(content: bytes, problem: str) -> None:
    assert problem in problems(parse, content)


def test_a_file_that_is_cut_off_says_where() -> None:
    (problem,) = problems(parse, REAL_TOPICS[:1000])
    assert problem.startswith("$: is no JSON: ")
    assert "line 51" in problem


@given(st.integers(0, len(REAL_TOPICS) - 1))
def test_no_part_of_a_file_passes_for_the_file(length: int) -> None:
    with pytest.raises(TopicsInvalid):
        parse(REAL_TOPICS[:length])


@given(
    st.dictionaries(
        st.sampled_from([*TOPIC_FIELDS, "other"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
            ),
        ),
    ),
    st.booleans(),
)
def test_any_value_of_a_field_is_understood_or_a_problem_with_a_place(
    fields: dict[str, Any], known: Any
) -> None:
    previous = parse(as_written({"t": {}})) if known else None
    content = json.dumps({"topicConfigTable": {"t": {"topicName": "t"} | fields}}).encode()
    found: tuple[str, ...] = ()
    try:
        assert len(parse(content, previous).topics) == 1
    except TopicsInvalid as error:
        found = error.problems
        assert found
    assert all(problem.startswith("$") for problem in found)


@given(st.binary(max_size=200) | st.integers(1, len(REAL_TOPICS)).map(lambda at: REAL_TOPICS[at:]))
def test_foreign_bytes_are_a_problem_with_a_place(content: bytes) -> None:
    assert all(problem.startswith("$") for problem in problems(parse, content))


def mapping_of(**fields: Any) -> QueueMapping:
    return parse_mappings(mapping_json({"t": {**detail([0]), **fields}})).mappings["t"]


def test_the_mappings_of_a_real_broker_are_read() -> None:
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


def test_every_problem_of_a_mapping_is_reported_with_its_json_path() -> None:
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
    assert problems(parse_mappings, content) == (
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
def test_another_structure_of_mappings_is_a_problem(content: bytes, problem: str) -> None:
    assert problems(parse_mappings, content) == (problem,)


@given(st.integers(0, len(REAL_MAPPINGS) - 1))
def test_no_part_of_a_file_of_mappings_passes_for_the_file(length: int) -> None:
    assert all(problem.startswith("$: ") for problem in problems(parse_mappings, REAL_MAPPINGS[:length]))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda v: st.lists(v) | st.dictionaries(st.text("0a", max_size=2), v),
    )
)
def test_any_json_is_understood_as_mappings_or_refused_with_a_place(value: Any) -> None:
    for content in (value, {"topicQueueMappingInfoMap": value}, {"topicQueueMappingInfoMap": {"t": value}}):
        found: tuple[str, ...] = ()
        try:
            parse_mappings(json.dumps(content).encode())
        except TopicsInvalid as error:
            found = error.problems
        assert all(problem.startswith("$") for problem in found)
