"""The detector of a running client: a broker that was left alone as unreachable is found again."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from sharedroutes.client import AsyncRouteClient, FaultConfig
from sharedroutes.client.observers.events import BrokerIsolated, BrokerReturned
from sharedroutes.registry import RouteStore
from tests.client.clients import BELL_ONLY, FOLLOWER, AnyClient, Stage, chosen, running, until_known
from tests.client.heard import Heard, plain
from tests.registry.builders import broker, topics
from tests.support import await_until

DETECTOR: Final = "sharedroutes-detector"
FAULTS: Final = FaultConfig(
    detect=True, detect_interval_s=0.02, detect_timeout_s=1.0, ladder=None, slow_start_s=0.0
)
"""Left alone only as unreachable, and for a minute, unless a probe finds out."""


@pytest.fixture
def listening() -> Iterator[str]:
    """Return the address of somebody who accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """Return a socket that has an address and does not listen yet."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


@pytest.fixture
def deaf(bound: socket.socket) -> str:
    """Return an address of this machine at which nobody listens."""
    return f"127.0.0.1:{bound.getsockname()[1]}"


def is_reachable(client: AnyClient, name: str) -> bool:
    return plain(client).faults()[name].reachable


async def lose(client: AnyClient, *names: str) -> None:
    """Let the client know of the brokers and fail to reach them."""
    await until_known(client, "broker-a", "broker-b")
    for name in names:
        plain(client).record(name, 0.01, failed=True, reachable=False)


def register(agent: RouteStore, a: str, b: str) -> None:
    agent.register(broker("broker-a", address=a), topics(1))
    agent.register(broker("broker-b", address=b), topics(1))


# --- what it does -------------------------------------------------------------------------------------------


async def test_a_broker_that_can_be_reached_again_is_found_and_one_that_refuses_stays_left_alone_until_then(
    stage: Stage, listening: str, bound: socket.socket, deaf: str
) -> None:
    register(stage.agent, listening, deaf)
    heard = Heard()
    async with stage.client(BELL_ONLY, faults=FAULTS, observers=(heard,)) as client:
        await lose(client, "broker-a", "broker-b")
        await await_until(lambda: is_reachable(client, "broker-a"), description="a is found again")
        assert not is_reachable(client, "broker-b")
        assert await chosen(client) == {"broker-a"}
        bound.listen()
        await await_until(lambda: is_reachable(client, "broker-b"), description="b is found again")
        assert await chosen(client) == {"broker-a", "broker-b"}
    isolated = [(event.broker_name, event.reason) for event in heard.all(BrokerIsolated)]
    assert isolated == [("broker-a", "unreachable"), ("broker-b", "unreachable")]
    assert heard.all(BrokerReturned) == [BrokerReturned("broker-a"), BrokerReturned("broker-b")]


class Probed:
    """A probe that notes what it is asked, and answers with what a test says."""

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, float]] = []

    def __call__(self, address: str, timeout_s: float) -> Any:
        self.asked.append((address, timeout_s))
        return self.answer(address)


async def test_a_probe_of_the_users_is_asked_for_the_master_with_the_time_it_may_take(
    stage: Stage, listening: str, deaf: str
) -> None:
    register(stage.agent, listening, deaf)
    slave = replace(broker("broker-b", broker_id=1), address=listening)
    stage.agent.register(slave, [])
    probe = Probed(lambda address: address == deaf)
    async with stage.client(BELL_ONLY, faults=FAULTS, probe=probe) as client:
        await lose(client, "broker-a", "broker-b")
        await await_until(lambda: is_reachable(client, "broker-b"), description="b is found")
        await await_until(lambda: len(probe.asked) > 6, description="a is probed again and again")
        assert not is_reachable(client, "broker-a")
    assert {*probe.asked} == {(listening, 1.0), (deaf, 1.0)}
    assert probe.asked.count((deaf, 1.0)) == 1


async def test_a_coroutine_may_probe_for_the_asyncio_client(
    redis_url: str, agent: RouteStore, listening: str, deaf: str
) -> None:
    async def answer(address: str) -> bool:
        await asyncio.sleep(0)
        return address == deaf

    register(agent, listening, deaf)
    probe = Probed(answer)
    config = replace(BELL_ONLY, faults=FAULTS, probe=probe)
    async with AsyncRouteClient.from_url(redis_url, config) as client:
        await lose(client, "broker-a", "broker-b")
        await await_until(lambda: is_reachable(client, "broker-b"), description="b is found")
        await await_until(lambda: len(probe.asked) > 6, description="a is probed again and again")
        assert not is_reachable(client, "broker-a")


@pytest.mark.parametrize("answer", ["yes", 1, None])
async def test_only_true_means_reachable(stage: Stage, listening: str, deaf: str, answer: object) -> None:
    register(stage.agent, listening, deaf)
    probe = Probed(lambda _: answer)
    async with stage.client(BELL_ONLY, faults=FAULTS, probe=probe) as client:
        await lose(client, "broker-a")
        await await_until(lambda: len(probe.asked) > 2, description="it is probed again and again")
        assert not is_reachable(client, "broker-a")


async def test_a_probe_that_raises_is_said_and_the_next_broker_has_its_probe(
    stage: Stage, listening: str, deaf: str, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(address: str) -> bool:
        if address == listening:
            raise RuntimeError("not today")
        return True

    register(stage.agent, listening, deaf)
    probe = Probed(answer)
    caplog.set_level(logging.ERROR)
    async with stage.client(BELL_ONLY, faults=FAULTS, probe=probe) as client:
        await lose(client, "broker-a", "broker-b")
        await await_until(lambda: is_reachable(client, "broker-b"), description="b is found")
        await await_until(lambda: probe.asked.count((listening, 1.0)) > 2, description="a is tried again")
        assert not is_reachable(client, "broker-a")
        assert await chosen(client) == {"broker-b"}
    assert f"the probe of {listening} failed" in caplog.text
    assert "not today" in caplog.text


async def test_a_broker_without_a_live_master_is_not_probed(stage: Stage, listening: str, deaf: str) -> None:
    register(stage.agent, listening, deaf)
    probe = Probed(lambda _: False)
    async with stage.client(BELL_ONLY, faults=FAULTS, probe=probe) as client:
        await lose(client, "broker-a", "of-no-topic-here")
        await await_until(lambda: len(probe.asked) > 4, description="a is probed again and again")
    assert {*probe.asked} == {(listening, 1.0)}


# --- beginning and end --------------------------------------------------------------------------------------


async def test_the_detector_ends_with_the_client(stage: Stage, listening: str, deaf: str) -> None:
    register(stage.agent, listening, deaf)
    probe = Probed(lambda _: False)
    async with stage.client(BELL_ONLY, faults=FAULTS, probe=probe) as client:
        assert running(DETECTOR) == 1
        await lose(client, "broker-a")
        await await_until(lambda: probe.asked, description="it probes")
    assert running(DETECTOR) == running(FOLLOWER) == 0


async def test_a_detector_with_nothing_to_do_ends_at_once(stage: Stage) -> None:
    faults = FaultConfig(detect=True, detect_interval_s=3_600.0)
    async with stage.in_place(BELL_ONLY, faults=faults) as client:
        async with asyncio.timeout(5.0):
            await client.aclose()
    assert running(DETECTOR) == 0


async def test_without_being_asked_for_nobody_probes(stage: Stage, listening: str, deaf: str) -> None:
    register(stage.agent, listening, deaf)
    probe = Probed(lambda _: True)
    async with stage.client(BELL_ONLY, probe=probe) as client:
        await lose(client, "broker-a")
        assert running(FOLLOWER) == 1
        assert running(DETECTOR) == 0
        assert await chosen(client) == {"broker-b"}
    assert probe.asked == []
