"""Compressed bodies are understood, and refused where they make no sense or would take much memory."""

from __future__ import annotations

import re
import tracemalloc
import zlib
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.nameserver import compressed
from sharedroutes.nameserver.bodies import RegisterBody, registration
from sharedroutes.nameserver.compressed import BodyError
from sharedroutes.registry.codec import decode_config
from tests.nameserver import written
from tests.nameserver.written import T1, T2, V, encoded


def deflated(content: bytes, version: int = 479) -> RegisterBody:
    return registration(zlib.compress(content), version=version, compressed=True)


def test_a_body_of_4_9_ends_without_mappings() -> None:
    content = written.inflated([b"T1 4 4 6 SINGLE_TAG"], mappings=None)
    assert deflated(content, 407) == RegisterBody(encoded([T1]))
    with pytest.raises(BodyError, match="number of queue mappings: the body ends before it does"):
        deflated(content, 413)


def test_a_topic_without_attributes_or_with_unreadable_ones_has_none() -> None:
    lines = [b"T1 4 4 6 SINGLE_TAG", b"T2 4 4 6 SINGLE_TAG {x", b"T3 4 4 6 SINGLE_TAG null"]
    found = deflated(written.inflated(lines))
    assert found.topics == encoded(replace(T1, topic_name=name) for name in ("T1", "T2", "T3"))
    assert found.refused == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"x", "topic 'x': '' is no TopicConfig"),
        (b"", "topic '': '' is no TopicConfig"),
        (b"x 4 4 6", "topic 'x': '4 4 6' is no TopicConfig"),
        (b"x 4 4_0 6 SINGLE_TAG", "topic 'x': writeQueueNums: '4_0' is no whole number"),
        (b"x 4 4 8 SINGLE_TAG", r"topic 'x': perm: 8 is not within 0\.\.7"),
        (b"x -4 4 6 SINGLE_TAG", "topic 'x': readQueueNums: -4 is not within"),
        (b"x " + b"9" * 30 + b" 4 6 SINGLE_TAG", r"topic 'x': readQueueNums: '9+' is no whole number"),
        (b"T1 8 8 6 SINGLE_TAG", "topic 'T1': stands twice"),
    ],
)
def test_an_odd_topic_of_a_compressed_body_takes_no_other_one_away(line: bytes, said: str) -> None:
    found = deflated(written.inflated([written.line(T1), line, written.line(T2)], written.version(V)))
    assert (found.topics, found.version) == (encoded([T1, T2]), V)
    (refused,) = found.refused
    assert re.search(said, refused)


def test_attributes_of_a_compressed_body_may_hold_blanks() -> None:
    found = deflated(written.inflated([b'T 4 4 6 SINGLE_TAG {"a": "b c"}']))
    assert decode_config("", "T", found.topics["T"]).attributes == {"a": "b c"}


def test_a_hundred_odd_topics_are_named_and_the_others_counted() -> None:
    lines = [f"{'n' * 500}{number} 1 1 8 SINGLE_TAG".encode() for number in range(1_000)]
    found = deflated(written.inflated(lines))
    assert found.topics == {}
    assert (len(found.refused), found.refused[-1]) == (101, "and 900 more")
    assert max(map(len, found.refused)) < 700


def test_a_plain_body_labelled_compressed_is_refused() -> None:
    with pytest.raises(BodyError, match="body: cannot be decompressed"):
        registration(written.as_json(written.body([T1], V)), version=479, compressed=True)


INFLATED: Final[dict[str, tuple[bytes, str]]] = {
    "nothing": (b"", "length of dataVersion: the body ends before it does"),
    "half a length": (b"\0\0", "length of dataVersion: the body ends before it does"),
    "a negative length": (written.numbered(-1), "length of dataVersion: -1 is negative"),
    "a short text": (written.numbered(3) + b"{}", "dataVersion: the body ends before it does"),
    "a huge text": (written.numbered(2**31 - 1), "dataVersion: has 2147483647 bytes, the limit is 1048576"),
    "a version that is no JSON": (written.text(b"{"), "dataVersion: is no JSON"),
    "a negative version": (written.text(b'{"counter":-1}'), "dataVersion: counter: -1 is not within"),
    "a negative number": (written.text(b"{}") + written.numbered(-5), "number of topics: -5 is negative"),
    "too many topics": (
        written.text(b"{}") + written.numbered(200_001),
        "number of topics: 200001, the limit is 200000",
    ),
    "fewer topics than said": (written.text(b"{}") + written.numbered(1), "length of topics: the body ends"),
    "no filter servers": (
        written.text(b"{}") + written.numbered(0),
        "length of filterServerList: the body ends",
    ),
    "filter servers that are no JSON": (
        written.inflated([], filter_servers=b"x"),
        "filterServerList: is no JSON",
    ),
    "a mapping that is no JSON": (written.inflated([], mappings=[b"x"]), "TopicQueueMappingInfo: is no JSON"),
    "a mapping of nothing": (
        written.inflated([], mappings=[b"{}"]),
        "TopicQueueMappingInfo: topic: expected a",
    ),
    "a mapping that is a list": (
        written.inflated([], mappings=[b"[]"]),
        "TopicQueueMappingInfo: expected an ob",
    ),
}


@pytest.mark.parametrize("what", INFLATED)
def test_a_malformed_compressed_body_is_refused_with_its_reason(what: str) -> None:
    content, said = INFLATED[what]
    with pytest.raises(BodyError, match=said):
        deflated(content)


@given(st.data())
def test_a_compressed_body_that_is_cut_off_is_refused(data: st.DataObject) -> None:
    content = written.inflated([written.line(T1), written.line(T2)], written.version(V))
    end = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(BodyError, match="the body ends before it does"):
        deflated(content[:end])
    whole = zlib.compress(content)
    with pytest.raises(BodyError, match="the body ends before it does"):
        registration(whole[: data.draw(st.integers(1, len(whole) - 10))], version=479)


@pytest.mark.parametrize("kind", ["one long text", "many topics"])
def test_a_small_body_takes_neither_much_memory_nor_time(kind: str) -> None:
    if kind == "one long text":
        content = written.numbered(2**30) + bytes(2**26)
    else:
        content = (
            written.text(b"{}") + written.numbered(150_000) + written.text(b"a 1 1 6 SINGLE_TAG") * 160_000
        )
    body = zlib.compress(content)
    del content
    tracemalloc.start()
    try:
        with pytest.raises(BodyError):
            registration(body, version=479)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_body_is_refused_at_its_64_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "MAX_INFLATED_BYTES", 100_000)
    topic = written.line(replace(T1, attributes={"a": "b" * 60_000}))
    assert len(deflated(written.inflated([topic])).topics) == 1
    with pytest.raises(BodyError, match="body: has more than 100000 bytes when it is decompressed"):
        deflated(written.inflated([topic, topic]))
