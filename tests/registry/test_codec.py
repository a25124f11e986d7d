"""What is written is read back the same, and whatever else stands in Redis breaks nothing but itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sharedroutes.registry import (
    EXPIRED,
    Change,
    ChangeKind,
    CorruptData,
    DataVersion,
    Group,
    QueueData,
    TopicConfig,
    codec,
)
from sharedroutes.registry.codec import OF_NO_BROKER
from tests.registry.builders import broker, broker_names, names, row, topic_configs

KEY = "{sharedroutes}:some:key"
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def changes() -> st.SearchStrategy[Change]:
    topics = st.lists(names(), max_size=4).map(tuple)
    text = st.text(st.characters(codec="utf-8"), max_size=20)
    of_brokers = st.builds(
        Change,
        kind=st.sampled_from([kind for kind in ChangeKind if kind not in OF_NO_BROKER]),
        broker_name=broker_names(),
        broker_id=st.integers(0, 2**63 - 1),
        epoch=st.integers(1, 2**63 - 1),
        cluster=names(),
        address=text,
        reason=text,
        added=topics,
        changed=topics,
        removed=topics,
        lease_ttl_ms=st.none() | st.integers(1, 2**63 - 1),
        lease_ended_ms=st.none() | st.integers(1, 2**63 - 1),
    )
    return of_brokers | st.builds(
        Change,
        kind=st.sampled_from(sorted(OF_NO_BROKER)),
        reason=text,
        removed=topics,
        brokers=st.lists(broker_names(), max_size=3).map(tuple),
        namespace=text,
        key=text,
    )


def garbage(good: bytes) -> st.SearchStrategy[bytes]:
    """Return any bytes, and good values with something cut out or put in."""
    cut = st.tuples(st.integers(0, len(good)), st.integers(0, 3), st.binary(max_size=3))
    return st.binary(max_size=40) | cut.map(lambda at: good[: at[0]] + at[2] + good[at[0] + at[1] :])


@given(topic_configs())
def test_a_topic_is_read_back_as_it_was_written(config: TopicConfig) -> None:
    assert codec.decode_config(KEY, config.topic_name, codec.encode_config(config)) == config


@given(topic_configs())
def test_equal_topics_are_written_alike(config: TopicConfig) -> None:
    turned = replace(config, attributes=dict(reversed(list(config.attributes.items()))))
    assert codec.encode_config(turned) == codec.encode_config(config)


@given(topic_configs())
def test_a_written_topic_makes_the_row_of_its_broker(config: TopicConfig) -> None:
    rows, bad = codec.decode_index(KEY, codec.encode_row(b"broker-a", codec.encode_config(config)))
    assert bad is None
    assert rows == (row("broker-a", config),)


@given(st.lists(st.tuples(broker_names(), topic_configs()), min_size=1, max_size=5))
def test_an_index_is_one_row_a_broker_in_the_order_of_their_names(
    rows: list[tuple[str, TopicConfig]],
) -> None:
    index = b"\n".join(codec.encode_row(name.encode(), codec.encode_config(config)) for name, config in rows)
    found, bad = codec.decode_index(KEY, index)
    assert bad is None
    assert [row.broker_name for row in found] == sorted(name for name, _ in rows)


GOOD_ROW = b"broker-a 4 8 6 0"
BAD_ROWS = [
    b"",
    b"broker-a",
    b"broker-a 4 8 6",
    b"broker-a 4 8 6 0 0",
    b"broker-a 4  8 6",
    b"broker-a four 8 6 0",
    b"broker-a 4.0 8 6 0",
    b"broker-a -4 8 6 0",
    b"broker-a 4 65537 6 0",
    b"broker-a 4 8 9 0",
    b"broker-a 4 8 6 -1",
    b" 4 8 6 0",
    b"a:b 4 8 6 0",
    b"\xff\xfe 4 8 6 0",
]


@pytest.mark.parametrize("bad_row", BAD_ROWS, ids=ascii)
def test_a_row_that_makes_no_sense_is_left_out_and_reported_with_its_key(bad_row: bytes) -> None:
    for index in (bad_row + b"\n" + GOOD_ROW, GOOD_ROW + b"\n" + bad_row):
        rows, bad = codec.decode_index(KEY, index)
        assert rows == (QueueData("broker-a", 4, 8, 6, 0),)
        assert isinstance(bad, CorruptData)
        assert bad.key == KEY
        assert "1 row" in bad.reason


@given(garbage(GOOD_ROW + b"\n" + GOOD_ROW))
def test_no_index_whatsoever_raises(index: bytes) -> None:
    rows, bad = codec.decode_index(KEY, index)
    assert rows or bad


def test_a_long_garbage_row_is_cut_in_the_message() -> None:
    _, bad = codec.decode_index(KEY, b"x" * 100_000)
    assert bad is not None
    assert len(str(bad)) < 300


@given(st.integers(1, 10**16 - 1), st.sampled_from(["10.0.0.1:10911", "[::1]:1", "host:65535"]))
def test_a_lease_is_read_back_as_it_was_written(epoch: int, address: str) -> None:
    assert codec.decode_lease(codec.encode_lease(epoch, address).encode()) == (epoch, address)


@pytest.mark.parametrize(
    "value", [b"", b"12", b"12 ", b" h:1", b"x h:1", b"12 \xff:1", b"-1 h:1", b"12 no-address"], ids=ascii
)
def test_a_value_that_is_no_lease_gives_no_address(value: bytes) -> None:
    assert codec.decode_lease(value) is None


@given(garbage(b"1700000000000000 10.0.0.1:10911"))
def test_no_lease_whatsoever_raises(value: bytes) -> None:
    lease = codec.decode_lease(value)
    assert lease is None or lease[1]


@given(changes())
@example(Change(kind=ChangeKind.UP, broker_name="a", broker_id=0, epoch=1))
def test_a_change_is_read_back_as_it_was_written(change: Change) -> None:
    assert codec.decode_change(KEY, "", codec.encode_change(change)) == change


def test_a_record_of_an_older_release_does_not_tell_of_the_lease() -> None:
    up = _change(b'{"kind":"up","broker":"a","id":0,"epoch":1,"cluster":"c","address":"h:1"}')
    assert (up.lease_ttl_ms, up.lease_ended_ms) == (None, None)


def test_the_lease_takes_little_room_in_a_record() -> None:
    longest = {"broker_name": "b" * 100, "broker_id": 3, "epoch": 10**16 - 1, "cluster": "c" * 100}
    up = Change(kind=ChangeKind.UP, address="a" * 100 + ":10911", lease_ttl_ms=15_000, **longest)  # type: ignore[arg-type]
    down = Change(kind=ChangeKind.DOWN, reason=EXPIRED, lease_ended_ms=1_790_000_000_000, **longest)  # type: ignore[arg-type]
    assert codec.encode_change(up).endswith(b',"ttl":15000}')
    assert codec.encode_change(down).endswith(b',"ended":1790000000000}')
    assert max(map(len, map(codec.encode_change, (up, down)))) <= 512


RECORD = b'{"kind":"topics","broker":"a","id":0,"epoch":1,"added":["t"]}'


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'"text"',
        b"not json",
        RECORD.replace(b"topics", b"party"),
        RECORD.replace(b'"epoch":1', b'"epoch":"one"'),
        RECORD.replace(b'"epoch":1', b'"epoch":1e999'),
        RECORD.replace(b'"id":0', b'"id":null'),
        RECORD.replace(b'"id":0', b'"ttl":"long"'),
        RECORD.replace(b'"id":0', b'"ended":[1]'),
        RECORD.replace(b'["t"]', b"7"),
        RECORD.replace(b'["t"]', b"[7]"),
        RECORD.replace(b'["t"]', b'"t"'),
        RECORD.replace(b'["t"]', b"null"),
    ],
    ids=ascii,
)
def test_a_record_that_is_no_change_is_reported_with_key_and_entry(record: bytes) -> None:
    with pytest.raises(CorruptData, match="entry 5-0") as corrupt:
        codec.decode_change(KEY, "5-0", record)
    assert corrupt.value.key == KEY


def _config(value: bytes) -> object:
    return codec.decode_config(KEY, "t", value)


def _change(value: bytes) -> Change:
    return codec.decode_change(KEY, "1-0", value)


@pytest.mark.parametrize("decode", [_config, _change])
@given(st.one_of(garbage(RECORD), garbage(b'4 4 6 0 {"order":true}'), JSON.map(orjson.dumps)))
def test_garbage_raises_nothing_but_corrupt_data(decode: Callable[[bytes], object], value: bytes) -> None:
    with contextlib.suppress(CorruptData):
        decode(value)


@given(st.dictionaries(st.sampled_from(["kind", "broker", "id", "epoch", "added", "address"]), JSON))
def test_json_of_another_shape_raises_nothing_but_corrupt_data(fields: dict[str, object]) -> None:
    record = orjson.dumps({"kind": "topics", "broker": "a", "epoch": 1} | fields)
    with contextlib.suppress(CorruptData):
        _change(record)


@given(JSON)
def test_the_rest_of_a_configuration_in_another_shape_raises_nothing_but_corrupt_data(rest: object) -> None:
    with contextlib.suppress(CorruptData):
        _config(b"4 4 6 0 " + orjson.dumps(rest))
    with contextlib.suppress(CorruptData):
        _config(b"4 4 6 0 " + orjson.dumps({"attributes": rest, "order": rest, "topicFilterType": rest}))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"4 4 6",
        b"4 4 6 x",
        b"4 4 9 0",
        b"-4 4 6 0",
        b"4 4 6 0 {",
        b"4 4 6 0 []",
        b'4 4 6 0 {"order":1}',
        b'4 4 6 0 {"topicFilterType":"NO_TAG"}',
        b'4 4 6 0 {"attributes":{"a":1}}',
        b'4 4 6 0 {"attributes":null}',
    ],
    ids=ascii,
)
def test_a_configuration_that_makes_no_sense_is_reported_with_key_and_topic(value: bytes) -> None:
    with pytest.raises(CorruptData, match="topic 't'") as corrupt:
        codec.decode_config(KEY, "t", value)
    assert corrupt.value.key == KEY


def test_a_group_is_its_cluster_and_the_ids_of_its_members() -> None:
    fields = {
        b"cluster": b"c",
        b"member:10": b"{}",
        b"member:2": codec.encode_member(broker()),
        b"epoch:0": b"1",
        b"token": b"1.1",
    }
    assert codec.decode_group("a", fields) == Group("c", "a", (2, 10))


@given(
    st.dictionaries(
        st.sampled_from([b"cluster", b"member:", b"member:x", b"member:\xff"]) | st.binary(), st.binary()
    )
)
def test_no_group_whatsoever_raises(fields: dict[bytes, bytes]) -> None:
    assert codec.decode_group("a", fields).broker_name == "a"


@pytest.mark.parametrize("field", ["member:²".encode(), b"member:9" * 3, b"member:" + b"9" * 5_000], ids=len)
def test_a_member_whose_id_is_no_number_is_passed_over(field: bytes) -> None:
    assert codec.decode_group("a", {field: b"{}", b"member:1": b"{}"}).broker_ids == (1,)


def test_a_data_version_is_read_back_as_it_was_written() -> None:
    version = DataVersion(state_version=1, timestamp=2, counter=3)
    assert codec.encode_data_version(version) == "1 2 3"
    assert codec.decode_data_version("k", b"1 2 3") == version


def test_rows_in_another_order_are_the_same_rows() -> None:
    rows = [codec.encode_row(name, codec.encode_config(TopicConfig("t"))) for name in (b"a", b"b", b"c")]
    in_any_order = {codec.decode_index(KEY, b"\n".join(some)) for some in permutations(rows)}
    ((found, bad),) = in_any_order
    assert [row.broker_name for row in found] == ["a", "b", "c"]
    assert bad is None


@pytest.mark.parametrize(
    "rows",
    [
        "7",
        '{"t": 1}',
        '["t"]',
        '["t", "", "broker-a 4 4"]',
        '["t", "garbage", "broker-a 4 4 6 0"]',
        '["t", "", ""]',
        '["t", 1, 2]',
    ],
)
def test_rows_of_a_doorbell_that_make_no_sense_are_none(rows: str) -> None:
    assert codec.decode_rows(orjson.loads(rows)) == {}


def test_a_record_without_rows_brings_none() -> None:
    change = Change(change_id="1-0", kind=ChangeKind.TOPICS, broker_name="broker-a", broker_id=0, epoch=1)
    assert codec.decode_doorbell(KEY, "1-0", codec.encode_change(change)) == (change, None)
    assert codec.decode_rows(None) == {}
