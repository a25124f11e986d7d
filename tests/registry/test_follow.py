"""Following a registry: first what stands there, then every change, in order."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
import redis

from sharedroutes.registry import (
    AsyncRouteStore,
    BrokerData,
    Change,
    ChangeKind,
    EmbeddedServer,
    Idle,
    InvalidInput,
    Lookup,
    QueueData,
    Reset,
    RouteStore,
)
from sharedroutes.registry.change_stream.core import ResetReason
from sharedroutes.registry.change_stream.follower import Follower
from sharedroutes.registry.plans import ORIGIN
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import ADDRESS, broker, row, topics
from tests.registry.followers import follow, listening, tell, tell_silently
from tests.support import Stopwatch, await_until, wait_until

QUICK: dict[str, Any] = {"tail_s": 0.05}
BELL_ONLY: dict[str, Any] = {"tail_s": 3_600.0}
SOON_S = 0.3
"""The promise is 0.2 s; this machine may be busy, and where it stands still, that is not counted."""

PATIENT: dict[str, Any] = {"call_deadline_s": 30.0, "connect_deadline_s": 30.0}
"""A store that hangs does so for longer than any test waits for something else."""


async def test_first_comes_the_table_and_then_every_change(store: Store) -> None:
    await store.register(broker(), topics(2))
    before = (await store.changes_since()).changes[-1].change_id
    async with follow(store, **BELL_ONLY) as follower:
        first = await anext(follower)
        assert isinstance(first, Reset)
        assert (first.position, first.reason) == (before, ResetReason.START)
        assert first.table is not None
        assert first.table.routes() == await store.routes(["t0", "t1"])
        await store.register(broker("broker-b"), topics(1))
        told = [await anext(follower), await anext(follower)]
    assert told == [*(await store.changes_since(before)).changes]
    assert [change.kind for change in told if isinstance(change, Change)] == [
        ChangeKind.TOPICS,
        ChangeKind.UP,
    ]


async def test_an_empty_registry_is_followed_from_its_first_change_on(store: Store) -> None:
    async with follow(store, **BELL_ONLY) as follower:
        assert await anext(follower) == Reset(ORIGIN, Lookup(), ResetReason.START)
        await await_until(lambda: follower.health().age_s, description="the tail was read")
        await store.register(broker(), topics(1))
        first = await anext(follower)
    assert isinstance(first, Change | Reset)
    assert first != Reset(ORIGIN, Lookup(), ResetReason.START)


async def test_without_the_table_a_reset_is_but_a_position(store: Store) -> None:
    await store.register(broker(), topics(1))
    last = (await store.changes_since()).changes[-1].change_id
    async with follow(store, table=False) as follower:
        assert await anext(follower) == Reset(last, None, ResetReason.START)


async def test_following_goes_on_at_a_position_without_a_reset(store: Store) -> None:
    held = await store.register(broker(), topics(1))
    first, second = (await store.changes_since()).changes
    async with follow(store, first.change_id, **QUICK) as follower:
        assert await anext(follower) == second
        await store.unregister(held)
        down = await anext(follower)
        assert isinstance(down, Change)
        assert down.kind is ChangeKind.DOWN


async def test_at_a_position_that_is_gone_following_begins_with_a_reset(
    store: Store, admin: redis.Redis
) -> None:
    await store.register(broker(), topics(1))
    first, second = (await store.changes_since()).changes
    admin.xtrim(store.keys.changes, maxlen=1, approximate=False)
    async with follow(store, first.change_id) as follower:
        reset = await anext(follower)
        assert isinstance(reset, Reset)
        assert (reset.position, reset.reason) == (second.change_id, ResetReason.LOST)


@pytest.mark.parametrize("position", ["", "5", "-", "1-x", "$", "1-1-1", "9" * 30 + "-0"])
async def test_a_position_that_is_no_id_is_refused_at_once(store: Store, position: str) -> None:
    with pytest.raises(InvalidInput, match="position"):
        follow(store, position)


@pytest.mark.parametrize("options", [{"idle_s": -1}, {"tail_s": 0}, {"idle_s": "1"}], ids=str)
async def test_times_that_are_none_are_refused_at_once(store: Store, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        follow(store, **options)


async def test_when_nothing_happens_idle_tells_where_to_go_on(store: Store) -> None:
    await store.register(broker(), topics(1))
    last = (await store.changes_since()).changes[-1].change_id
    async with follow(store, idle_s=0.02) as follower:
        while isinstance(item := await anext(follower), Idle):
            pass
        assert isinstance(item, Reset)
        began = time.monotonic()
        assert await anext(follower) == Idle(last)
        assert time.monotonic() - began >= 0.02


async def test_idle_comes_in_time_although_the_store_hangs(
    make_store: StoreMaker, own_server: EmbeddedServer
) -> None:
    own_server.pause()
    async with follow(make_store(own_server.url, **PATIENT), idle_s=0.02) as follower:
        assert await asyncio.wait_for(anext(follower), 10.0) == Idle(None)
        own_server.resume()


async def test_a_change_without_a_doorbell_is_told_at_the_next_look(store: Store, admin: redis.Redis) -> None:
    tell(admin, store.keys.changes)
    async with listening(store, **QUICK) as told:
        await told.until(tell_silently(admin, store.keys.changes))
        assert len(told.changes) == 1


async def test_nonsense_on_the_channel_changes_nothing(store: Store, admin: redis.Redis) -> None:
    tell(admin, store.keys.changes)
    async with listening(store, **BELL_ONLY) as told:
        for message in (b"", b"\xff\xff", b"1 2 3", b"0-0 99999999999999-0 {}"):
            admin.publish(store.keys.changes, message)
        await told.until(tell(admin, store.keys.changes))
        assert (len(told.resets), len(told.changes)) == (1, 1)


async def test_20000_changes_as_fast_as_they_can_be_written_are_told_once_and_in_order(
    store: Store, admin: redis.Redis
) -> None:
    first = tell(admin, store.keys.changes)
    async with listening(store) as told:
        await asyncio.to_thread(lambda: [tell(admin, store.keys.changes, 50) for _ in range(400)])
        last = (await store.changes_since(first, 100_000)).position
        await told.until(last, timeout_s=30)
    assert told.ids == [change.change_id for change in (await store.changes_since(first, 100_000)).changes]
    assert (len(told.resets), len(told.ids)) == (1, 20_000)


async def test_who_takes_changes_slowly_gets_all_of_them_and_the_follower_keeps_few(
    store: Store, admin: redis.Redis
) -> None:
    first = tell(admin, store.keys.changes)
    async with follow(store, first, **QUICK) as follower:
        core = getattr(follower, "blocking", follower)._core
        most = 0
        tell(admin, store.keys.changes, 3_000)
        await await_until(lambda: len(core._items) >= 1_000, description="the follower is ahead")
        last = tell(admin, store.keys.changes, 3_000)
        ids: list[str] = []
        while ids[-1:] != [last]:
            item = await anext(follower)
            assert isinstance(item, Change)
            ids.append(item.change_id)
            most = max(most, len(core._items))
    assert ids == [change.change_id for change in (await store.changes_since(first, 100_000)).changes]
    assert most <= 2_000


async def test_a_follower_that_does_not_run_says_so(store: Store) -> None:
    follower = follow(store)
    with pytest.raises(RuntimeError, match="start"):
        await anext(follower)
    await follower.start()
    assert isinstance(await anext(follower), Reset)
    await follower.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(follower)
    with pytest.raises(RuntimeError, match="closed"):
        await follower.start()


@pytest.mark.parametrize("hangs", [False, True], ids=["store answers", "store hangs"])
async def test_closing_ends_the_iteration_at_once_wherever_it_waits(
    make_store: StoreMaker, own_server: EmbeddedServer, *, hangs: bool
) -> None:
    async with follow(make_store(own_server.url)) as follower:
        assert isinstance(await anext(follower), Reset)
        waiting = asyncio.create_task(anext(follower, None))
        await asyncio.sleep(0)
        if hangs:
            own_server.pause()
            await await_until(
                lambda: (follower.health().age_s or 0) > 1.1, description="a look at the stream hangs"
            )
        with Stopwatch() as watch:
            closing = asyncio.create_task(follower.aclose())
            assert await waiting is None
        assert watch.elapsed_s < SOON_S
        own_server.resume()
        await closing


async def test_a_wait_that_is_cancelled_loses_nothing(redis_url: str, admin: redis.Redis) -> None:
    async with AsyncRouteStore.from_url(redis_url) as store:
        last = tell(admin, store.keys.changes)
        async with store.follow(last) as follower:
            for _ in range(20):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(follower), 0.001)
            ids = [tell(admin, store.keys.changes) for _ in range(3)]
            told = [await anext(follower) for _ in ids]
    assert [change.change_id for change in told if isinstance(change, Change)] == ids


def test_the_thread_of_a_follower_ends_with_it(redis_url: str, admin: redis.Redis) -> None:
    with RouteStore.from_url(redis_url) as store, store.follow(idle_s=0) as follower:
        threads = {thread.name for thread in threading.enumerate()}
        assert "sharedroutes-follower" in threads
        follower.close()
        assert "sharedroutes-follower" not in {thread.name for thread in threading.enumerate()}


# --- an example of use -------------------------------------------------------------------------------------


class RouteTable:
    """A copy of the whole table that a program keeps up to date: every change says what to read again."""

    def __init__(self, store: RouteStore) -> None:
        self.store = store
        self.position: str | None = None
        self.rows: dict[str, tuple[QueueData, ...]] = {}
        self.alive: dict[str, BrokerData] = {}

    def follow(self, follower: Follower) -> None:
        for item in follower:
            if isinstance(item, Reset):
                assert item.table is not None
                self.rows, self.alive = dict(item.table.rows), dict(item.table.alive)
                self.position = item.position
            elif isinstance(item, Change):
                self.apply(item)
                self.position = item.change_id

    def apply(self, change: Change) -> None:
        """Read again what a change names: it may have changed once more, so the newest is what counts."""
        named = [*change.added, *change.changed, *change.removed]
        found = self.store.lookup(named, anew=[change.broker_name])
        self.rows = {topic: rows for topic, rows in self.rows.items() if topic not in named} | found.rows
        self.alive.pop(change.broker_name, None)
        self.alive |= {name: data for name, data in found.alive.items() if name == change.broker_name}


def test_a_copy_made_of_resets_and_changes_is_what_the_store_serves(
    redis_url: str, admin: redis.Redis
) -> None:
    with RouteStore.from_url(redis_url) as store, store.follow() as follower:
        store.register(broker(), topics(3))
        copy = RouteTable(store)
        thread = threading.Thread(target=copy.follow, args=(follower,))
        thread.start()
        wait_until(lambda: copy.position, description="the first reset")
        second = store.register(broker("broker-b"), topics(4, first=2))
        third = store.register(broker("broker-c"), topics(2))
        store.register(broker("broker-b"), topics(3, first=3, queues=8), held=second)
        store.unregister(third)
        admin.client_kill_filter(_type="pubsub")
        store.register(broker("broker-d"), topics(1, first=9))
        last = store.changes_since(limit=1_000).position
        wait_until(lambda: copy.position == last, description="the last change")
        follower.close()
        thread.join()
        served = store.routes(store.topics())
        copied = Lookup(rows=copy.rows, alive=copy.alive).routes()
    assert {topic: copied[topic] for topic in served} == served
    assert copied.keys() == served.keys() == {"t0", "t1", "t2", "t3", "t4", "t5", "t9"}
    assert row("broker-b", topics(1, first=3, queues=8)[0]) in copied["t3"].queue_datas
    assert copied["t9"].broker_datas[0].master_address == ADDRESS
