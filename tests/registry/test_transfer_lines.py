"""Lines that are no export are refused before anything is written, with the number of the line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
import redis
from hypothesis import assume, given
from hypothesis import strategies as st

from sharedroutes.registry import InvalidInput, QueueMapping, RouteStore, TopicConfig
from sharedroutes.registry.codec import encode_config
from sharedroutes.registry.export_file import Numbered, Reader, Writer
from sharedroutes.registry.plans.export_import import BrokerRecord, KvRecord, Record, Skipped
from tests.fix_redis import Store

Lines = list[dict[str, Any]]

RECORDS: Final[list[Record]] = [
    BrokerRecord(
        "a",
        {"cluster": "c", "version:0": "0 1 1"},
        {
            "t": encode_config(TopicConfig("t", order=True, queue_mapping=QueueMapping(8, 1, {0: 3}))),
            "u": encode_config(TopicConfig("u", attributes={"a": "b"})),
        },
    ),
    BrokerRecord("b", {"cluster": "c"}, {"t": encode_config(TopicConfig("t"))}),
    KvRecord("n", "k", "v"),
]


def written(records: list[Record] = RECORDS) -> list[bytes]:
    writer = Writer("ns")
    return [writer.header(), *(line for record in records for line in writer.lines(record)), writer.end()]


def read(lines: list[bytes]) -> list[Numbered]:
    return list(Reader().records(lines))


def edited(edit: Callable[[Lines], object]) -> list[bytes]:
    lines: Lines = [json.loads(line) for line in written()]
    edit(lines)
    return [json.dumps(line).encode() for line in lines]


def test_what_is_written_is_read_with_the_number_of_its_line() -> None:
    found = read(written([*RECORDS, Skipped("key", "why")]))
    assert found == [(2, RECORDS[0]), (5, RECORDS[1]), (7, RECORDS[2]), (8, Skipped("key", "why"))]


@pytest.mark.parametrize("broker_id", ["007", str(2**63)])
@pytest.mark.parametrize(("what", "value"), [("version", "0 1 1"), ("member", '{"address":"h:1"}')])
def test_an_id_has_one_form(what: str, value: str, broker_id: str) -> None:
    lines = edited(lambda all_: all_[1]["group"].update({f"{what}:{broker_id}": value}))
    with pytest.raises(InvalidInput, match=f"line 2: the field b'{what}:{broker_id}': is none of the regis"):
        read(lines)


def test_lines_may_be_text_and_have_other_line_ends() -> None:
    assert len(list(Reader().records([line.decode().strip() + "\r\n" for line in written()]))) == 3


def config(lines: Lines, text: str) -> None:
    lines[2]["config"] = text


def group(lines: Lines, **fields: Any) -> None:
    lines[1]["group"].update(fields)


def move(lines: Lines, origin: int, to: int) -> None:
    lines.insert(to, lines.pop(origin))


WRONG: Final[dict[str, tuple[Callable[[Lines], object], str]]] = {
    "another format": (lambda all_: all_[0].update(format="csv"), "line 1: is no export: format is 'csv'"),
    "a newer format": (lambda all_: all_[0].update(version=2), "line 1: version 2 is newer than 1"),
    "a newer schema": (lambda all_: all_[0].update(schema=9), "line 1: schema 9 is newer than 1"),
    "a version that is none": (
        lambda all_: all_[0].update(version="1"),
        "line 1: version: expected a number",
    ),
    "no header": (lambda all_: all_.pop(0), "line 1: is no export"),
    "an unknown type": (lambda all_: all_[2].update(type="queue"), "line 3: type: 'queue' is none of"),
    "no type": (lambda all_: all_[2].pop("type"), "line 3: type: None is none of"),
    "an unknown field": (lambda all_: all_[2].update(colour=1), "line 3: the field 'colour' is unknown"),
    "a missing field": (lambda all_: all_[2].pop("config"), "line 3: the field 'config' is missing"),
    "a missing number": (lambda all_: config(all_, "4 4 6"), "line 3: config: topic 't'"),
    "a wrong number": (lambda all_: config(all_, "4 4 9 0"), "line 3: config: topic 't'.*: perm: 9 is not "),
    "another form of a number": (
        lambda all_: config(all_, "4 04 6 0"),
        "line 3: config: b'4 04 6 0' would be exported as b'4 4 6 0'",
    ),
    "a wrong flag": (
        lambda all_: config(all_, '4 4 6 0 {"order":1}'),
        "line 3: config: .*: order: expected true or false",
    ),
    "an unknown trait": (
        lambda all_: config(all_, '4 4 6 0 {"colour":1}'),
        "line 3: config: .* would be exported as b'4 4 6 0'",
    ),
    "a wrong name": (lambda all_: all_[2].update(topic="a b"), "line 3: config: .*: topicName: 'a b'"),
    "a wrong mapping": (
        lambda all_: config(all_, all_[2]["config"].replace("epoch", "colour")),
        "line 3: config: .*'epoch'",
    ),
    "a wrong mapping id": (
        lambda all_: config(all_, all_[2]["config"].replace('"0":3', '"x":3')),
        "line 3: config: .*'x'",
    ),
    "a wrong mapping flag": (
        lambda all_: config(all_, all_[2]["config"].replace("false", "0")),
        "line 3: config: .*dirty",
    ),
    "a wrong broker": (lambda all_: all_[1].update(broker="a:b"), "line 2: broker: 'a:b'"),
    "a group that is none": (lambda all_: all_[1].update(group=[]), "line 2: group: expected an object"),
    "a wrong cluster": (lambda all_: group(all_, cluster=7), "line 2: group: cluster: expected a string"),
    "a wrong version": (
        lambda all_: group(all_, **{"version:0": "-1 0 0"}),
        "line 2: the field b'version:0': .*: stateVersion: -1",
    ),
    "another form of a version": (
        lambda all_: group(all_, **{"version:0": "1 02 3"}),
        "line 2: group: version:0: b'1 02 3' would be exported as b'1 2 3'",
    ),
    "a wrong member": (
        lambda all_: group(all_, **{"member:0": '{"address":"x"}'}),
        "line 2: the field b'member:0': member 0",
    ),
    "a wrong wiped": (lambda all_: group(all_, wiped="yes"), "line 2: the field b'wiped': is not 1"),
    "a field that is not exported": (
        lambda all_: group(all_, **{"epoch:0": "3"}),
        "line 2: group: epoch:0: b'3' would be exported as None",
    ),
    "a wrong value": (lambda all_: all_[6].update(value=3), "line 7: value: expected a string"),
    "a topic twice": (lambda all_: all_.insert(3, all_[2]), "line 4: topic 't' of broker 'a' stands twice"),
    "a broker twice": (lambda all_: all_.insert(4, all_[1]), "line 5: broker 'a' stands twice"),
    "a topic of another broker": (lambda all_: move(all_, 3, 6), "line 7: topic of broker 'a'"),
    "a lost topic": (lambda all_: all_.pop(3), "line 7: 3 lines of type topic were exported, 2 are here"),
    "something after the end": (lambda all_: all_.append(all_[6]), "line 9: stands after the last line"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_lines_that_are_no_export_are_refused_and_nothing_is_written(
    store: Store, admin: redis.Redis, name: str
) -> None:
    edit, message = WRONG[name]
    with pytest.raises(InvalidInput, match=message):
        await store.admin.import_(edited(edit))
    assert admin.dbsize() == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"{", "is no JSON"),
        (b"[1]", r"expected an object, got \[1\]"),
        (b"\xff\n", "is no JSON"),
    ],
)
def test_a_garbled_line_is_named(line: bytes, message: str) -> None:
    lines = written()
    lines[3] = line
    with pytest.raises(InvalidInput, match=f"^line 4: {message}"):
        read(lines)


@given(st.integers(0, 7))
def test_every_truncated_export_is_refused(count: int) -> None:
    with pytest.raises(InvalidInput, match=f"line {count}: the export is truncated"):
        read(written()[:count])


@given(st.data())
def test_an_export_that_is_cut_anywhere_is_refused(data: st.DataObject) -> None:
    whole = b"".join(written())
    cut = whole[: data.draw(st.integers(0, len(whole) - 2))]
    with pytest.raises(InvalidInput, match="line"):
        read(cut.splitlines(keepends=True))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda of: st.lists(of) | st.dictionaries(st.text(), of),
    ),
    st.sampled_from(["broker", "topic", "kv", "skipped", "end", "x"]),
)
def test_no_line_is_answered_by_another_error(value: Any, kind: str) -> None:
    fields = {**value, "type": kind} if isinstance(value, dict) else value
    reader = Reader()
    for line in written()[:2]:
        list(reader.feed(line))
    with pytest.raises(InvalidInput, match=r"^line 3: "):
        list(reader.feed(json.dumps(fields)))


@pytest.mark.parametrize("field", ["broker", "topic", "config"])
@given(
    value=st.none()
    | st.integers()
    | st.text()
    | st.lists(st.integers())
    | st.dictionaries(st.text(), st.integers(), min_size=1)
)
def test_a_field_of_another_kind_is_named_by_its_line(field: str, value: Any) -> None:
    assume(value != "a" and (field != "topic" or not isinstance(value, str)))
    lines = [json.loads(line) for line in written()]
    lines[2][field] = value
    with pytest.raises(InvalidInput, match=f"^line 3: .*{field}"):
        read([json.dumps(line).encode() for line in lines])


def test_the_counts_of_an_empty_registry_are_an_export(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin)
    lines = list(store.admin.export())
    assert len(lines) == 2
    store.admin.import_(lines)
    assert admin.dbsize() == 0
