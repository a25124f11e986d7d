"""Two agents beside one broker: who has it, who gets it when the other ends, and what takes it out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sharedroutes.broker_agent import BrokerAgent, Phase
from sharedroutes.broker_agent.doorbells import DOWN, UP, may_concern
from sharedroutes.registry import Broker, ChangeKind, RegistryConfig
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.broker_agent.world import World, running, times
from tests.support import await_until


@asynccontextmanager
async def pair(world: World) -> AsyncIterator[tuple[BrokerAgent, BrokerAgent]]:
    """Run two agents beside one broker; return the owner and its standby."""
    async with running(world.config()) as standby:
        await standby.until(Phase.SERVING)
        async with running(world.config()) as owner:
            await owner.until(Phase.SERVING)
            await standby.until(Phase.STANDBY)
            yield owner, standby


async def looks_pass(agent: BrokerAgent, world: World) -> None:
    """Wait until an agent has asked for the broker a few times more."""
    since = agent.status().failures
    await await_until(lambda: agent.status().failures >= since + 3, description="it has looked again")


async def downs(world: World) -> list[str]:
    return [one.reason for one in (await world.store.changes_since()).changes if one.kind is ChangeKind.DOWN]


@pytest.mark.parametrize("at", ["owner", "standby"])
async def test_a_drain_takes_the_broker_out_whichever_of_two_agents_is_told(world: World, at: str) -> None:
    async with pair(world) as (owner, standby):
        told, other = (owner, standby) if at == "owner" else (standby, owner)
        told.drain(wait_s=0.05)
        await told.until(Phase.PAUSED)
        await await_until(lambda: not told.status().may_be_served, description="it is out")
        assert await world.topics_served() == {}
        await other.until(Phase.PAUSED)
        await looks_pass(other, world)
        assert await world.topics_served() == {}
        assert await downs(world) == ["drained"]
        told.resume()
        await told.until(Phase.SERVING)
        await other.until(Phase.STANDBY)
        assert not await world.is_wiped()


@pytest.mark.parametrize("at", ["owner", "standby"])
async def test_a_pause_takes_the_broker_out_and_the_other_agent_can_resume_it(world: World, at: str) -> None:
    async with pair(world) as (owner, standby):
        told, other = (owner, standby) if at == "owner" else (standby, owner)
        told.pause()
        await other.until(Phase.PAUSED)
        await looks_pass(other, world)
        assert await world.topics_served() == {}
        other.resume()
        await other.until(Phase.SERVING)
        assert told.status().phase is Phase.PAUSED


async def test_an_agent_that_is_started_brings_a_drained_broker_back(world: World) -> None:
    async with running(world.config()) as agent:
        await agent.until(Phase.SERVING)
        agent.pause()

        async def is_paused() -> bool:
            return "paused" in await downs(world)

        await await_until(is_paused, description="it is out")
    async with running(world.config()) as agent:
        await agent.until(Phase.SERVING)


async def test_a_standby_of_another_address_cannot_take_the_owner_out_and_says_so(world: World) -> None:
    another = SpeakingBroker()
    await world.store.register(Broker("broker-a", another.address), {})
    async with another, running(world.config()) as standby:
        await standby.until(Phase.STANDBY)
        standby.drain(wait_s=60.0)
        await standby.until(Phase.PAUSED)
        await await_until(lambda: another.address in standby.status().trouble, description="the report")
        assert standby.status().may_be_served
        assert not await world.is_wiped()


async def test_a_standby_hears_of_the_end_of_the_owner_and_does_not_wait_for_its_next_look(
    world: World, logs: pytest.LogCaptureFixture
) -> None:
    other = Broker("broker-a", "10.0.0.9:10911")
    patient = {"heartbeat_s": 1_800.0, "registry": RegistryConfig(lease_ttl_s=3_600.0)}  # it bounds the looks
    async with running(world.config()) as owner:
        await owner.until(Phase.SERVING)
        async with running(world.config(broker=other, probe=world.address, **patient)) as standby:
            await standby.until(Phase.STANDBY)
            assert await world.members() == {0: world.address}
            owner.stop()
            await standby.until(Phase.SERVING)
            assert await world.members() == {0: other.address}
    assert times(logs, f"is held by {world.address}") == 1


async def test_a_standby_takes_a_lease_over_that_is_left_behind_before_clients_miss_the_broker(
    world: World,
) -> None:
    async with pair(world) as (owner, standby):
        owner.hand_over(watch_s=0.0)
        await await_until(lambda: owner.status().phase is Phase.STOPPING, description="it has left its lease")
        held = await world.store.owner("broker-a")
        assert held is not None
        await looks_pass(standby, world)
        assert standby.status().phase is Phase.STANDBY  # most of the lease is left
        await world.last_heartbeat(held, lasts_s=3.0)
        await standby.until(Phase.SERVING)
        assert await downs(world) == []


@pytest.mark.parametrize(
    ("message", "standby", "slave"),
    [
        (None, False, True),
        (b"", True, True),
        (b'1-0 2-0 {"kind":"down","broker":"broker-a","id":0,"epoch":1}', True, True),
        (b'1-0 2-0 {"kind":"up","broker":"broker-a","id":0,"epoch":1}', False, True),
        (b'1-0 2-0 {"kind":"down","broker":"broker-b","id":0,"epoch":1}', False, False),
        (b"1-0 2-0 ", False, False),
    ],
)
def test_only_what_may_concern_the_broker_is_worth_a_look(
    message: bytes | None, *, standby: bool, slave: bool
) -> None:
    assert may_concern(message, "broker-a", (DOWN,)) is standby
    assert may_concern(message, "broker-a", (DOWN, UP)) is slave
