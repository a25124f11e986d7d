"""The bodies of requests are understood, in all their dialects, and refused where they make no sense."""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.nameserver import bodies, compressed
from sharedroutes.nameserver.bodies import RegisterBody, registration
from sharedroutes.nameserver.compressed import BodyError
from sharedroutes.registry import DataVersion, QueueData, QueueMapping, TopicConfig
from sharedroutes.registry.codec import encode_config
from tests.nameserver import written
from tests.nameserver.written import T1, T2, V, encoded

NAMES: Final = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
COUNTS: Final = st.integers(0, 65_536)
LONGS: Final = st.integers(0, 2**63 - 1)
VERSIONS: Final = st.builds(DataVersion, LONGS, LONGS, LONGS)
TEXTS: Final = st.text(st.characters(codec="utf-8"), max_size=10)
MAPPINGS: Final = st.builds(
    QueueMapping,
    st.integers(0, 2**31 - 1),
    LONGS,
    st.dictionaries(COUNTS, COUNTS, max_size=4),
    NAMES,
    st.booleans(),
)
TOPICS: Final = st.builds(
    TopicConfig,
    NAMES,
    COUNTS,
    COUNTS,
    st.integers(0, 7),
    st.integers(0, 2**31 - 1),
    st.booleans(),
    st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    st.none() | MAPPINGS,
)
TABLES: Final = st.lists(TOPICS, max_size=5, unique_by=lambda topic: topic.topic_name)
KINDS: Final = st.sampled_from(["plain", "compressed"])
SERVERS: Final = st.none() | st.lists(TEXTS, max_size=2)

STATIC: Final = QueueMapping(2, 5, {0: 1})


def read(content: object, version: int = 479, **options: Any) -> RegisterBody:
    return registration(written.as_json(content), version=version, **options)


@given(TABLES, VERSIONS, SERVERS)
def test_what_a_broker_registers_is_read(
    topics: list[TopicConfig], version: DataVersion, servers: list[str] | None
) -> None:
    found = read(written.body(topics, version, servers))
    assert found == RegisterBody(encoded(topics), version, None if servers is None else tuple(servers))


@given(TABLES, VERSIONS, SERVERS, KINDS)
def test_a_compressed_body_is_read_whatever_its_label_says(
    topics: list[TopicConfig], version: DataVersion, servers: list[str] | None, label: str
) -> None:
    body = written.compressed(topics, version, servers)
    found = registration(body, version=479, compressed=label == "compressed")
    sent = encoded(replace(one, topic_sys_flag=0, order=False) for one in topics)
    assert found == RegisterBody(sent, version, None if servers is None else tuple(servers))


@given(TABLES, VERSIONS)
def test_a_broker_before_3_0_11_sends_its_topics_alone(
    topics: list[TopicConfig], version: DataVersion
) -> None:
    sent = encoded(replace(one, queue_mapping=None) for one in topics)  # of static ones it knows nothing
    assert read(written.wrapper(topics, version), 36) == RegisterBody(sent, version, None)


@given(TABLES, TABLES, KINDS)
def test_a_table_is_read_whatever_was_registered_before(
    topics: list[TopicConfig], before: list[TopicConfig], kind: str
) -> None:
    if kind == "compressed":
        topics = [replace(one, topic_sys_flag=0, order=False) for one in topics]
    previous = encoded([*(replace(one, queue_mapping=None) for one in before), *topics[1:]])
    body = written.compressed(topics, V) if kind == "compressed" else written.as_json(written.body(topics, V))
    assert registration(body, version=479, previous=previous).topics == encoded(topics)


def test_topics_of_one_shape_share_what_is_kept_of_them() -> None:
    topics = [replace(T2, topic_name=f"T{number}") for number in range(10)]
    found = read(written.body(topics, V)).topics
    assert len({id(config) for config in found.values()}) == 1


def test_no_body_is_an_empty_one() -> None:
    assert registration(b"", version=479) == RegisterBody(version=DataVersion(0, 0, 0), filter_servers=())
    assert registration(b"", version=36) == RegisterBody(filter_servers=None)
    mapped = (
        b'{"topicConfigTable":{"T1":{"topicName":"T1"}},"topicQueueMappingInfoMap":{"T1":{"totalQueues":2}}}'
    )
    assert registration(mapped, version=36).topics == {"T1": encode_config(TopicConfig("T1"))}


@pytest.mark.parametrize(
    ("content", "servers"),
    [({}, ()), ({"filterServerList": None}, None), ({"topicConfigSerializeWrapper": None}, ())],
)
def test_what_is_not_there_is_empty(content: dict[str, object], servers: tuple[str, ...] | None) -> None:
    assert read(content) == RegisterBody(filter_servers=servers)


def test_keys_may_be_numbers_without_quotes() -> None:
    content = written.as_json(written.body([replace(T1, queue_mapping=STATIC)], V))
    found = registration(content.replace(b'{"0":', b"{0:"), version=479)
    assert found.topics["T1"] == encode_config(replace(T1, queue_mapping=STATIC))


def test_a_version_of_4_9_has_no_state_version() -> None:
    content = written.body([T1], V)
    content["topicConfigSerializeWrapper"]["dataVersion"] = {"counter": 3, "timestamp": 5}
    assert read(content).version == DataVersion(0, 5, 3)


def test_defaults_are_those_of_rocketmq() -> None:
    wrapper = {"topicConfigTable": {"T": {"topicName": "T", "perm": None}}}
    assert read({"topicConfigSerializeWrapper": wrapper}).topics == encoded([TopicConfig("T", 16, 16, 6)])


ODD: Final[dict[str, tuple[object, str]]] = {
    "no object": ([], r"topic 'x': expected an object, got \[\]"),
    "no name": ({}, "topic 'x': topicName: expected a string, got None"),
    "a number as the name": ({"topicName": 5}, "topic 'x': topicName: expected a string, got 5"),
    "a blank in the name": ({"topicName": "a b"}, "topic 'a b': topicName: 'a b' must not be empty nor hold"),
    "a long name": ({"topicName": "n" * 256}, "has 256 bytes, the limit is 255"),
    "a permission that is none": ({"topicName": "x", "perm": 8}, r"topic 'x': perm: 8 is not within 0\.\.7"),
    "queues as text": (
        {"topicName": "x", "readQueueNums": "4"},
        "topic 'x': readQueueNums: expected a whole",
    ),
    "queues as a flag": ({"topicName": "x", "writeQueueNums": True}, "topic 'x': writeQueueNums: expected a"),
    "negative queues": ({"topicName": "x", "writeQueueNums": -1}, r"writeQueueNums: -1 is not within 0\.\."),
    "an unknown filter": ({"topicName": "x", "topicFilterType": "NO"}, "topic 'x': topicFilterType: 'NO' is"),
    "attributes that are none": ({"topicName": "x", "attributes": [1]}, "topic 'x': attributes: expected a"),
    "an attribute that is a number": ({"topicName": "x", "attributes": {"a": 1}}, "'a': 1 is not a pair"),
    "the same name again": ({"topicName": "T1"}, "topic 'T1': stands twice"),
}


@pytest.mark.parametrize("what", ODD)
def test_an_odd_topic_takes_no_other_one_away(what: str) -> None:
    value, said = ODD[what]
    content = written.body([T1, T2], V)
    content["topicConfigSerializeWrapper"]["topicConfigTable"]["x"] = value
    found = read(content)
    assert (found.topics, found.version) == (encoded([T1, T2]), V)
    (refused,) = found.refused
    assert re.search(said, refused)


@pytest.mark.parametrize("kind", ["plain", "compressed"])
def test_mappings_may_come_without_their_topics(kind: str) -> None:
    static = replace(T1, queue_mapping=STATIC)
    if kind == "compressed":
        info = written.as_json(written.mapping("T1", STATIC))
        body = zlib.compress(written.inflated([written.line(T2)], mappings=[info]))
    else:
        content = written.body([static, T2], V)
        del content["topicConfigSerializeWrapper"]["topicConfigTable"]["T1"]
        body = written.as_json(content)
    found = registration(body, version=479)
    assert found.topics == encoded([T2])
    assert found.refused == ("topic 'T1': a queue mapping, and the topic itself was never registered",)
    found = registration(body, version=479, previous=encoded([T1]))
    assert (found.topics, found.refused) == (encoded([static, T2]), ())
    found = registration(body, version=479, previous=encoded([static]))
    assert found.topics == encoded([static, T2])


def test_a_static_topic_keeps_its_mapping_when_none_is_sent() -> None:
    static = replace(T1, queue_mapping=STATIC)
    content = written.body([T1], V)
    assert read(content, previous=encoded([static])).topics == encoded([static])
    larger = replace(T1, read_queue_nums=8)
    found = read(written.body([larger], V), previous=encoded([static]))
    assert found.topics == encoded([replace(larger, queue_mapping=STATIC)])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bname": "broker-b"}, "bname: 'broker-b' is another broker than 'broker-a'"),
        ({"currIdMap": []}, r"currIdMap: expected an object, got \[\]"),
        ({"currIdMap": {"a": 1}}, "currIdMap: 'a': 'a' is no whole number"),
        ({"currIdMap": {"-1": 1}}, "currIdMap: -1 is not within"),
        ({"currIdMap": {"1": None}}, r"currIdMap\[1\]: expected a whole number, got None"),
        ({"totalQueues": "2"}, "totalQueues: expected a whole number, got '2'"),
        ({"epoch": -1}, "epoch: -1 is not within"),
        ({"dirty": 0}, "dirty: expected true or false, got 0"),
        ({"scope": "a b"}, "scope: 'a b' must not be empty nor hold white space"),
        (
            {"currIdMap": {str(number): 0 for number in range(4_097)}},
            "number of ids in currIdMap: 4097 is not",
        ),
    ],
)
def test_a_static_topic_whose_mapping_makes_no_sense_is_left_out(
    change: dict[str, object], said: str
) -> None:
    content = written.body([replace(T1, queue_mapping=STATIC), T2], V)
    content["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"]["T1"] |= change
    found = read(content, broker_name="broker-a")
    assert found.topics == encoded([T2])
    (refused,) = found.refused
    assert refused.startswith("topic 'T1': queue mapping: ")
    assert re.search(said, refused)


def test_a_mapping_that_says_nothing_else_has_no_queues() -> None:
    content = written.body([T1], V)
    content["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"] = {"T1": {}}
    unmapped = replace(T1, queue_mapping=QueueMapping(0, 0))
    assert read(content, broker_name="broker-a").topics == encoded([unmapped])


MALFORMED: Final[dict[str, tuple[bytes, str]]] = {
    "text": (b"text", "body: is no JSON"),
    "no end": (b'{"a":', "body: is no JSON"),
    "not UTF-8": (b'{"a":"\xff"}', "body: is no JSON"),
    "deep": (b"[" * 100_000, "body: is no JSON"),
    "deep objects": (b'{"a":' * 100_000, "body: is no JSON"),
    "a list": (b"[]", r"body: expected an object, got \[\]"),
    "a list of topics": (
        b'{"topicConfigSerializeWrapper":[]}',
        "topicConfigSerializeWrapper: expected an obj",
    ),
    "a table that is a list": (
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":[]}}',
        "topicConfigTable: expected an object",
    ),
    "mappings that are a list": (
        b'{"topicConfigSerializeWrapper":{"topicQueueMappingInfoMap":[]}}',
        "topicQueueMappingInfoMap: expected an object",
    ),
    "a version that is a number": (
        b'{"topicConfigSerializeWrapper":{"dataVersion":1}}',
        "dataVersion: expected an object, got 1",
    ),
    "a negative version": (
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":-1}}}',
        "dataVersion: counter: -1 is not within",
    ),
    "filter servers that are text": (
        b'{"filterServerList":"a"}',
        "filterServerList: expected a list of strings",
    ),
    "filter servers that are numbers": (
        b'{"filterServerList":[1]}',
        "filterServerList: expected a list of str",
    ),
    "no zlib": (b"\x78nothing", "body: cannot be decompressed: .*incorrect header"),
    "the beginning of zlib": (b"\x78", "length of dataVersion: the body ends before it does"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_body_is_refused_with_its_reason(what: str) -> None:
    body, said = MALFORMED[what]
    with pytest.raises(BodyError, match=said) as refused:
        registration(body, version=479)
    assert len(str(refused.value)) < 500


@given(st.binary(max_size=60), KINDS, st.sampled_from([36, 407, 479]), KINDS)
def test_whatever_arrives_is_read_or_refused(body: bytes, label: str, version: int, kind: str) -> None:
    try:
        content = zlib.compress(body) if kind == "compressed" else body
        found = registration(content, version=version, compressed=label == "compressed")
    except BodyError:
        return
    assert found.topics == {} or not found.refused


ANYTHING: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "T1", "a b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["0", "a", "T1"]), inner),
    max_leaves=4,
)
PLACES: Final = (
    (),
    ("filterServerList",),
    ("topicConfigSerializeWrapper",),
    ("topicConfigSerializeWrapper", "dataVersion"),
    ("topicConfigSerializeWrapper", "dataVersion", "counter"),
    ("topicConfigSerializeWrapper", "topicConfigTable"),
    ("topicConfigSerializeWrapper", "topicConfigTable", "T1"),
    *(("topicConfigSerializeWrapper", "topicConfigTable", "T1", name) for name in written.topic(T1)),
    ("topicConfigSerializeWrapper", "topicQueueMappingInfoMap"),
    ("topicConfigSerializeWrapper", "topicQueueMappingInfoMap", "T1"),
    *(
        ("topicConfigSerializeWrapper", "topicQueueMappingInfoMap", "T1", name)
        for name in ("bname", "currIdMap")
    ),
    ("topicConfigSerializeWrapper", "topicQueueMappingInfoMap", "T1", "scope"),
)


@given(st.sampled_from(PLACES), ANYTHING, st.sampled_from([encoded([T1, T2]), {}]))
def test_anything_may_stand_anywhere(
    place: tuple[str, ...], value: object, previous: dict[str, bytes]
) -> None:
    content: Any = {"": written.body([replace(T1, queue_mapping=STATIC), T2], V)}
    inner, last = content, ""
    for step in place:
        inner, last = inner[last], step
    inner[last] = value
    with suppress(BodyError):
        read(content[""], broker_name="broker-a", previous=previous)


@pytest.mark.parametrize(
    ("table", "what"), [("topicConfigTable", "topics"), ("topicQueueMappingInfoMap", "queue mappings")]
)
def test_a_plain_body_may_have_no_more_topics_either(
    table: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "MAX_TOPICS", 2)
    with pytest.raises(BodyError, match=f"number of {what}: 3, the limit is 2"):
        read({"topicConfigSerializeWrapper": {table: {str(number): {} for number in range(3)}}})


def test_the_checksum_is_that_of_java() -> None:
    assert bodies.crc32(b"") == 0
    assert bodies.crc32(b"123456789") == 0xCBF43926 & 0x7FFFFFFF


@given(VERSIONS)
def test_a_data_version_is_read(version: DataVersion) -> None:
    assert bodies.data_version(written.as_json(written.version(version))) == version


def test_a_data_version_may_be_missing() -> None:
    assert bodies.data_version(b"") is None
    assert bodies.data_version(b"null") is None
    assert bodies.data_version(b'{"timestamp":0,"counter":null}') == DataVersion()


def test_a_data_version_without_a_time_stamp_equals_none() -> None:
    assert bodies.data_version(b'{"counter":1}') is None


@pytest.mark.parametrize("body", [b"x", b"[]", b'{"timestamp":-1}', b'{"counter":"1"}', b'{"counter":1.5}'])
def test_what_is_no_data_version_is_refused(body: bytes) -> None:
    with pytest.raises(BodyError, match="dataVersion: "):
        bodies.data_version(body)


def test_the_queues_of_one_topic_are_read() -> None:
    queues = {"brokerName": "a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 1, "writeQueueNums": 8}
    body = written.as_json({"brokerDatas": [], "queueDatas": [queues, {"brokerName": "b"}]})
    assert bodies.topic_route_queues(body) == [QueueData("a", 4, 8, 6, 1), QueueData("b", 0, 0, 0)]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"queueDatas":null}', b'{"queueDatas":[]}'])
def test_a_topic_may_have_no_queues(body: bytes) -> None:
    assert bodies.topic_route_queues(body) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"x", "body: is no JSON"),
        (b"[]", "body: expected an object"),
        (b'{"queueDatas":{}}', "queueDatas: expected a list"),
        (b'{"queueDatas":[1]}', r"queueDatas\[0\]: expected an object, got 1"),
        (
            b'{"queueDatas":[{"brokerName":"a"},{}]}',
            r"queueDatas\[1\]: brokerName: expected a string, got None",
        ),
        (b'{"queueDatas":[{"brokerName":"a","perm":8}]}', r"queueDatas\[0\]: perm: 8 is not within"),
    ],
)
def test_what_are_no_queues_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(BodyError, match=said):
        bodies.topic_route_queues(body)


def test_settings_are_read_as_java_does() -> None:
    assert bodies.properties(b"a=b\n# c=d\nlistenPort : 9876\na=c \\\n d") == {
        "a": "c d",
        "listenPort": "9876",
    }
    assert bodies.properties(b"") == {}
    with pytest.raises(BodyError, match=r"properties: line 2: Invalid \\u escape"):
        bodies.properties(b"a=b\nc=\\u12")
