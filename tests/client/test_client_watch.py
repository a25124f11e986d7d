"""Waiting for routes to change: as an iterator, and as a call of a listener."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

from sharedroutes.client import AsyncRouteClient, RouteChange, RouteClient
from sharedroutes.registry import RouteStore, StoreUnavailable, TopicConfig
from tests.client.clients import (
    BELL_ONLY,
    IMPATIENT,
    AnyClient,
    InThreads,
    OwnStage,
    Stage,
    let_many_wait,
    running,
    until_held_by,
    until_in_place,
)
from tests.registry.builders import broker, topics
from tests.support import PATIENCE_S, await_until, wait_until

LISTENER = "sharedroutes-listener"
"""The name of a listener's thread or task."""


def seen_of(change: RouteChange) -> tuple[str, set[str]]:
    rows = change.route.queue_datas if change.route is not None else ()
    return change.topic, {row.broker_name for row in rows}


class Seen:
    """Keeps what somebody is told: topics with the brokers that hold them."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, set[str]]] = []

    def __call__(self, change: RouteChange) -> None:
        self.changes.append(seen_of(change))

    async def until(self, *last: tuple[str, set[str]]) -> None:
        """Wait until these are the last that came."""
        await await_until(
            lambda: self.changes[-len(last) :] == list(last),
            description=f"{last} came; so far {self.changes}",
        )

    async def until_told_anything(self) -> None:
        """Wait until something came."""
        await await_until(lambda: self.changes, description="something came")

    async def until_told(self, change: tuple[str, set[str]]) -> None:
        """Wait until this came, whatever else did."""
        await await_until(lambda: change in self.changes, description=f"{change} came; so far {self.changes}")


class Watcher(Seen):
    """Iterates over what a client's `watch` yields, in a task."""

    def __init__(self, client: AnyClient, names: Iterable[str] | None = None) -> None:
        super().__init__()
        self.task = asyncio.create_task(self._read(client, names))

    async def _read(self, client: AnyClient, names: Iterable[str] | None) -> None:
        async with client.watch(names) as changes:
            async for change in changes:
                self(change)


def watching(client: AnyClient) -> int:
    """Return how many wait for changes."""
    return len(client._core.known.watches._all)


async def until_watching(client: AnyClient, count: int) -> None:
    await await_until(lambda: watching(client) == count, description=f"{count} wait for changes")


async def begin(client: AnyClient, *names: str) -> None:
    """Let the client hear of every change, know these topics, and many wait for it."""
    let_many_wait()
    await until_in_place(client)
    await client.prefetch(names)


# --- as an iterator ----------------------------------------------------------------------------------------


async def test_a_watcher_is_told_what_is_then_what_changes_until_the_client_is_closed(stage: Stage) -> None:
    held = stage.agent.register(broker("broker-a"), topics(2))
    async with stage.client(BELL_ONLY) as client:
        await begin(client)
        watcher = Watcher(client, ["t0", "new"])
        await watcher.until(("t0", {"broker-a"}), ("new", set()))
        stage.agent.register(broker("broker-b"), topics(1))
        await watcher.until(("t0", {"broker-a", "broker-b"}))
        stage.agent.unregister(held)
        await watcher.until(("t0", {"broker-b"}))
        stage.agent.admin.delete_topic("t0")
        await watcher.until(("t0", set()))
        stage.agent.register(broker("broker-c"), [TopicConfig("new")])
        await watcher.until(("new", {"broker-c"}))
        assert not watcher.task.done()
    await watcher.task
    assert watching(client) == 0


async def test_a_watcher_of_everything_is_told_of_all_topics_in_use_and_of_no_other(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(3))
    async with stage.client(BELL_ONLY) as client:
        await begin(client, "t0")
        watcher = Watcher(client)
        await until_watching(client, 1)
        await client.prefetch(["t1"])
        await watcher.until(("t1", {"broker-a"}))
        stage.agent.register(broker("broker-b"), topics(3))
        await await_until(lambda: len(watcher.changes) >= 3, description="both topics changed")
        await until_held_by(client, "t0", "broker-a", "broker-b")
        await until_held_by(client, "t1", "broker-a", "broker-b")
        assert {topic for topic, _ in watcher.changes} == {"t0", "t1"}
    await watcher.task


async def test_changes_that_nobody_looked_at_are_told_as_one(stage: Stage) -> None:
    names = [f"broker-{number}" for number in range(6)]
    held = stage.agent.register(broker(names[0]), topics(1))
    async with stage.client(BELL_ONLY) as client:
        await begin(client)
        async with client.watch(["t0"]) as changes:
            assert (await anext(changes)).topic == "t0"
            for name in names[1:]:
                stage.agent.register(broker(name), topics(1))
                await until_held_by(client, "t0", *names[: names.index(name) + 1])
            assert seen_of(await anext(changes)) == ("t0", set(names))
            stage.agent.unregister(held)
            await until_held_by(client, "t0", *names[1:])
            assert seen_of(await anext(changes)) == ("t0", set(names[1:]))
        await until_watching(client, 0)


async def test_watchers_do_not_disturb_each_other(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(2))
    async with stage.client(BELL_ONLY) as client:
        await begin(client)
        watchers = [Watcher(client, names) for names in (["t0"], ["t1"], ["t0", "t1"])]
        async with client.watch(["t0"]) as one:
            assert (await anext(one)).topic == "t0"
        for watcher in watchers:
            await watcher.until_told_anything()
        await until_watching(client, 3)
        stage.agent.register(broker("broker-b"), topics(1))
        for watcher in (watchers[0], watchers[2]):
            await watcher.until(("t0", {"broker-a", "broker-b"}))
        stage.agent.register(broker("broker-c"), topics(1, first=1))
        for watcher in watchers[1:]:
            await watcher.until(("t1", {"broker-a", "broker-c"}))
        assert {topic for topic, _ in watchers[0].changes} == {"t0"}
        assert {topic for topic, _ in watchers[1].changes} == {"t1"}
    await asyncio.gather(*(watcher.task for watcher in watchers))


async def test_a_change_during_an_outage_is_told_after_it(own: OwnStage) -> None:
    own.agent.register(broker("broker-a"), topics(1))
    async with own.client() as client:
        await begin(client)
        watcher = Watcher(client, ["t0"])
        await watcher.until(("t0", {"broker-a"}))
        own.server.kill()
        await await_until(lambda: client.health().source == "memory", description="the outage is seen")
        assert len(watcher.changes) == 1
        own.server.start()
        own.register("broker-a", "broker-b")
        await watcher.until(("t0", {"broker-a", "broker-b"}))
    await watcher.task


async def test_a_watch_of_what_cannot_be_read_fails_as_a_lookup_does(own: OwnStage) -> None:
    async with own.in_place(IMPATIENT) as client:
        own.server.kill()
        with pytest.raises(StoreUnavailable):
            await anext(client.watch(["t0"]))
        with pytest.raises(StoreUnavailable):
            await client.on_change(Seen(), ["t0"])
        assert (watching(client), running(LISTENER)) == (0, 0)


async def test_a_client_that_does_not_run_cannot_be_watched(stage: Stage) -> None:
    async with stage.client(BELL_ONLY) as client:
        pass
    for names in (None, ["t0"]):
        with pytest.raises(RuntimeError, match="does not run"):
            await anext(client.watch(names))
        with pytest.raises(RuntimeError, match="does not run"):
            await client.on_change(Seen(), names)
    assert (watching(client), running(LISTENER)) == (0, 0)


def test_a_loop_in_a_thread_ends_when_the_client_is_closed(redis_url: str, agent: RouteStore) -> None:
    agent.register(broker("broker-a"), topics(1))
    seen = Seen()

    def read() -> None:
        for change in client.watch(["t0"]):
            seen(change)

    with RouteClient.from_url(redis_url, BELL_ONLY) as client:
        reader = threading.Thread(target=read)
        reader.start()
        wait_until(lambda: seen.changes, description="the reader knows what is")
    reader.join(timeout=PATIENCE_S)
    assert not reader.is_alive()
    assert seen.changes == [("t0", {"broker-a"})]


async def test_a_task_that_watches_may_be_cancelled(redis_url: str, agent: RouteStore) -> None:
    agent.register(broker("broker-a"), topics(1))
    async with AsyncRouteClient.from_url(redis_url, BELL_ONLY) as client:
        watcher = Watcher(client, ["t0"])
        await watcher.until(("t0", {"broker-a"}))
        watcher.task.cancel()
        await asyncio.wait([watcher.task])
        await until_watching(client, 0)


# --- as a call of a listener -------------------------------------------------------------------------------


async def test_a_listener_is_told_of_changes_until_it_is_removed(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(2))
    one, other, everything = Seen(), Seen(), Seen()
    async with stage.client(BELL_ONLY) as client:
        await begin(client, "t0", "t1")
        remove = await client.on_change(one, ["t0"])
        await client.on_change(other, ["t0"])
        await client.on_change(everything)
        stage.agent.register(broker("broker-b"), topics(1))
        for seen in (one, other, everything):
            await seen.until(("t0", {"broker-a", "broker-b"}))
        assert running(LISTENER) == 3
        remove()
        remove()
        await await_until(lambda: (running(LISTENER), watching(client)) == (2, 2), description="one is gone")
        told = len(one.changes)
        stage.agent.register(broker("broker-c"), topics(2))
        everyone = {"broker-a", "broker-b", "broker-c"}
        for seen, last in ((other, ("t0", everyone)), (everything, ("t1", {"broker-a", "broker-c"}))):
            await seen.until_told(last)
        await everything.until_told(("t0", everyone))
        assert len(one.changes) == told
        assert {topic for topic, _ in other.changes} == {"t0"}
    await await_until(lambda: (running(LISTENER), watching(client)) == (0, 0), description="all are gone")


async def test_a_listener_that_removes_itself_is_not_called_again(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(8))
    names = [f"t{number}" for number in range(8)]
    removed: list[Any] = []
    seen = Seen()

    def once(change: RouteChange) -> None:
        seen(change)
        removed[0]()

    async with stage.client(BELL_ONLY) as client:
        await begin(client, *names)
        removed.append(await client.on_change(once, names))
        stage.agent.register(broker("broker-b"), topics(8))
        await until_watching(client, 0)
        assert len(seen.changes) == 1


async def test_a_listener_that_fails_is_said_and_told_of_the_next_change(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.agent.register(broker("broker-a"), topics(1))
    seen, seen_later = Seen(), Seen()

    def fail(change: RouteChange) -> None:
        seen(change)
        raise LookupError("what a listener may do")

    async def fail_later(change: RouteChange) -> None:
        await asyncio.sleep(0)
        seen_later(change)
        raise LookupError("what a coroutine may do")

    async with stage.client(BELL_ONLY) as client:
        await begin(client, "t0")
        await client.on_change(fail)
        if not isinstance(client, InThreads):
            await client.on_change(fail_later)
        for name in ("broker-b", "broker-c"):
            stage.agent.register(broker(name), topics(1))
            await until_told_of(seen, name)
            if not isinstance(client, InThreads):
                await until_told_of(seen_later, name)
    said = [record for record in caplog.records if "listener failed" in record.getMessage()]
    assert {record.getMessage() for record in said} == {"a listener failed at a change of t0"}
    assert len(said) == len(seen.changes) + len(seen_later.changes)
    assert all(record.exc_info is not None for record in said)


async def until_told_of(seen: Seen, name: str) -> None:
    """Wait until the last change that came names this broker."""
    await await_until(lambda: seen.changes and name in seen.changes[-1][1], description=f"{name} is told of")


async def test_a_slow_listener_holds_up_nobody_else(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(1))
    slow, quick = Seen(), Seen()
    going_on = threading.Event()
    going_on_async = asyncio.Event()

    def wait(change: RouteChange) -> None:
        slow(change)
        wait_until(going_on.is_set, timeout_s=60, description="the listener may go on")

    async def wait_async(change: RouteChange) -> None:
        slow(change)
        await going_on_async.wait()

    async with stage.client(BELL_ONLY) as client:
        await begin(client, "t0")
        is_sync = isinstance(client, InThreads)
        listener: Any = wait if is_sync else wait_async
        await client.on_change(listener)
        await client.on_change(quick)
        stage.agent.register(broker("broker-b"), topics(1))
        await slow.until_told_anything()
        await until_told_of(quick, "broker-b")
        for number in range(5):
            stage.agent.register(broker(f"broker-{number}"), topics(1))
            await until_told_of(quick, f"broker-{number}")
        assert len(slow.changes) == 1
        going_on.set()
        going_on_async.set()
        await until_told_of(slow, "broker-4")
        assert len(slow.changes) == 2


async def test_a_listener_may_use_the_client(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(2))
    found: list[str] = []

    def use(blocking: RouteClient, change: RouteChange) -> None:
        found.extend(blocking.select_queue(name).topic for name in (change.topic, "t1"))

    async def use_async(client: AnyClient, change: RouteChange) -> None:
        found.extend([(await client.select_queue(name)).topic for name in (change.topic, "t1")])

    async with stage.client(BELL_ONLY) as client:
        await begin(client, "t0")
        listener: Any = (
            partial(use, client.blocking) if isinstance(client, InThreads) else partial(use_async, client)
        )
        await client.on_change(listener, ["t0"])
        stage.agent.register(broker("broker-b"), topics(1))
        await await_until(lambda: found[:2] == ["t0", "t1"], description="the listener used the client")


async def test_a_listener_may_close_the_client(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(1))

    async with stage.client(BELL_ONLY) as client:
        await begin(client, "t0")
        close: Any = client.blocking.close if isinstance(client, InThreads) else client.aclose
        await client.on_change(lambda _: close())
        stage.agent.register(broker("broker-b"), topics(1))
        await await_until(
            lambda: (running(LISTENER), watching(client)) == (0, 0), description="the client is closed"
        )
        with pytest.raises(RuntimeError, match="does not run"):
            await client.select_queue("unknown")


async def test_closing_leaves_no_thread_and_no_task(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(2))
    async with stage.client(BELL_ONLY) as client:
        await begin(client, "t0", "t1")
        for names in (None, ["t0"], ["t1"], ["new"]):
            await client.on_change(Seen(), names)
        watchers = [Watcher(client, names) for names in (None, ["t0"], ["t1"])]
        await until_watching(client, 7)
        assert running(LISTENER) == 4
    await asyncio.gather(*(watcher.task for watcher in watchers))
    await await_until(lambda: (running(LISTENER), watching(client)) == (0, 0), description="nobody is left")
