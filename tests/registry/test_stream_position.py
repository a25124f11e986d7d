"""What a reader of the change stream makes of doorbells and reads: place, reads, silence."""

from __future__ import annotations

import logging

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sharedroutes.registry import Change, ChangeKind, ChangePage, StoreRefused, codec
from sharedroutes.registry.change_stream.stream import DEAF_AFTER, REFUSED_PAUSE_S, StreamPosition

_log = logging.getLogger(__name__)

HERE, NEXT, LATER = "1700000000000-1", "1700000000000-2", "1700000000001-0"
UP = Change(kind=ChangeKind.UP, broker_name="broker-a", broker_id=0, epoch=7, address="10.0.0.1:10911")


TAIL_S = 1.0
UNRECORDED = b'- - {"kind":"up","broker":"a","epoch":1}'


def new_stream() -> StreamPosition:
    return StreamPosition("changes", TAIL_S, _log.info)


def feed_at(position: str | None = HERE) -> StreamPosition:
    feed = new_stream()
    if position is not None:
        feed.begin(position, 0.0)
    return feed


@pytest.fixture
def stream() -> StreamPosition:
    """Return the place of a reader that has found it."""
    return feed_at()


def bell(previous: str, change_id: str, record: bytes | None = None) -> bytes:
    text = codec.encode_change(UP) if record is None else record
    return f"{previous} {change_id} ".encode() + text


def told(change_id: str) -> Change:
    return codec.decode_change("changes", change_id, codec.encode_change(UP))


def test_a_doorbell_in_sequence_brings_its_change() -> None:
    feed = feed_at()
    assert feed.heard(bell(HERE, NEXT), 0.0) == (told(NEXT),)
    assert feed.id == NEXT
    assert feed.heard(bell(NEXT, LATER), 0.0) == (told(LATER),)
    assert feed.id == LATER


def test_the_first_change_of_a_stream_is_in_sequence() -> None:
    assert feed_at("0-0").heard(bell("0-0", HERE), 0.0) == (told(HERE),)


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
    assert feed.heard(message, 0.0) is None
    assert feed.id == HERE


@pytest.mark.parametrize("change_id", [HERE, "1700000000000-0", "1699999999999-9"])
def test_a_doorbell_that_a_read_overtook_brings_nothing(change_id: str) -> None:
    feed = feed_at()
    assert feed.heard(bell("0-0", change_id), 0.0) == ()
    assert feed.id == HERE


def test_ids_are_compared_as_numbers() -> None:
    feed = feed_at("999-10")
    assert feed.heard(bell("x", "999-9"), 0.0) == ()
    assert feed.heard(bell("999-10", "1000-0"), 0.0) == (told("1000-0"),)


def test_before_the_first_contact_every_doorbell_asks_for_a_read() -> None:
    assert feed_at(None).heard(bell("0-0", HERE), 0.0) is None


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
    changes = feed.heard(message, 0.0)
    assert changes is None or len(changes) <= 1
    assert (feed.id == HERE) == (not changes)


# --- when it is read ----------------------------------------------------------------------------------------


def page(*changes: Change, lost: bool = False, complete: bool = True) -> ChangePage:
    return ChangePage(changes, HERE, lost, complete)


def test_the_tail_is_read_at_once_at_first_and_then_after_a_while(stream: StreamPosition) -> None:
    assert new_stream().tail_at == 0.0
    assert stream.tail_at == TAIL_S
    stream.read(page(), 5.0)
    assert stream.tail_at == 5.0 + TAIL_S


@pytest.mark.parametrize("what", ["a part", "lost", "missed", "no answer"])
def test_the_tail_is_read_at_once_when_something_is_left_or_may_have_been_missed(
    stream: StreamPosition, what: str
) -> None:
    before = stream.misses_nothing
    if what == "missed":
        assert stream.heard(b"", 0.0) is None
    elif what == "no answer":
        stream.must_read = True
    else:
        stream.read(page(lost=what == "lost", complete=what == "lost"), 0.0)
    assert stream.tail_at == 0.0
    assert (before, stream.misses_nothing) == (True, False)
    assert stream.id == (None if what == "lost" else HERE)


def test_while_the_streams_key_is_foreign_changes_may_be_missed_and_it_is_looked_at_as_ever(
    stream: StreamPosition,
) -> None:
    stream.found_foreign(0.0)
    assert not stream.misses_nothing
    assert stream.tail_at == TAIL_S
    stream.read(page(), 1.0)
    assert stream.misses_nothing


def test_a_doorbell_without_a_stream_tells_of_its_change_and_has_the_key_looked_at(
    stream: StreamPosition,
) -> None:
    assert stream.heard(UNRECORDED, 0.0) is None
    (change,) = stream.unrecorded(UNRECORDED)
    assert (change.kind, change.broker_name) == (ChangeKind.UP, "a")
    assert stream.tail_at == 0.0
    assert stream.id == HERE


def test_what_a_foreign_stream_and_its_doorbell_do_not_tell_of_is_missed_once(stream: StreamPosition) -> None:
    assert [stream.found_foreign(float(now)) for now in range(3)] == [True, False, False]
    stream.unrecorded(UNRECORDED)
    assert not stream.found_foreign(3.0)
    assert stream.unrecorded(b"- - ") == ()
    assert [stream.found_foreign(float(now)) for now in (4, 5)] == [True, False]


# --- its doorbell -------------------------------------------------------------------------------------------


def test_a_doorbell_that_did_not_ring_for_some_changes_in_a_row_is_deaf_until_it_is_renewed(
    stream: StreamPosition,
) -> None:
    for _ in range(DEAF_AFTER):
        assert not stream.bell.is_deaf
        stream.read(page(UP), 0.0)
        stream.read(page(), 0.0)
    assert stream.bell.is_deaf
    stream.bell.renew()
    assert not stream.bell.is_deaf


def test_a_doorbell_that_rings_now_and_then_is_not_deaf(stream: StreamPosition) -> None:
    for _ in range(2 * DEAF_AFTER):
        stream.read(page(UP), 0.0)
        assert not stream.bell.is_deaf
        stream.bell.rang()


def test_changes_that_the_doorbell_had_no_chance_to_tell_do_not_count(stream: StreamPosition) -> None:
    for _ in range(2 * DEAF_AFTER):
        stream.must_read = True
        stream.read(page(UP), 0.0)
    stream.bell_failed(StoreRefused("NOPERM"), 0.0)
    for _ in range(2 * DEAF_AFTER):
        stream.read(page(UP), 0.0)
    assert not stream.bell.is_deaf


def test_a_doorbell_that_is_refused_is_said_once_and_done_without_for_a_while(
    stream: StreamPosition, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for now in (0.0, REFUSED_PAUSE_S):
        assert now >= stream.bell.due_at
        stream.bell_failed(StoreRefused("NOPERM"), now)
        assert stream.bell.due_at == now + REFUSED_PAUSE_S
    assert [record.levelno for record in caplog.records] == [logging.INFO]
    assert "every 1.0 s meanwhile: NOPERM" in caplog.text
