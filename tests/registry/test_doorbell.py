"""The doorbell: every change rings at once, and a ring that was missed is noticed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import redis

from sharedroutes.registry import EmbeddedServer, QueueMapping, StoreUnavailable, TopicConfig, codec
from sharedroutes.registry.plans import ORIGIN
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import broker, row, topics
from tests.support import await_until

SUBSCRIBED = b""


@contextlib.asynccontextmanager
async def listening(store: Store) -> AsyncIterator[Any]:
    """Return a doorbell of the store that is subscribed."""
    bell = store.doorbell()
    try:
        assert await heard(bell) == SUBSCRIBED
        yield bell
    finally:
        await bell.aclose()


async def heard(bell: Any) -> bytes:
    """Return the next thing that the doorbell says."""
    said: list[bytes] = []

    async def says() -> bool:
        message = await bell.wait(0.2)
        said.extend([] if message is None else [message])
        return bool(said)

    await await_until(says, description="the doorbell says something")
    return said[0]


def record_in(message: bytes) -> bytes:
    """Return the record of a doorbell, "previous-id id record"."""
    return message.split(b" ", 2)[2]


def rows_of(record: bytes) -> dict[str, codec.RowChange]:
    """Return the rows that a record has."""
    return codec.decode_rows(orjson.loads(record).get("rows"))


async def test_every_change_rings_with_the_id_before_it_its_own_id_and_the_record(store: Store) -> None:
    async with listening(store) as bell:
        held = await store.register(broker(), topics(1))
        await store.unregister(held)
        rung = [(await heard(bell)).decode().split(" ", 2) for _ in range(3)]
    changes = (await store.changes_since()).changes
    assert [change_id for _, change_id, _ in rung] == [change.change_id for change in changes]
    assert [previous for previous, _, _ in rung] == [ORIGIN, *(change.change_id for change in changes[:2])]
    decoded = [codec.decode_change("", change_id, record.encode()) for _, change_id, record in rung]
    assert tuple(decoded) == changes


async def test_a_change_of_few_topics_brings_their_rows_as_they_were_and_are(store: Store) -> None:
    held = await store.register(broker(), topics(2))
    async with listening(store) as bell:
        changed = TopicConfig("t1", 8, 4, queue_mapping=QueueMapping(2, 1, {0: 1}))
        added = TopicConfig("new", 1, 1)
        await store.register(broker(), [*topics(1), changed, added], held=held)
        message = await heard(bell)
    rows = rows_of(record_in(message))
    before = row("broker-a", topics(1, first=1)[0])
    assert rows == {
        "t1": codec.RowChange(before, row("broker-a", changed)),
        "new": codec.RowChange(None, row("broker-a", added)),
    }
    (change,) = (await store.changes_since()).changes[-1:]
    assert (change.added, change.changed) == (("new",), ("t1",))


@pytest.mark.parametrize("count", [4, 5])
async def test_only_a_short_change_brings_rows(store: Store, count: int) -> None:
    async with listening(store) as bell:
        await store.register(broker(), topics(count))
        record = record_in(await heard(bell))
    assert len(rows_of(record)) == (count if count == 4 else 0)
    assert codec.decode_change("", ORIGIN, record).added == tuple(f"t{number}" for number in range(count))


async def test_of_several_topics_those_with_a_long_row_are_left_out(store: Store) -> None:
    long = TopicConfig("long", 8, 8, queue_mapping=QueueMapping(100, 1, dict.fromkeys(range(100), 0)))
    async with listening(store) as bell:
        await store.register(broker(), [*topics(1), long])
        record = record_in(await heard(bell))
    assert rows_of(record) == {"t0": codec.RowChange(None, row("broker-a", topics(1)[0]))}
    assert codec.decode_change("", ORIGIN, record).added == ("t0", "long")


async def test_rows_for_which_there_is_no_room_are_left_out_of_the_record(store: Store) -> None:
    async with listening(store) as bell:
        await store.register(broker(), [TopicConfig("x" * 200)])
        record = record_in(await heard(bell))
    assert rows_of(record) == {}
    assert codec.decode_change("", ORIGIN, record).added == ("x" * 200,)


async def test_a_long_record_is_left_to_the_stream(store: Store) -> None:
    async with listening(store) as bell:
        await store.register(broker(), [TopicConfig("x" * 200 + str(number)) for number in range(3)])
        previous, change_id, record = (await heard(bell)).decode().split(" ", 2)
    first = (await store.changes_since()).changes[0]
    assert (previous, change_id, record) == (ORIGIN, first.change_id, "")
    assert len(first.added) == 3


async def test_the_first_change_after_the_stream_was_lost_says_that_there_was_none_before(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(broker(), topics(1))
    admin.delete(store.keys.changes)
    async with listening(store) as bell:
        await store.unregister(held)
        assert (await heard(bell)).startswith(ORIGIN.encode() + b" ")


async def test_without_a_change_the_wait_ends_with_nothing(store: Store) -> None:
    async with listening(store) as bell:
        assert await bell.wait(0.01) is None


async def heard_despite_faults(bell: Any) -> bytes:
    """Return the next thing that the doorbell says; it may fail before."""
    said: list[bytes] = []

    async def says() -> bool:
        with contextlib.suppress(StoreUnavailable):
            said.append(await heard(bell))
        return bool(said)

    await await_until(says, description="the doorbell speaks again")
    return said[0]


async def test_a_cut_connection_never_loses_a_ring_unnoticed(store: Store, admin: redis.Redis) -> None:
    async with listening(store) as bell:
        admin.client_kill_filter(_type="pubsub")
        held = await store.register(broker(), topics(1))
        assert await heard_despite_faults(bell) == SUBSCRIBED
        await store.unregister(held)
        assert b'"kind":"down"' in await heard(bell)


@pytest.mark.parametrize("has_begun", [False, True], ids=["comes up late", "is started anew"])
async def test_a_doorbell_begins_whenever_the_store_comes_up(
    make_store: StoreMaker, own_server: EmbeddedServer, *, has_begun: bool
) -> None:
    store = make_store(own_server.url)
    async with contextlib.aclosing(store.doorbell()) as bell:
        if has_begun:
            assert await heard(bell) == SUBSCRIBED
        own_server.kill()
        with pytest.raises(StoreUnavailable):
            await heard(bell)
        own_server.start()
        assert await heard_despite_faults(bell) == SUBSCRIBED
        await store.register(broker(), [])
        assert b'"kind":"up"' in await heard(bell)
