"""The agent through changes of the broker's role, and what an operator or a program asks of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from sharedroutes.broker_agent import BrokerAgent, Phase
from sharedroutes.broker_agent.config import TopicsFrom
from sharedroutes.registry import (
    Broker,
    DataVersion,
    InvalidInput,
    TopicConfig,
)
from tests.broker_agent.data_files import put, rewrite, topics_json
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.broker_agent.world import World
from tests.support import await_until

GROUP: Final = "brokerName=broker-a\n"


@asynccontextmanager
async def electing(world: World) -> AsyncIterator[SpeakingBroker]:
    """Run a broker in controller mode, which has no role yet, and its agent."""
    async with SpeakingBroker() as broker:
        broker.create("orders")
        broker.become(-1)
        config = world.config(
            broker=Broker("broker-a", broker.address),
            elected=True,
            topics_from=TopicsFrom.BROKER,
            advertised=broker.address,
            probe=broker.address,
        )
        async with BrokerAgent(config):
            yield broker


async def test_a_broker_is_registered_as_what_it_was_elected_to_be_and_only_then(world: World) -> None:
    async with electing(world) as broker:
        for broker_id in (2, 0, 1):
            broker.become(broker_id)
            await world.until_members({broker_id: broker.address})
            await world.until_served(orders=4)
        broker.become(-1)
        await world.until_members({})
        broker.become(0)
        await world.until_members({0: broker.address})
    assert await world.members() == {}


async def test_a_drained_broker_is_not_written_to_and_then_not_there_until_it_is_resumed(
    world: World,
) -> None:
    async with BrokerAgent(world.config()) as agent:
        await agent.until(Phase.SERVING)
        agent.drain(wait_s=600.0)
        await await_until(world.is_wiped, description="nobody writes to it")
        assert (await agent.until(Phase.DRAINING)).phase is Phase.DRAINING
        agent.resume()
        await await_until(lambda: agent.status().phase is Phase.SERVING, description="it is called off")
        agent.drain(wait_s=0.0)
        await agent.until(Phase.PAUSED)
        await world.until_members({})
        agent.resume()
        await world.until_members({0: world.address})  # the phase is said before the store has it

        async def writable() -> bool:
            return not await world.is_wiped()

        await await_until(writable, description="producers may write again")


async def test_a_broker_that_an_operator_wiped_is_still_wiped_after_a_drain(world: World) -> None:
    async with BrokerAgent(world.config()) as agent:
        await agent.until(Phase.SERVING)
        await world.store.admin.wipe_write_perm("broker-a")
        agent.drain(wait_s=0.0)
        await agent.until(Phase.PAUSED)
        await world.until_members({})
        agent.resume()
        await world.until_members({0: world.address})
        assert await world.is_wiped()


async def test_a_paused_broker_is_out_at_once_and_stays_out_whatever_its_files_say(world: World) -> None:
    async with BrokerAgent(world.config()) as agent:
        await agent.until(Phase.SERVING)
        agent.pause()
        await world.until_served()
        rewrite(world.path, topics_json("orders", "more", counter=9))
        await await_until(lambda: agent.status().topics == 2, description="the file was read")
        assert await world.topics_served() == {}
        agent.resume()
        await world.until_served(orders=4, more=4)


async def test_a_program_has_its_broker_registered_for_as_long_as_the_block_lasts(world: World) -> None:
    async with BrokerAgent(world.config()) as agent:
        status = await agent.until(Phase.SERVING)
        assert (status.name, status.topics, status.in_step) == ("broker-a:0", 1, True)
        assert await world.topics_served() == {"orders": 4}
    assert await world.topics_served() == {}
    with pytest.raises(RuntimeError, match="broker-a:0: the agent has ended"):
        await agent.until(Phase.SERVING)


async def test_a_broker_that_knows_its_topics_tells_them_itself(world: World) -> None:
    config = world.config(topics_path=None)
    async with BrokerAgent(config) as agent:
        agent.set_topics([TopicConfig("orders", 2, 2)])
        await world.until_served(orders=2)
        agent.set_topics(
            [TopicConfig("orders", 2, 3), TopicConfig("more", 1, 1)], version=DataVersion(0, 0, 5)
        )
        await world.until_served(orders=3, more=1)
        assert agent.status().version == 5
        assert agent.status().source == "program: told by the program that the agent is part of"
        with pytest.raises(InvalidInput, match="'a' stands twice"):
            agent.set_topics([TopicConfig("a"), TopicConfig("a")])


def test_topics_that_are_read_elsewhere_cannot_be_told(world: World) -> None:
    with pytest.raises(InvalidInput, match="topics: they are not told by the program: files: reading"):
        BrokerAgent(world.config()).set_topics([])


async def test_who_waits_for_an_agent_that_cannot_begin_is_told(world: World) -> None:
    with pytest.raises(InvalidInput, match="Redis URL: "):
        async with asyncio.timeout(30), BrokerAgent(world.config(redis_url="nonsense")) as agent:
            await agent.until(Phase.SERVING)


async def test_a_store_that_is_given_is_used_and_left_open(world: World) -> None:
    async with BrokerAgent(world.config(redis_url="redis://127.0.0.1:1"), store=world.store) as agent:
        await agent.until(Phase.SERVING)
    assert await world.topics_served() == {}


async def test_a_reload_looks_at_the_files_at_once(world: World) -> None:
    later = world.path.parent / "later" / "topics.json"  # in a folder that nobody can watch yet
    async with BrokerAgent(world.config(topics_path=later, recheck_s=3_600.0)) as agent:
        await await_until(lambda: agent.status().broker_up, description="the agent looks around")
        put(later, topics_json("orders", "more"))
        await agent.reload()
        await world.until_served(orders=4, more=4)


async def test_an_agent_whose_store_is_gone_leaves_by_its_deadline(world: World) -> None:
    config = world.config(redis_url="redis://127.0.0.1:1", stop_deadline_s=0.1)
    async with asyncio.timeout(30):
        async with BrokerAgent(config) as agent:
            await agent.until(Phase.REGISTERING)
