"""Many who need the same topics at the same time: one asks the store, all get what it says."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sharedroutes.client import AsyncRouteClient, ClientConfig, RouteClient
from sharedroutes.registry import RouteStore, StoreUnavailable
from tests.client.clients import BELL_ONLY, AnyClient, InThreads, Stage, let_many_wait, until_in_place
from tests.registry.builders import broker, topics
from tests.support import await_until, wait_until

CALLERS = 16

DOWN = StoreUnavailable("down")


class SlowStore:
    """Stands in front of a client's store: lookups of topics wait until it is opened."""

    def __init__(self, client: AnyClient) -> None:
        self.asked: list[tuple[str, ...]] = []
        """The topics of each lookup that came."""

        self.callers = 0
        """So many callers have learned whether they ask or wait."""

        self.error: BaseException | None = None
        """What the next lookup fails with."""

        self._open = threading.Event()
        core, store = client._core, client._store
        self._real: Callable[..., Any] = store.lookup
        self._question = core.question
        vars(core)["question"] = self._counted
        vars(store)["lookup"] = self._lookup if isinstance(client, InThreads) else self._lookup_async

    def open(self) -> None:
        """Let all lookups go on, those that wait and those to come."""
        self._open.set()

    def _counted(self, *args: Any) -> Any:
        question = self._question(*args)
        self.callers += 1
        return question

    def _lookup(self, names: tuple[str, ...], *args: Any) -> Any:
        if names:
            self.asked.append(names)
            wait_until(self._open.is_set, timeout_s=60, description="the store answers")
            self._fail()
        return self._real(names, *args)

    async def _lookup_async(self, names: tuple[str, ...], *args: Any) -> Any:
        if names:
            self.asked.append(names)
            await await_until(self._open.is_set, timeout_s=60, description="the store answers")
            self._fail()
        return await self._real(names, *args)

    def _fail(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


async def begin(client: AnyClient) -> SlowStore:
    """Let the client have its place, and its store be slow from now on."""
    let_many_wait()
    await until_in_place(client)
    return SlowStore(client)


async def until(slow: SlowStore, *, callers: int, asked: int = 1) -> None:
    """Wait until so many callers wait, and so many lookups came."""
    await await_until(
        lambda: slow.callers >= callers and len(slow.asked) >= asked, description=f"{callers} callers wait"
    )


def start(ask: Callable[..., Any], *args: Any, times: int = 1) -> list[asyncio.Task[Any]]:
    """Let so many callers ask at the same time."""

    async def run() -> Any:
        return await ask(*args)

    return [asyncio.create_task(run()) for _ in range(times)]


async def test_many_who_need_one_topic_look_it_up_once(stage: Stage) -> None:
    stage.agent.register(broker(), topics(1))
    async with stage.client(BELL_ONLY) as client:
        slow = await begin(client)
        callers = [
            *start(client.select_queue, "t0", times=CALLERS),
            *start(client.route, "t0"),
            *start(client.get, ["t0"]),
            *start(client.prefetch, ["t0"]),
        ]
        await until(slow, callers=len(callers))
        slow.open()
        *queues, route, found, nothing = await asyncio.gather(*callers)
    assert {queue.broker_name for queue in queues} == {"broker-a"}
    assert (found, nothing) == ({"t0": route}, None)
    assert slow.asked == [("t0",)]


async def test_topics_that_others_ask_for_are_waited_for_and_only_the_rest_is_asked(stage: Stage) -> None:
    stage.agent.register(broker(), topics(4))
    async with stage.client(BELL_ONLY) as client:
        slow = await begin(client)
        callers: list[asyncio.Task[Any]] = []
        asked = (["t0", "t1"], ["t1", "t2"], ["t3"], ["t0", "t1", "t2", "t3", "t4"])
        for number, wanted in enumerate(asked, start=1):
            callers += start(client.get, wanted)
            await until(slow, callers=number, asked=number)
        slow.open()
        found = await asyncio.gather(*callers)
    assert slow.asked == [("t0", "t1"), ("t2",), ("t3",), ("t4",)]
    assert [list(routes) for routes in found] == [*asked[:3], asked[3][:4]]


async def test_a_topic_is_answered_while_the_answer_to_another_is_late(stage: Stage) -> None:
    stage.agent.register(broker(), topics(2))
    async with stage.client(BELL_ONLY) as client:
        assert (await client.select_queue("t0")).topic == "t0"
        slow = await begin(client)
        late = start(client.select_queue, "t1", times=4)
        await until(slow, callers=4)
        assert (await client.select_queue("t0")).topic == "t0"
        assert list(await client.get(["t0"])) == ["t0"]
        slow.open()
        await asyncio.gather(*late)


async def test_topics_that_the_follower_reads_too_do_not_cut_short_who_waits_for_others(stage: Stage) -> None:
    stage.agent.register(broker(), topics(2))
    async with stage.client(BELL_ONLY) as client:
        slow = await begin(client)
        callers = start(client.get, ["t0", "t1"])
        await until(slow, callers=1)
        callers += start(client.get, ["t1"], times=4)
        await until(slow, callers=5)
        core = client._core
        request = core.known.cache.request(["t0"])
        core.known.offer(request, stage.agent.lookup(request.topics), 0.0)
        slow.open()
        found = await asyncio.gather(*callers)
    assert [list(routes) for routes in found] == [["t0", "t1"], *[["t1"]] * 4]


async def test_when_the_store_fails_all_who_wait_get_its_error_and_the_next_asks_again(stage: Stage) -> None:
    stage.agent.register(broker(), topics(1))
    async with stage.client(BELL_ONLY) as client:
        slow = await begin(client)
        slow.error = DOWN
        callers = start(client.select_queue, "t0", times=CALLERS)
        await until(slow, callers=CALLERS)
        slow.open()
        failed = await asyncio.gather(*callers, return_exceptions=True)
        assert {id(error) for error in failed} == {id(DOWN)}
        assert slow.asked == [("t0",)]
        assert (await client.select_queue("t0")).broker_name == "broker-a"
        assert slow.asked == [("t0",)] * 2


async def test_who_waits_for_several_lookups_that_fail_hears_of_one_and_leaves_no_noise(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask() -> list[str]:
        callers = [*start(client.get, ["t0"]), *start(client.get, ["t1"])]
        await until(slow, callers=2, asked=2)
        callers += start(client.get, ["t0", "t1"])
        await until(slow, callers=3, asked=2)
        slow.open()
        return [str(error) for error in await asyncio.gather(*callers, return_exceptions=True)]

    async with stage.client(BELL_ONLY) as client:
        slow = await begin(client)
        vars(slow)["_fail"] = fail_always
        assert await ask() == ["down"] * 3
        await asyncio.sleep(0)  # lets go of the tasks
        gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def fail_always() -> None:
    """Be a store that is away."""
    raise StoreUnavailable("down")


@pytest.mark.parametrize("asks", [True, False], ids=["the one that asks", "one that waits"])
async def test_when_a_task_is_cancelled_the_others_get_the_answer_and_one_of_them_asks_if_need_be(
    redis_url: str, agent: RouteStore, *, asks: bool
) -> None:
    agent.register(broker(), topics(1))
    async with AsyncRouteClient.from_url(redis_url, BELL_ONLY) as client:
        slow = await begin(client)
        callers = start(client.select_queue, "t0")
        await until(slow, callers=1)
        callers += start(client.select_queue, "t0", times=CALLERS)
        await until(slow, callers=1 + CALLERS)
        cancelled = callers.pop(0 if asks else -1)
        cancelled.cancel()
        await await_until(lambda: len(slow.asked) == 1 + asks, description="as many ask as have to")
        await asyncio.wait([cancelled])
        slow.open()
        assert {queue.broker_name for queue in await asyncio.gather(*callers)} == {"broker-a"}
        assert cancelled.cancelled()
    assert slow.asked == [("t0",)] * (1 + asks)


async def test_when_the_thread_that_asks_is_interrupted_another_asks(
    redis_url: str, agent: RouteStore
) -> None:
    agent.register(broker(), topics(1))

    def interrupted() -> str:
        try:
            return blocking.select_queue("t0").broker_name
        except KeyboardInterrupt:
            return "interrupted"

    with RouteClient.from_url(redis_url, BELL_ONLY) as blocking:
        client: Any = InThreads(blocking)
        slow = await begin(client)
        slow.error = KeyboardInterrupt()
        callers = [asyncio.create_task(asyncio.to_thread(interrupted)) for _ in range(CALLERS)]
        await until(slow, callers=CALLERS)
        slow.open()
        found = sorted(await asyncio.gather(*callers))
    assert found == ["broker-a"] * (CALLERS - 1) + ["interrupted"]
    assert slow.asked == [("t0",)] * 2


async def test_topics_that_are_read_at_the_start_may_be_asked_for_at_once(stage: Stage) -> None:
    stage.agent.register(broker(), topics(3))
    let_many_wait()
    for _ in range(10):
        async with stage.client(ClientConfig(topics=("t0", "t1"))) as client:
            wanted = [["t0", "t2"], ["t1", "t0"], ["t2", "t1"], ["t0", "t1", "t2"]] * 3
            found = await asyncio.gather(*(client.get(names) for names in wanted))
            assert [list(routes) for routes in found] == wanted
