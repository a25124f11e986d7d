"""What a follower makes of a doorbell."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sharedroutes.registry import Change, ChangeKind, codec
from sharedroutes.registry.change_stream.position import Feed

HERE, NEXT, LATER = "1700000000000-1", "1700000000000-2", "1700000000001-0"
UP = Change(kind=ChangeKind.UP, broker_name="broker-a", broker_id=0, epoch=7, address="10.0.0.1:10911")


def feed_at(position: str | None = HERE) -> Feed:
    feed = Feed("changes")
    feed.position = position
    return feed


def bell(previous: str, change_id: str, record: bytes | None = None) -> bytes:
    text = codec.encode_change(UP) if record is None else record
    return f"{previous} {change_id} ".encode() + text


def told(change_id: str) -> Change:
    return codec.decode_change("changes", change_id, codec.encode_change(UP))


def test_a_doorbell_in_sequence_brings_its_change() -> None:
    feed = feed_at()
    assert feed.doorbell(bell(HERE, NEXT)) == (told(NEXT),)
    assert feed.position == NEXT
    assert feed.doorbell(bell(NEXT, LATER)) == (told(LATER),)
    assert feed.position == LATER


def test_the_first_change_of_a_stream_is_in_sequence() -> None:
    assert feed_at("0-0").doorbell(bell("0-0", HERE)) == (told(HERE),)


@pytest.mark.parametrize(
    "message",
    [
        bell(NEXT, LATER),
        bell("0-0", LATER),
        bell(HERE, NEXT, b""),
        bell(HERE, NEXT, b'{"kind":"nonsense"}'),
        bell(HERE, NEXT, b"\xff"),
        b"",
        b"hello",
        b"a b c",
        bell(HERE, "x-y"),
    ],
    ids=["gap", "new stream", "long", "no change", "no text", "subscribed", "word", "words", "no id"],
)
def test_what_is_not_the_next_change_asks_for_a_read(message: bytes) -> None:
    feed = feed_at()
    assert feed.doorbell(message) is None
    assert feed.position == HERE


@pytest.mark.parametrize("change_id", [HERE, "1700000000000-0", "1699999999999-9"])
def test_a_doorbell_that_a_read_overtook_brings_nothing(change_id: str) -> None:
    feed = feed_at()
    assert feed.doorbell(bell("0-0", change_id)) == ()
    assert feed.position == HERE


def test_ids_are_compared_as_numbers() -> None:
    feed = feed_at("999-10")
    assert feed.doorbell(bell("x", "999-9")) == ()
    assert feed.doorbell(bell("999-10", "1000-0")) == (told("1000-0"),)


def test_before_the_first_contact_every_doorbell_asks_for_a_read() -> None:
    assert feed_at(None).doorbell(bell("0-0", HERE)) is None


WORDS = st.sampled_from([HERE, NEXT, LATER, "0-0", "-", "1-", "-1", "{}", "[]", "null", '{"kind":"up"}'])


@given(
    st.binary(max_size=200)
    | st.lists(WORDS | st.text(max_size=5), max_size=5).map(lambda words: " ".join(words).encode())
)
@example(b"1 " + b"9" * 5_000 + b"-0 {}")
@example(bell(HERE, NEXT, b'{"kind":"up","broker":"b","epoch":1e308}'))
@example(bell(HERE, NEXT, b'{"kind":{},"broker":"b","epoch":1}'))
@example(bell(HERE, NEXT, b"[" * 2_000))
def test_no_message_breaks_the_feed(message: bytes) -> None:
    feed = feed_at()
    changes = feed.doorbell(message)
    assert changes is None or len(changes) <= 1
    assert (feed.position == HERE) == (not changes)
