"""Records become rows: by the thousand or one by one, with the same result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sharedroutes.pipeline.schemas import CHANGES, GAP
from sharedroutes.pipeline.sources.records import SCHEMA, RecordReader, gap
from sharedroutes.registry import Change, ChangeKind, CorruptData
from sharedroutes.registry.codec import OF_NO_BROKER, decode_change, encode_change
from tests.registry.test_codec import JSON, changes, garbage

KEY = "{sharedroutes}:changes"
READER = RecordReader("north", KEY)
UP = b'{"kind":"up","broker":"a","id":0,"epoch":1,"cluster":"c","address":"h:1","ttl":15000}'
TOPICS = b'{"kind":"topics","broker":"a","id":0,"epoch":1,"added":["t"],"changed":[],"removed":["u","v"]}'
KV = b'{"kind":"kv","reason":"put","namespace":"n","key":"k"}'


def ids_of(records: Sequence[bytes | None]) -> list[bytes]:
    return [b"%d-%d" % (1_790_000_000_000 + number, number % 3) for number in range(len(records))]


def rows(*records: bytes | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = READER.batch(ids_of(records), records).to_pylist()
    return found


def is_fast(*records: bytes | None) -> bool:
    """Whether records can be read by the thousand."""
    try:
        READER.fast(ids_of(records), records)
    except (pa.ArrowException, ValueError, TypeError):
        return False
    return True


FIELDS = ("kind", "broker", "id", "epoch", "added", "removed", "brokers", "key", "ttl", "ended", "v", "new")
NUMBERS = (2**63 - 1, 2**63, 2**64 - 1, -1, -(2**63), 1.0, 1e300, True, "5", "five")
SPLICES = (
    *(b"\n", b"\r", b"\r\n", b" ", b"\x00", b"\xff", b"\xed\xa0\x80", b"\\", b"\\ud800", b"\\udc00", b"\\n"),
    *(b'"', b"'", b"{}", b"{", b"}", b"[", b"]", b",", b"//", b'{"kind":"', b'"kind":"down",', b'"id":1,'),
    *(b"null", b"true", b"NaN", b"Infinity", b"1e999", b"1e3", b"-0", b"007", b"0x1"),
)


def odd_records() -> st.SearchStrategy[bytes]:
    """Return what is no record, or not one of this release, but much like one."""
    base = {"kind": "topics", "broker": "a", "id": 0, "epoch": 1}
    replaced = st.dictionaries(st.sampled_from(FIELDS), JSON | st.sampled_from(NUMBERS), max_size=3).map(
        lambda found: orjson.dumps(base | found)
    )
    places = st.tuples(st.sampled_from([UP, TOPICS, KV]), st.integers(0, 100), st.integers(0, 3))
    spliced = st.tuples(places, st.sampled_from(SPLICES)).map(
        lambda cut: cut[0][0][: cut[0][1]] + cut[1] + cut[0][0][cut[0][1] + cut[0][2] :]
    )
    several = st.sampled_from([b"", b" ", UP + UP, UP + b"\n" + UP])
    return replaced | spliced | garbage(UP) | garbage(TOPICS) | several


def entries() -> st.SearchStrategy[list[bytes | None]]:
    """Return good records only, odd ones among good ones, and anything."""
    good: st.SearchStrategy[bytes | None] = changes().map(encode_change)
    few_good = st.lists(good, min_size=1, max_size=4)
    anything = st.lists(good | odd_records() | st.none(), min_size=1, max_size=5)
    one_odd = st.tuples(few_good, odd_records(), few_good).map(lambda parts: [*parts[0], parts[1], *parts[2]])
    return few_good | anything | one_odd


def test_the_columns_are_those_of_the_schema_to_the_letter() -> None:
    assert tuple(SCHEMA.names) == CHANGES.names
    assert READER.batch([b"1-0"], [UP]).schema.equals(SCHEMA)
    assert READER.exact([b"1-0"], [UP]).schema.equals(SCHEMA)
    assert gap("north", "1-0", "2-0", "trimmed").schema.equals(SCHEMA)


@given(entries())
@example([b"", UP + UP])
@example([UP, b" ", UP + UP])
@example([UP + b"\n" + UP, b""])
@example([UP.replace(b'"ttl":15000', b'"new":[NaN,1e999]')])
@example([UP.replace(b'"ttl":15000', b'"new":' + b"[" * 2_000 + b"]" * 2_000)])
@example([UP.replace(b'"ttl":15000', b'"ttl":null')])
@example([UP.replace(b'"ttl":15000', b'"ttl":-0')])
@example([UP.replace(b'"ttl":15000', b'"epoch":2')])
@example([KV.replace(b'"key"', b'"broker":"b","id":7,"epoch":9,"key"')])
@example([UP.replace(b'"h:1"', b'"\xed\xa0\x80"')])
@example([UP.replace(b'"up"', b'"gap"')])
def test_both_ways_to_read_give_the_same_rows(records: list[bytes | None]) -> None:
    ids = ids_of(records)
    exact = READER.exact(ids, records)
    if is_fast(*records):
        assert READER.fast(ids, records).equals(exact)
    assert READER.batch(ids, records).equals(exact)


@given(st.lists(changes(), min_size=1, max_size=4))
def test_a_row_says_what_the_codec_says(told: list[Change]) -> None:
    records = [encode_change(change) for change in told]
    for row, record, entry_id in zip(rows(*records), records, ids_of(records), strict=True):
        change = decode_change(KEY, entry_id.decode(), record)
        assert row["problem"] is None
        assert (row["kind"], row["broker"], row["broker_id"]) == (
            change.kind,
            change.broker_name,
            change.broker_id,
        )
        assert (row["epoch"], row["cluster"], row["address"]) == (
            change.epoch,
            change.cluster,
            change.address,
        )
        assert (row["lease_ttl_ms"], row["lease_ended_ms"]) == (change.lease_ttl_ms, change.lease_ended_ms)
        for names in ("added", "changed", "removed", "brokers"):
            assert tuple(row[names]) == getattr(change, names)
        assert (row["namespace"], row["key"], row["reason"]) == (change.namespace, change.key, change.reason)


@pytest.mark.parametrize("kind", ChangeKind)
def test_what_the_registry_writes_is_read_by_the_thousand(kind: ChangeKind) -> None:
    change = Change(
        kind=kind,
        broker_name="" if kind in OF_NO_BROKER else "broker-ä",
        epoch=1_790_000_000_000_000,
        cluster="c",
        address="[::1]:10911",
        added=("%RETRY%group", "{braces}"),
        lease_ttl_ms=15_000,
    )
    assert is_fast(encode_change(change), UP, TOPICS, KV)


def test_an_id_tells_place_and_time() -> None:
    (row,) = READER.batch([b"1790000000123-7"], [UP]).to_pylist()
    assert (row["registry"], row["change_id"]) == ("north", "1790000000123-7")
    assert (row["ms"], row["seq"]) == (1_790_000_000_123, 7)
    assert row["at"].isoformat() == "2026-09-21T14:13:20.123000+00:00"


@pytest.mark.parametrize(
    ("entry_id", "ms", "seq"),
    [
        (b"1-18446744073709551615", 1, 2**63 - 1),
        (b"18446744073709551615-1", 2**63 - 1, 1),
    ],
)
def test_an_id_of_more_than_63_bits_is_a_problem_and_fits(entry_id: bytes, ms: int, seq: int) -> None:
    (row,) = READER.batch([entry_id], [UP]).to_pylist()
    assert (row["ms"], row["seq"], row["change_id"]) == (ms, seq, entry_id.decode())
    assert "more than 64 bits" in row["problem"]


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (b"", "is no change"),
        (b"not json", "is no change"),
        (b"[]", "is no change"),
        (UP.replace(b'"up"', b'"party"'), "'party' is not a valid ChangeKind"),
        (UP.replace(b'"broker":"a",', b""), "KeyError('broker')"),
        (UP.replace(b'"epoch":1', b'"epoch":"x"'), "is no change"),
        (UP.replace(b'"id":0', b'"id":9223372036854775808'), "more than 64 bits"),
        (TOPICS.replace(b'["t"]', b"[7]"), "added is no list of names"),
        (None, "has no field `c`"),
    ],
)
def test_what_is_no_change_is_a_row_with_its_problem_and_the_rest_is_read(
    record: bytes | None, problem: str
) -> None:
    first, bad, last = rows(UP, record, KV)
    assert (first["problem"], last["problem"]) == (None, None)
    assert (first["kind"], last["kind"]) == ("up", "kv")
    assert problem in bad["problem"]
    assert bad["record"] == (None if record is None else record.decode())
    assert (bad["kind"], bad["broker"], bad["added"]) == (None, None, None)
    assert bad["ms"] == 1_790_000_000_001


def test_a_record_that_is_no_utf_8_is_shown_as_far_as_it_can_be() -> None:
    (row,) = rows(b'{"kind":"up\xff')
    assert row["record"] == '{"kind":"up�'


def test_a_field_of_a_newer_release_is_passed_over() -> None:
    (row,) = rows(UP.replace(b'"ttl"', b'"v":2,"zone":{"name":["z"]},"ttl"'))
    assert (row["problem"], row["lease_ttl_ms"]) == (None, 15_000)


def test_what_is_no_change_is_an_error_for_who_wants_one() -> None:
    with pytest.raises(CorruptData, match="entry 1-0 is no change") as corrupt:
        RecordReader("north", KEY, refuse_corrupt=True).batch([b"1-0"], [b"{}"])
    assert corrupt.value.key == KEY


def test_a_gap_is_a_row_between_two_ids() -> None:
    (row,) = gap("north", "1790000000000-3", "1790000009000-0", "trimmed").to_pylist()
    assert (row["kind"], row["change_id"], row["key"]) == (GAP, "1790000000000-3", "1790000009000-0")
    assert (row["reason"], row["ms"], row["seq"]) == ("trimmed", 1_790_000_000_000, 3)
    assert (row["broker"], row["added"], row["problem"]) == ("", [], None)
