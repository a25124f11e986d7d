"""The agent of a broker that moves to another address, that is new, and that comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.broker_agent import BrokerAgent, Phase
from sharedroutes.broker_agent.config import AgentConfig, TopicsFrom
from sharedroutes.broker_agent.rocketmq.broker_conf import read
from sharedroutes.broker_agent.roles import role
from sharedroutes.broker_agent.topic_sources import remote
from sharedroutes.registry import Broker, ChangeKind
from sharedroutes.remoting import RequestCode
from tests.broker_agent.data_files import put, remove, rewrite, topics_json
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.broker_agent.world import World, times
from tests.support import await_until

ANY: Final = "0.0.0.0"  # noqa: S104 - nobody listens there
"""An address that no client can use."""


def conf(broker: SpeakingBroker, **settings: str) -> bytes:
    """Return the broker.conf of a broker that listens there."""
    usual = {"brokerName": "broker-a", "brokerIP1": broker.host, "listenPort": str(broker.port)}
    return "".join(f"{key}={value}\n" for key, value in (usual | settings).items()).encode()


async def until_addresses(world: World, *expected: str) -> None:
    """Wait until clients are told exactly this address of the master, or none."""
    await world.until_members(dict(enumerate(expected)))


async def until_unwritable(world: World) -> None:
    async def reached() -> bool:
        return not (await world.store.routes(["orders"]))["orders"].queue_datas[0].writable

    await await_until(reached, timeout_s=30.0, description="no producer sends to the broker")


def configured(world: World, **settings: Any) -> AgentConfig:
    return world.config(broker=read(world.conf_path).broker, broker_conf_path=world.conf_path, **settings)


@asynccontextmanager
async def moving(world: World, **settings: Any) -> AsyncIterator[tuple[SpeakingBroker, BrokerAgent]]:
    """Run a broker whose broker.conf tells another port than at first, and its agent."""
    before, after = SpeakingBroker(), SpeakingBroker()
    before.create("orders")
    after.topics, after.version = before.topics, before.version
    put(world.conf_path, conf(before))
    async with after, before, BrokerAgent(configured(world, **settings)) as agent:
        await until_addresses(world, before.address)
        await before.die()
        await until_addresses(world)
        rewrite(world.conf_path, conf(after))
        yield after, agent


@pytest.mark.parametrize("topics_from", [TopicsFrom.AUTO, TopicsFrom.BROKER])
async def test_a_broker_that_listens_at_another_port_is_served_there(
    world: World, topics_from: TopicsFrom
) -> None:
    async with moving(world, topics_from=topics_from) as (broker, agent):
        await until_addresses(world, broker.address)
        await world.until_served(orders=4)
        if topics_from is TopicsFrom.BROKER:
            broker.create("more")
            await world.until_served(orders=4, more=4)
            assert agent.status().source == f"broker: asking {broker.address} for its topics: as was chosen"
        await broker.die()
        await until_addresses(world)


async def test_an_elected_broker_that_listens_at_another_port_is_served_there(world: World) -> None:
    before, after = SpeakingBroker(), SpeakingBroker()
    for broker in (before, after):
        broker.become(0)
    put(world.conf_path, conf(before, enableControllerMode="true"))
    async with before, after, BrokerAgent(configured(world, elected=True)):
        await until_addresses(world, before.address)
        rewrite(world.conf_path, conf(after, enableControllerMode="true"))
        await before.die()
        await until_addresses(world, after.address)
        await world.until_served(orders=4)


async def test_an_address_that_the_operator_has_named_is_looked_at_whatever_the_file_says(
    world: World,
) -> None:
    async with SpeakingBroker() as broker:
        put(world.conf_path, conf(broker))
        async with BrokerAgent(configured(world, probe=broker.address)) as agent:
            await until_addresses(world, broker.address)
            rewrite(world.conf_path, conf(broker, listenPort="1"))
            await await_until(lambda: agent.status().waiting, description="the agent has seen it")
            await broker.die()
            await until_addresses(world)
            await broker.start()
            await until_addresses(world, f"{broker.host}:1")
            assert agent.status().broker_up


async def test_advice_is_about_the_address_that_clients_are_told_now(world: World) -> None:
    async with SpeakingBroker() as broker:
        put(world.conf_path, conf(broker, brokerIP1=ANY))
        async with BrokerAgent(configured(world, probe=broker.address)) as agent:
            await await_until(
                lambda: "every address of a host" in agent.status().advice, description="the advice"
            )
            persist(world, broker, conf(broker))
            await await_until(
                lambda: not agent.status().advice, timeout_s=30.0, description="no advice any more"
            )
            persist(world, broker, conf(broker, brokerIP1=ANY))
            await await_until(lambda: agent.status().advice, timeout_s=30.0, description="the advice again")


def persist(world: World, broker: SpeakingBroker, content: bytes) -> None:
    """Change the settings of a running broker, which writes them to its file."""
    broker.settings = dict(line.split("=", 1) for line in content.decode().splitlines())
    rewrite(world.conf_path, content)


async def test_a_broker_conf_that_somebody_edits_does_not_take_a_running_broker_out(
    world: World, logs: pytest.LogCaptureFixture
) -> None:
    async with SpeakingBroker() as broker, SpeakingBroker() as after:
        put(world.conf_path, conf(broker))
        async with BrokerAgent(configured(world)) as agent:
            await until_addresses(world, broker.address)
            rewrite(world.conf_path, conf(after))
            await await_until(lambda: agent.status().waiting, description="the agent has seen it")
            broker.hang_up()
            await agent.reload()
            await await_until(lambda: broker.accepted > 4, description="it is looked at anew")
            await until_addresses(world, broker.address)
            await broker.die()
            await until_addresses(world, after.address)
            assert not agent.status().waiting
    assert times(logs, "it counts when the broker restarts") == 1
    downs = [one for one in (await world.store.changes_since()).changes if one.kind is ChangeKind.DOWN]
    assert len(downs) == 2  # the end of the old one, and of the agent


async def test_what_a_running_broker_says_of_itself_counts_at_once(world: World) -> None:
    async with SpeakingBroker() as broker:
        put(world.conf_path, conf(broker))
        async with BrokerAgent(configured(world)):
            await until_addresses(world, broker.address)
            persist(world, broker, conf(broker, brokerRole="SLAVE", brokerId="3"))
            await world.until_members({3: broker.address})


async def test_a_new_address_is_told_only_when_the_broker_was_found_there(world: World) -> None:
    after = SpeakingBroker()
    async with SpeakingBroker() as broker:
        put(world.conf_path, conf(broker))
        async with BrokerAgent(configured(world)) as agent:
            await until_addresses(world, broker.address)
            rewrite(world.conf_path, conf(after))
            await await_until(lambda: agent.status().waiting, description="the agent has seen it")
            await broker.die()
            await await_until(
                lambda: after.address in agent.status().why_gone, description="it is looked for there"
            )
            async with after:
                await until_addresses(world, after.address)
    ups = [one.address for one in (await world.store.changes_since()).changes if one.kind is ChangeKind.UP]
    assert ups == [broker.address, after.address]


async def test_the_permission_of_a_running_broker_counts_where_its_file_cannot_be_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(role, "_CONFIGURED_S", 0.05)
    async with SpeakingBroker() as broker:
        put(world.conf_path, conf(broker))
        broker.settings = {"brokerName": "broker-a"}
        async with BrokerAgent(configured(world)):
            await world.until_served(orders=4)
            broker.settings = {"brokerName": "broker-a", "brokerPermission": "4"}
            await until_unwritable(world)


async def test_a_broker_that_does_not_tell_its_settings_is_served_by_its_file_and_left_alone(
    world: World, logs: pytest.LogCaptureFixture
) -> None:
    async with SpeakingBroker() as broker:
        broker.refusals = {26: (1, "no permission")}
        put(world.conf_path, conf(broker))
        async with BrokerAgent(configured(world)):
            await world.until_served(orders=4)
            await await_until(lambda: broker.asked[26], description="it was asked")
            rewrite(world.conf_path, conf(broker, brokerPermission="4"))
            await until_unwritable(world)
    assert broker.asked[26] <= 3
    assert not times(logs, "no permission")


async def test_a_new_broker_is_registered_before_it_has_its_first_topic(
    world: World, logs: pytest.LogCaptureFixture
) -> None:
    remove(world.path)
    async with SpeakingBroker() as broker:
        broker.create("TBW102")
        config = world.config(broker=Broker("broker-a", broker.address))
        async with BrokerAgent(config) as agent:
            await world.until_served(TBW102=4)
            assert agent.status().source == (
                f"broker: asking {broker.address} for its topics: it has not written {world.path} yet, "
                "which is read from then on"
            )
            put(world.path, topics_json("TBW102", "orders"))
            await world.until_served(TBW102=4, orders=4)
            assert (
                agent.status().source == f"files: reading {world.path}: the broker keeps its topics in files"
            )
    assert len(set(await world.owner_epochs())) == 1
    assert times(logs, "is not there yet; until it is, the broker tells its topics itself") == 1


async def test_the_files_alone_count_where_they_were_chosen(
    world: World, logs: pytest.LogCaptureFixture
) -> None:
    remove(world.path)
    async with SpeakingBroker() as broker:
        broker.create("TBW102")
        config = world.config(broker=Broker("broker-a", broker.address), topics_from=TopicsFrom.FILES)
        async with BrokerAgent(config) as agent:
            await await_until(lambda: times(logs, "the file is missing"), description="the report")
            assert (await agent.until(Phase.STARTING)).topics == 0
    assert RequestCode.GET_ALL_TOPIC_CONFIG not in broker.asked


async def test_a_broker_that_comes_back_is_asked_at_once_for_its_topics(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(remote, "_RETRY_S", (3_600.0, 3_600.0))
    broker = SpeakingBroker()
    broker.create("orders")
    config = world.config(
        broker=Broker("broker-a", broker.address),
        topics_from=TopicsFrom.BROKER,
        topics_path=tmp_path / "never.json",
    )
    async with BrokerAgent(config) as agent:
        await agent.until(Phase.BROKER_GONE)
        async with broker:
            await world.until_served(orders=4)
