"""Reading topics.json: a real one, and every way in which one can be wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.broker_agent.topics import TopicsInvalid, parse
from sharedroutes.registry import DataVersion, TopicConfig
from tests.broker_agent.data_files import REAL, as_written, topics_json

REAL_TOPICS = (REAL / "topics.json").read_bytes()


def problems(content: bytes) -> tuple[str, ...]:
    with pytest.raises(TopicsInvalid) as caught:
        parse(content)
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
    after = parse(as_written({"a": {}, "b": {"perm": 4}, "c": {}}), previous=before.topics)
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
    content = as_written({"a": {"perm": 7, "topicSysFlag": 1}})
    assert parse(content, broker_permission=permission).topics == {"a": TopicConfig("a", 4, 4, expected, 1)}


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
    assert problems(content) == (
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
        (b'{"topicConfigTable": {}, "dataVersion": 7}', "$.dataVersion: expected an object, got 7"),
    ],
)
def test_another_structure_is_a_problem(content: bytes, problem: str) -> None:
    assert problem in problems(content)


def test_a_file_that_is_cut_off_says_where() -> None:
    (problem,) = problems(REAL_TOPICS[:1000])
    assert problem.startswith("$: is no JSON: ")
    assert "line 51" in problem


@given(st.integers(0, len(REAL_TOPICS) - 1))
def test_no_part_of_a_file_passes_for_the_file(length: int) -> None:
    with pytest.raises(TopicsInvalid):
        parse(REAL_TOPICS[:length])


@given(st.binary(max_size=200) | st.integers(1, len(REAL_TOPICS)).map(lambda at: REAL_TOPICS[at:]))
def test_foreign_bytes_are_a_problem_with_a_place(content: bytes) -> None:
    assert all(problem.startswith("$") for problem in problems(content))
