"""Lines that are no export are refused before anything is written, with the number of the line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.registry import InvalidInput, QueueMapping, RouteStore, TopicConfig
from sharedroutes.registry.export_file import Reader, Writer
from sharedroutes.registry.plans.export_import import BrokerRecord, KvRecord, Record, Skipped, Unit
from tests.fix_redis import Store

Lines = list[dict[str, Any]]

RECORDS: Final[list[Record]] = [
    BrokerRecord(
        "a",
        "c",
        topics={name: TopicConfig(name, queue_mapping=QueueMapping(8, 1, {0: 3})) for name in ("t", "u")},
    ),
    BrokerRecord("b", "c", topics={"t": TopicConfig("t")}),
    KvRecord("n", "k", "v"),
]


def written(records: list[Record] = RECORDS) -> list[bytes]:
    writer = Writer("ns")
    return [writer.header(), *(line for record in records for line in writer.lines(record)), writer.end()]


def units(lines: list[bytes]) -> list[Unit]:
    return list(Reader().units(lines))


def edited(edit: Callable[[Lines], object]) -> list[bytes]:
    lines: Lines = [json.loads(line) for line in written()]
    edit(lines)
    return [json.dumps(line).encode() for line in lines]


def test_what_is_written_is_read() -> None:
    found = units(written([*RECORDS, Skipped("key", "why")]))
    assert [unit.record for unit in found] == [*RECORDS[:2], Skipped("key", "why"), (RECORDS[2],)]
    assert [unit.line for unit in found if isinstance(unit.record, BrokerRecord)] == [2, 5]


def test_pairs_are_named_by_the_line_of_the_first_whatever_stands_between_them() -> None:
    pairs = [KvRecord("n", f"k{number}", "v") for number in range(3)]
    lines = written([RECORDS[1], pairs[0], Skipped("key", "why"), *pairs[1:], Skipped("key", "why")])
    assert [(unit.line, unit.record) for unit in units(lines) if isinstance(unit.record, tuple)] == [
        (4, tuple(pairs))
    ]


@pytest.mark.parametrize("part", ["versions", "members"])
def test_an_id_has_one_form(part: str) -> None:
    value = {"versions": {"stateVersion": 0, "timestamp": 1, "counter": 1}, "members": {"address": "h:1"}}
    for broker_id in ("007", str(2**63)):
        lines = edited(lambda all_, broker_id=broker_id: all_[1].update({part: {broker_id: value[part]}}))  # type: ignore[misc]
        with pytest.raises(InvalidInput, match=f"line 2: broker: '{broker_id}' is no number"):
            units(lines)


def test_lines_may_be_text_and_have_other_line_ends() -> None:
    assert len(list(Reader().units([line.decode().strip() + "\r\n" for line in written()]))) == 3


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
    "an unknown field": (
        lambda all_: all_[2].update(colour=1),
        "line 3: topic: the field 'colour' is unknown",
    ),
    "a missing field": (lambda all_: all_[2].pop("perm"), "line 3: topic: 'perm' is missing"),
    "a wrong number": (lambda all_: all_[2].update(perm=9), "line 3: topic: perm: 9 is not within 0..7"),
    "a wrong flag": (lambda all_: all_[2].update(order=1), "line 3: topic: order: expected true or false"),
    "a wrong name": (lambda all_: all_[2].update(topicName="a b"), "line 3: topic: topicName: 'a b'"),
    "a wrong mapping": (
        lambda all_: all_[2]["queueMapping"].pop("epoch"),
        "line 3: topic: 'epoch' is missing",
    ),
    "a wrong mapping id": (
        lambda all_: all_[2]["queueMapping"].update(currIdMap={"x": 1}),
        "line 3: topic: 'x' is no number",
    ),
    "a wrong broker": (lambda all_: all_[1].update(brokerName="a:b"), "line 2: broker: brokerName: 'a:b'"),
    "a wrong cluster": (lambda all_: all_[1].update(cluster=7), "line 2: broker: cluster: expected a string"),
    "a wrong version": (
        lambda all_: all_[1].update(versions={"0": {"stateVersion": -1, "timestamp": 0, "counter": 0}}),
        "line 2: broker: stateVersion: -1",
    ),
    "versions that are none": (lambda all_: all_[1].update(versions=[]), "line 2: broker: "),
    "a wrong member": (
        lambda all_: all_[1].update(members={"0": {"address": "x"}}),
        "line 2: broker: members: member 0",
    ),
    "a wrong wiped": (lambda all_: all_[1].update(wiped="yes"), "line 2: wiped: expected true or false"),
    "a wrong value": (lambda all_: all_[6].update(value=3), "line 7: kv: value: expected a string"),
    "a topic twice": (lambda all_: all_.insert(3, all_[2]), "line 4: topic 't' of broker 'a' stands twice"),
    "a broker twice": (lambda all_: all_.insert(4, all_[1]), "line 5: broker 'a' stands twice"),
    "a topic of another broker": (lambda all_: move(all_, 3, 6), "line 7: topic of broker 'a'"),
    "a lost topic": (lambda all_: all_.pop(3), "line 7: 3 lines of type topic were exported, 2 are here"),
    "a lost end": (lambda all_: all_.pop(), "line 7: the export is truncated"),
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
        units(lines)


@given(st.integers(0, 7))
def test_every_truncated_export_is_refused(count: int) -> None:
    with pytest.raises(InvalidInput, match=f"line {count}: the export is truncated"):
        units(written()[:count])


@given(st.data())
def test_an_export_that_is_cut_anywhere_is_refused(data: st.DataObject) -> None:
    whole = b"".join(written())
    cut = whole[: data.draw(st.integers(0, len(whole) - 2))]
    with pytest.raises(InvalidInput, match="line"):
        units(cut.splitlines(keepends=True))


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


@pytest.mark.parametrize(
    "field", ["topicName", "readQueueNums", "order", "topicFilterType", "attributes", "queueMapping"]
)
@given(
    value=st.none()
    | st.integers()
    | st.lists(st.integers())
    | st.dictionaries(st.text(), st.integers(), min_size=1)
)
def test_a_field_of_another_kind_is_named_by_its_line(field: str, value: Any) -> None:
    lines = [json.loads(line) for line in written()]
    lines[2][field] = value
    problem = ""
    try:
        units([json.dumps(line).encode() for line in lines])
    except InvalidInput as error:
        problem = str(error)
    legal = (field == "readQueueNums" and isinstance(value, int) and 0 <= value <= 65_536) or (
        field == "queueMapping" and value is None
    )
    assert problem.startswith("line 3: topic: ") is not legal


def test_the_counts_of_an_empty_registry_are_an_export(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin)
    lines = list(store.admin.export())
    assert len(lines) == 2
    store.admin.import_(lines)
    assert admin.dbsize() == 0
