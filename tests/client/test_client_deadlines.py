"""The deadline of attempts holds for the first lookup of a topic too, whatever the store does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from sharedroutes.client import RetryPolicy, RouteClient
from sharedroutes.registry import EmbeddedServer, MessageQueue, RegistryConfig, RouteStore, StoreTimeout
from tests.client.clients import QUICK, AnyClient, ClientMaker, Stage, attempt, let_many_wait
from tests.proxy import FaultyProxy
from tests.registry.builders import broker, topics
from tests.support import await_until

SOON_S: Final = 20.0
"""Far more than the attempts' deadline, far less than the store's."""

PATIENT: Final = replace(QUICK, registry=RegistryConfig(call_deadline_s=3_600, connect_deadline_s=3_600))
"""Waits for the store for as long as it takes."""

SHORT: Final = RetryPolicy(deadline_s=0.1)
UNHURRIED: Final = RetryPolicy(deadline_s=60.0)


@pytest.fixture
def proxy(own_server: EmbeddedServer, own_agent: RouteStore) -> Iterator[FaultyProxy]:
    """Return the network between the test's client and a registry with two topics."""
    own_agent.register(broker(), topics(2))
    with FaultyProxy(own_server.port) as proxy:
        yield proxy


@pytest.fixture
def stage(make_client: ClientMaker, proxy: FaultyProxy, own_agent: RouteStore) -> Stage:
    """Return that registry behind that network."""
    return Stage(make_client, proxy.url, own_agent)


async def first_queue(client: AnyClient, topic: str, policy: RetryPolicy = SHORT) -> MessageQueue:
    """Return the queue of the first attempt."""
    return await attempt(client, topic, lambda queue: queue, policy)


async def first_sending(client: AnyClient, topic: str) -> MessageQueue:
    """Return the queue of the first attempt whose end a callback tells."""
    return (await client.sending(topic, policy=SHORT)).queue


@pytest.mark.parametrize("begin", [first_queue, first_sending])
async def test_attempts_on_an_unknown_topic_end_at_their_deadline_when_the_store_hangs(
    stage: Stage, proxy: FaultyProxy, begin: object
) -> None:
    assert callable(begin)
    async with stage.in_place(PATIENT) as client:
        with proxy.hanging():
            async with asyncio.timeout(SOON_S):
                with pytest.raises(StoreTimeout, match="the deadline came before the store told of 't0'"):
                    await begin(client, "t0")
        assert (await first_queue(client, "t0", UNHURRIED)).broker_name == "broker-a"


async def test_who_has_a_deadline_waits_no_longer_for_the_lookup_of_another_who_goes_on(
    stage: Stage, proxy: FaultyProxy
) -> None:
    let_many_wait()
    async with stage.in_place(PATIENT) as client:
        with proxy.hanging():
            unhurried = asyncio.create_task(client.route("t0"))
            await await_until(lambda: client._core.known.flights._flying, description="a lookup is under way")
            async with asyncio.timeout(SOON_S):
                with pytest.raises(StoreTimeout):
                    await first_queue(client, "t0")
            assert not unhurried.done()
        assert [row.broker_name for row in (await unhurried).queue_datas] == ["broker-a"]


async def test_who_may_wait_gets_the_answer_that_another_had_no_time_for(
    stage: Stage, proxy: FaultyProxy
) -> None:
    let_many_wait()
    async with stage.in_place(PATIENT) as client:
        with proxy.hanging():
            hurried = asyncio.create_task(first_queue(client, "t0"))
            await await_until(lambda: client._core.known.flights._flying, description="a lookup is under way")
            unhurried = asyncio.create_task(client.select_queue("t0"))
            async with asyncio.timeout(SOON_S):
                with pytest.raises(StoreTimeout):
                    await hurried
        assert (await unhurried).broker_name == "broker-a"


async def test_a_known_topic_is_tried_whatever_the_deadline(stage: Stage, proxy: FaultyProxy) -> None:
    async with stage.client(PATIENT) as client:
        await client.prefetch(["t0"])
        with proxy.hanging():
            hurried = RetryPolicy(deadline_s=1e-9)
            assert (await first_queue(client, "t0", hurried)).broker_name == "broker-a"


async def test_what_the_store_says_within_the_deadline_is_told_as_ever(
    stage: Stage, proxy: FaultyProxy
) -> None:
    async with stage.in_place() as client:
        assert (await first_queue(client, "t1", UNHURRIED)).topic == "t1"
        with pytest.raises(LookupError, match="no live broker holds topic 'none'"):
            await first_queue(client, "none", UNHURRIED)


async def test_an_error_of_the_store_is_told_before_the_deadline(stage: Stage, proxy: FaultyProxy) -> None:
    async with stage.in_place() as client:
        with proxy.refusing(), pytest.raises(ConnectionError) as refused:
            await first_queue(client, "t0", UNHURRIED)
        assert not isinstance(refused.value, TimeoutError)


def test_a_lookup_that_cannot_begin_keeps_nobody_waiting(
    proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with RouteClient.from_url(proxy.url, QUICK) as client:
        monkeypatch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start"):
            client.sending("t0", policy=SHORT)
        assert client.select_queue("t0").broker_name == "broker-a"
