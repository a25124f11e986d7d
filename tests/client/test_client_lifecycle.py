"""Starting, using and ending a route client."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

from sharedroutes.client import AsyncRouteClient, NoRoute, RouteClient
from sharedroutes.client.cache_follower import CacheFollower
from sharedroutes.registry import EmbeddedServer, MessageQueue, RouteStore
from sharedroutes.registry.change_stream.stream import Step
from tests.client.clients import (
    BELL_ONLY,
    FOLLOWER,
    IMPATIENT,
    QUICK,
    OwnStage,
    Stage,
    attempt,
    running,
    until_held_by,
    until_in_place,
    until_source,
)
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, topics
from tests.support import await_until, wait_until

SOON_S = 10.0
"""Far less than the follower of BELL_ONLY waits for a doorbell."""


async def test_a_client_that_was_not_started_says_so(stage: Stage) -> None:
    client = stage.client()
    for use in (client.select_queue, client.subscribe_queues, client.route):
        with pytest.raises(RuntimeError, match="does not run"):
            await use("t0")
    with pytest.raises(RuntimeError, match="does not run"):
        await client.get(["t0"])
    await client.aclose()


async def test_a_fault_in_what_decides_is_said_and_the_client_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, faults = CacheFollower.next_step, iter([ValueError("a fault")])

    def next_step(self: CacheFollower, now: float) -> Step:
        for fault in faults:
            raise fault
        return real(self, now)

    monkeypatch.setattr(CacheFollower, "next_step", next_step)
    async with stage.client() as client:
        await until_source(client, "live")
    assert "a fault in the follower" in caplog.text


async def test_however_many_start_a_client_it_has_one_follower_until_it_is_closed(stage: Stage) -> None:
    stage.agent.register(broker(), topics(1))
    client = stage.client()
    await asyncio.gather(*(client.start() for _ in range(8)))
    await client.start()
    assert running(FOLLOWER) == 1
    await until_held_by(client, "t0", "broker-a")
    for _ in range(2):
        await client.aclose()
    assert running(FOLLOWER) == 0


async def test_closing_does_not_wait_for_a_doorbell(stage: Stage) -> None:
    async with stage.in_place(BELL_ONLY) as client:
        async with asyncio.timeout(SOON_S):
            await client.aclose()
    assert running(FOLLOWER) == 0


async def test_closing_right_after_the_start_leaves_nothing(stage: Stage) -> None:
    for _ in range(10):
        async with stage.client():
            pass
    assert running(FOLLOWER) == 0


@pytest.mark.parametrize("sweep", [False, True])
async def test_closing_leaves_no_connection(own: OwnStage, *, sweep: bool) -> None:
    own.agent.register(broker(), topics(1))

    def connections() -> int:
        return len(own.agent._link.client.client_list())

    before = connections()
    async with own.in_place(sweep=sweep) as client:
        await until_held_by(client, "t0", "broker-a")
        wanted = before + (3 if sweep else 2)  # it listens, follows and sweeps
        await await_until(lambda: connections() >= wanted, description="it is connected")
    await await_until(lambda: connections() == before, description="all connections are closed")


async def test_closing_leaves_nothing_for_the_collector_to_complain_about(stage: Stage) -> None:
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        async with stage.in_place() as client:
            pass
        del client
        gc.collect()
    assert [str(complaint.message) for complaint in complaints] == []


# --- for threads -------------------------------------------------------------------------------------------


def until_heard(client: RouteClient, change_id: str) -> None:
    wait_until(lambda: client.health().position == change_id, description=f"{change_id} is heard of")


def test_threads_select_while_the_routes_change(redis_url: str, agent: RouteStore) -> None:
    agent.register(broker("broker-a"), topics(1))
    valid = {("broker-a", ADDRESS), ("broker-b", ADDRESS), ("broker-b", OTHER_ADDRESS)}
    over = threading.Event()

    def select() -> set[tuple[str, str]]:
        chosen = set()
        while not over.is_set():
            queue = client.select_queue("t0")
            chosen.add((queue.broker_name, queue.address))
            client.record(queue.broker_name, 0.0, failed=queue.queue_id == 3)
        return chosen

    with RouteClient.from_url(redis_url, QUICK) as client, ThreadPoolExecutor(4) as pool:
        selecting = [pool.submit(select) for _ in range(4)]
        try:
            for number in range(40):
                address = OTHER_ADDRESS if number % 2 else ADDRESS
                held = agent.register(broker("broker-b", address=address), topics(1))
                agent.unregister(held)
                until_heard(client, agent.changes_since().position)
        finally:
            over.set()
        chosen = set().union(*(one.result() for one in selecting))
    assert ("broker-a", ADDRESS) in chosen
    assert chosen <= valid


# --- for asyncio -------------------------------------------------------------------------------------------


async def test_a_closing_that_is_cancelled_leaves_no_task(
    own_server: EmbeddedServer, own_agent: RouteStore
) -> None:
    own_agent.register(broker(), topics(1))
    client = AsyncRouteClient.from_url(own_server.url, IMPATIENT)
    await client.start()
    await until_held_by(client, "t0", "broker-a")
    own_server.pause()
    closing = asyncio.create_task(client.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await closing
    await await_until(lambda: running(FOLLOWER) == 0, description="the follower has ended")
    own_server.resume()
    await client.aclose()


@pytest.mark.parametrize("steps", range(12))
async def test_one_cancellation_ends_the_follower_wherever_it_is(
    redis_url: str, agent: RouteStore, steps: int
) -> None:
    agent.register(broker(), topics(1))
    client = AsyncRouteClient.from_url(redis_url, QUICK)
    await client.start()
    await until_held_by(client, "t0", "broker-a")
    (follower,) = (task for task in asyncio.all_tasks() if task.get_name() == FOLLOWER)
    agent.register(broker(), topics(2))
    await until_held_by(client, "t1", "broker-a")
    for _ in range(steps):
        await asyncio.sleep(0)
    follower.cancel()
    _, running = await asyncio.wait({follower}, timeout=SOON_S)
    assert not running
    assert follower.cancelled() or follower.exception() is None
    await client.aclose()


async def test_a_lookup_that_is_cancelled_does_no_harm(
    own_server: EmbeddedServer, own_agent: RouteStore
) -> None:
    own_agent.register(broker(), topics(1))
    async with AsyncRouteClient.from_url(own_server.url, QUICK) as client:
        await until_in_place(client)
        own_server.pause()
        asking = [asyncio.create_task(client.select_queue(f"t{number}")) for number in range(5)]
        _, waiting = await asyncio.wait(asking, timeout=0.1)
        assert waiting == {*asking}
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
        assert all(task.cancelled() for task in asking)
        own_server.resume()
        assert (await client.select_queue("t0")).broker_name == "broker-a"
        with pytest.raises(NoRoute):
            await client.select_queue("t1")


async def test_tasks_select_while_the_routes_change(redis_url: str, agent: RouteStore) -> None:
    agent.register(broker("broker-a"), topics(1))
    async with AsyncRouteClient.from_url(redis_url, QUICK) as client:
        await until_in_place(client)
        over = asyncio.Event()

        async def select() -> set[str]:
            chosen = set()
            while not over.is_set():
                chosen.add((await client.select_queue("t0")).broker_name)
                await asyncio.sleep(0)
            return chosen

        async with asyncio.TaskGroup() as group:
            selecting = [group.create_task(select()) for _ in range(4)]
            for _ in range(10):
                held = agent.register(broker("broker-b"), topics(1))
                await until_held_by(client, "t0", "broker-a", "broker-b")
                agent.unregister(held)
                await until_held_by(client, "t0", "broker-a")
            over.set()
        assert all(task.result() <= {"broker-a", "broker-b"} for task in selecting)
        assert set().union(*(task.result() for task in selecting)) == {"broker-a", "broker-b"}


async def test_a_closed_client_serves_nothing_any_more_and_says_so(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(1))
    async with stage.in_place() as client:
        await client.select_queue("t0")
        await client.route("t0")
    for use in (client.select_queue, client.route):
        with pytest.raises(RuntimeError, match="does not run"):
            await use("t0")
    with pytest.raises(RuntimeError, match="closed"):
        await client.start()


async def test_an_attempt_that_ends_after_its_broker_was_started_anew_does_not_count(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(1))
    async with stage.client() as client:
        await until_held_by(client, "t0", "broker-a")
        blocking = getattr(client, "blocking", client)

        def start_anew_and_fail(queue: MessageQueue) -> str:
            blocking._core.brokers.faults.forget(queue.broker_name, monotonic())
            raise FileNotFoundError  # it passes: nothing is tried again

        with pytest.raises(FileNotFoundError):
            await attempt(client, "t0", start_anew_and_fail)
        assert blocking.faults() == {}
