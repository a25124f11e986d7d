"""Pulses prove that the doorbell works: fewer reads of the stream, and lost doorbells noticed as soon."""

from __future__ import annotations

import logging
import random

import pytest
import redis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sharedroutes.registry import Change, ChangeKind, ChangePage, codec
from sharedroutes.registry.change_stream.stream import StreamPosition, pulse_ms
from tests.fix_redis import Store
from tests.registry.builders import broker, topics
from tests.support import await_until, examples

TAIL_S = 1.0
PROVEN_TAIL_S = 10.0
PULSE_S = 0.6
_RECORD = codec.encode_change(
    Change(kind=ChangeKind.UP, broker_name="broker-a", broker_id=0, epoch=7, address="10.0.0.1:10911")
)


def new_position(seed: int = 0) -> StreamPosition:
    say = logging.getLogger(__name__).info
    return StreamPosition("changes", TAIL_S, say, random.Random(seed), proven_tail_s=PROVEN_TAIL_S)


def pulse(last: str) -> bytes:
    return f"{last} {last} pulse 1700000000000".encode()


def page_at(position: str) -> ChangePage:
    return ChangePage((), position, lost=False, complete=True)


# --- the promise --------------------------------------------------------------------------------------------


class Listening(RuleBasedStateMachine):
    """A registry that changes and pulses, doorbells that may be lost, and a reader that reads when due."""

    @initialize(seed=st.integers(0, 1_000))
    def begin_at_the_end_of_the_stream(self, seed: int) -> None:
        self.now = 0.0
        self.last = 1
        self.missed_at: float | None = None
        """When the first change was written of which the reader knows nothing."""

        self.position = new_position(seed)
        self.position.begin("1-0", self.now)

    @rule(is_heard=st.booleans(), is_short=st.booleans())
    def something_changes(self, is_heard: bool, is_short: bool) -> None:  # noqa: FBT001 - hypothesis calls it
        previous, self.last = self.last, self.last + 1
        bell = f"{previous}-0 {self.last}-0 ".encode() + (_RECORD if is_short else b"")
        if not is_heard:
            self.missed_at = self.now if self.missed_at is None else self.missed_at
        elif self.position.heard(bell, self.now) == ():
            raise AssertionError("a change was taken for one that is known")

    @rule(is_heard=st.booleans())
    def the_sweep_pulses(self, is_heard: bool) -> None:  # noqa: FBT001 - hypothesis calls it
        if is_heard:
            self.position.heard(pulse(f"{self.last}-0"), self.now)

    @rule(late=st.integers(0, 3))
    def an_older_pulse_arrives(self, late: int) -> None:
        self.position.heard(pulse(f"{max(0, self.last - late - 1)}-0"), self.now)

    @rule(passed_s=st.floats(0.01, 3.0))
    def time_passes(self, passed_s: float) -> None:
        end = self.now + passed_s
        while self.position.tail_at <= end:
            self.now = max(self.now, self.position.tail_at)
            self.position.read(page_at(f"{self.last}-0"), self.now)
            self.missed_at = None
        self.now = end

    @invariant()
    def a_lost_doorbell_is_noticed_in_time(self) -> None:
        if hasattr(self, "position") and self.missed_at is not None:
            assert self.position.tail_at <= self.missed_at + TAIL_S

    @invariant()
    def the_stream_is_read_now_and_then_in_any_case(self) -> None:
        if hasattr(self, "position"):
            assert self.position.tail_at <= self.now + PROVEN_TAIL_S


TestListening = Listening.TestCase
TestListening.settings = settings(max_examples=examples(300), stateful_step_count=40)


def reads_in(seconds: float, *, pulses: bool) -> int:
    """Return how often a reader reads in a time in which nothing changes."""
    position, now, reads = new_position(), 0.0, 0
    position.begin("1-0", now)
    while now < seconds:
        now += PULSE_S
        if pulses:
            position.heard(pulse("1-0"), now)
        if position.tail_at <= now:
            position.read(page_at("1-0"), now)
            reads += 1
    return reads


def test_a_reader_that_hears_pulses_reads_a_tenth_as_often() -> None:
    assert reads_in(120.0, pulses=False) >= 90
    assert 12 <= reads_in(120.0, pulses=True) <= 15


def test_readers_whose_pulses_end_together_do_not_read_together() -> None:
    due = set()
    for seed in range(100):
        position = new_position(seed)
        position.begin("1-0", 0.0)
        position.heard(pulse("1-0"), 0.9)
        due.add(round(position.tail_at, 3))
    assert len(due) > 50
    assert max(due) - min(due) > 0.15


# --- pulses that prove nothing ------------------------------------------------------------------------------


@pytest.mark.parametrize("last", ["1700000000000-0", "1699999999999-5", "0-0", "nonsense"])
def test_a_pulse_that_does_not_name_our_place_puts_nothing_off(last: str) -> None:
    position = new_position()
    position.begin("1700000000000-1", 0.0)
    position.heard(pulse(last), 0.5)
    assert position.tail_at <= TAIL_S
    assert position.pulse_at is None


def test_a_pulse_after_a_change_that_was_not_heard_asks_for_a_read() -> None:
    position = new_position()
    position.begin("1-0", 0.0)
    assert position.heard(pulse("2-0"), 0.5) is None
    assert position.tail_at == 0.0


def test_a_pulse_proves_nothing_to_a_reader_that_has_to_read_anyway() -> None:
    position = new_position()
    position.begin("1-0", 0.0)
    position.heard(b"", 0.1)  # subscribed anew: what rang before was not heard
    position.heard(pulse("1-0"), 0.2)
    assert position.tail_at == 0.0


@pytest.mark.parametrize(
    ("message", "time_ms"),
    [(pulse("1-0"), 1_700_000_000_000), (b"", None), (b"1-0 1-0 pulse ", None), (b"1-0 1-0 pulse x", None)],
)
def test_a_pulse_tells_the_time_of_the_store(message: bytes, time_ms: int | None) -> None:
    assert pulse_ms(message) == time_ms
    assert pulse_ms(b"1-0 1-0 pulse " + b"9" * 5_000) is None
    assert pulse_ms(b"1-0 2-0 " + _RECORD) is None


# --- of a real server ---------------------------------------------------------------------------------------


async def heard_pulse(store: Store) -> bytes:
    """Sweep until the sweep pulses; return the message."""
    bell = store.doorbell()
    try:
        await await_until(lambda: begun(bell), description="the subscription has begun")
        await store.sweep("me")

        async def next_pulse() -> bytes | None:
            message: bytes | None = await bell.wait(0.05)
            return message if message and pulse_ms(message) is not None else None

        found: bytes = await await_until(next_pulse, description="a pulse was heard")
        return found
    finally:
        await bell.aclose()


async def begun(bell: object) -> bool:
    return await bell.wait(0.05) == b""  # type: ignore[attr-defined, no-any-return]


async def test_the_sweep_says_the_last_id_and_its_time(store: Store, admin: redis.Redis) -> None:
    await store.register(broker(), topics(1))
    message = await heard_pulse(store)
    last = (await store.changes_since(limit=1_000)).position
    first, second, mark, time_ms = message.decode().split()
    assert (first, second, mark) == (last, last, "pulse")
    assert abs(int(time_ms) - 1_000 * admin.time()[0]) < 60_000
    position = new_position()
    position.begin(last, 0.0)
    assert position.heard(message, 0.5) == ()
    assert position.pulse_at == 0.5


async def test_an_empty_stream_has_a_pulse_too(store: Store) -> None:
    assert (await heard_pulse(store)).startswith(b"0-0 0-0 pulse ")


async def pulses_of(store: Store, admin: redis.Redis, *holders: str) -> int:
    """Return how many pulses are rung while these sweep, one after the other."""
    with admin.pubsub(ignore_subscribe_messages=False) as bell:
        bell.subscribe(store.keys.changes)
        assert bell.get_message(timeout=5)["type"] == "subscribe"
        for holder in holders:
            await store.sweep(holder)
        admin.publish(store.keys.changes, "end")
        heard = [*iter(lambda: bell.get_message(timeout=5)["data"], b"end")]
    return sum(pulse_ms(message) is not None for message in heard)


async def test_a_sweep_that_renews_nothing_rings_no_pulse(store: Store, admin: redis.Redis) -> None:
    assert await pulses_of(store, admin, "me") == 1
    assert await pulses_of(store, admin, "me", "other") == 0


@pytest.mark.parametrize("what", ["changes", "deadlines"])
async def test_without_a_stream_or_deadlines_there_is_no_pulse(
    store: Store, admin: redis.Redis, what: str
) -> None:
    admin.set(getattr(store.keys, what), "foreign")
    assert await pulses_of(store, admin, "me") == 0
    admin.delete(getattr(store.keys, what))
