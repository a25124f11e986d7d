"""Slaves: what becomes of their group's table, and how they and their operator learn where the master is."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from sharedroutes.broker_agent import AgentConfig, BrokerAgent, Phase
from sharedroutes.broker_agent.doorbells import DOWN, UP, Bells
from sharedroutes.broker_agent.rocketmq import broker_conf
from sharedroutes.broker_agent.settings.loader import agent_config
from sharedroutes.registry import (
    AsyncRouteStore,
    Broker,
    Registration,
    RegistryError,
    StoreRefused,
    StoreUnavailable,
    TopicConfig,
)
from tests.broker_agent.data_files import put, topics_json
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.broker_agent.world import HEARTBEAT_S, World
from tests.support import await_until

MASTER: Final = Broker("broker-a", "10.0.0.1:10911", 0, "DefaultCluster", "10.0.0.1:10912")
MOVED: Final = replace(MASTER, address="10.0.0.2:10911", ha_address="10.0.0.2:10912")


def slave_config(world: World, broker: SpeakingBroker, *lines: str, **settings: Any) -> AgentConfig:
    """Return the settings of the agent of a slave, as they are made from its broker.conf."""
    folder = world.conf_path.parent / "slave"
    put(folder / "config" / "topics.json", topics_json("t1"))
    said = ("brokerName=broker-a", "brokerRole=SLAVE", "brokerId=1", "brokerIP1=127.0.0.1", *lines)
    conf = "\n".join((*said, f"listenPort={broker.port}", f"storePathRootDir={folder}"))
    put(world.conf_path, conf.encode())
    broker.settings = {
        "brokerName": "broker-a",
        "brokerId": "1",
        "brokerRole": "SLAVE",
        "brokerIP1": "127.0.0.1",
        "listenPort": str(broker.port),
    }
    return agent_config(
        broker_conf.read(world.conf_path),
        broker_conf_path=world.conf_path,
        redis_url=world.url,
        heartbeat_s=HEARTBEAT_S,
        **settings,
    )


@asynccontextmanager
async def slave(world: World, *lines: str, said: str = "", **settings: Any) -> AsyncIterator[BrokerAgent]:
    """Run a slave of which its file says these lines, and it itself `said` of acting masters."""
    async with SpeakingBroker() as broker:
        config = slave_config(world, broker, *lines, **settings)
        if said:
            broker.settings["enableSlaveActingMaster"] = said
        async with BrokerAgent(config) as agent:
            await agent.until(Phase.SERVING)
            yield agent


async def master_of(world: World, *topics: str, broker: Broker = MASTER) -> Registration:
    return await world.store.register(broker, [TopicConfig(topic) for topic in topics])


async def heartbeats_pass(agent: BrokerAgent, count: int = 5) -> None:
    since = agent.status().heartbeats
    await await_until(lambda: agent.status().heartbeats >= since + count, description="heartbeats pass")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), ""),
        ((), "false"),
        (("enableSlaveActingMaster=false",), "false"),
        (("enableSlaveActingMaster=true",), "true"),
    ],
    ids=["4.x", "5.x", "5.x without acting masters", "5.x with acting masters"],
)
@pytest.mark.parametrize("slave_first", [True, False])
async def test_the_topics_of_a_dead_master_stay_though_its_slave_has_fewer(
    world: World, lines: tuple[str, ...], said: str, *, slave_first: bool
) -> None:
    master = None if slave_first else await master_of(world, "t1", "t2")
    async with slave(world, *lines, said=said) as agent:
        await heartbeats_pass(agent)
        master = master or await master_of(world, "t1", "t2")
        await world.store.unregister(master)
        await heartbeats_pass(agent)
        assert await world.store.topics() == ["t1", "t2"]
    async with slave(world, *lines, said=said) as agent:  # as after a restart of its agent
        await heartbeats_pass(agent)
        assert await world.store.topics() == ["t1", "t2"]


@pytest.mark.parametrize(("said", "brings"), [("", False), ("false", True), ("true", True)])
async def test_a_slave_whose_file_says_nothing_is_what_it_says_itself(
    world: World, said: str, *, brings: bool
) -> None:
    async with slave(world, said=said) as agent:
        acting = {"": None, "false": False, "true": True}[said]

        def is_known() -> bool:
            broker = agent.status().broker
            return broker is not None and broker.enable_acting_master is acting

        await await_until(is_known, description="it was asked")

        async def told() -> bool:
            return await world.store.topics() == (["t1"] if brings else [])

        await await_until(told, description="its topics")
        await heartbeats_pass(agent)
        assert await told()


async def until_master(agent: BrokerAgent, *expected: str) -> None:
    def is_told() -> bool:
        status = agent.status()
        return (status.master_address, status.master_ha_address) == expected

    await await_until(is_told, description=f"the master is {expected}")


async def test_a_slave_learns_where_its_master_is_and_when_that_changes(world: World) -> None:
    async with slave(world) as agent:
        await until_master(agent, "", "")
        master = await master_of(world, "t1")
        await until_master(agent, MASTER.address, MASTER.ha_address)
        await world.store.unregister(master)
        await until_master(agent, "", "")
        moved = await master_of(world, "t1", broker=MOVED)
        await until_master(agent, MOVED.address, MOVED.ha_address)
        other_ha = replace(MOVED, ha_address="10.0.0.2:7")
        await world.store.register(other_ha, [TopicConfig("t1")], held=moved)
        await until_master(agent, MOVED.address, "10.0.0.2:7")


async def test_a_slave_asks_for_its_master_only_when_something_has_happened(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = await master_of(world, "t1")
    async with slave(world) as agent:
        await until_master(agent, MASTER.address, MASTER.ha_address)
        with redis.Redis.from_url(world.url) as admin:
            # The agent asks once more when its doorbell is connected.
            await await_until(
                lambda: admin.pubsub_numsub(world.store.keys.changes)[0][1], description="it listens"
            )
        await heartbeats_pass(agent)
        asked: list[str] = []
        owner = AsyncRouteStore.owner

        async def counted(store: AsyncRouteStore, broker_name: str, *further: Any) -> Any:
            asked.append(broker_name)
            return await owner(store, broker_name, *further)

        monkeypatch.setattr(AsyncRouteStore, "owner", counted)
        await heartbeats_pass(agent, 20)
        await world.store.register(Broker("other", "10.0.0.7:1"), [TopicConfig("t9")])
        await heartbeats_pass(agent, 5)
        assert asked == []
        await world.store.unregister(master)
        await await_until(lambda: asked == ["broker-a"], description="it asks when its group has changed")


@pytest.mark.parametrize(
    ("error", "listens_s"), [(StoreUnavailable("cut"), 1.0), (StoreRefused("NOPERM"), 60.0)]
)
async def test_a_slave_without_a_doorbell_looks_every_5_s_until_it_listens_again(
    world: World, error: RegistryError, listens_s: float
) -> None:
    bells, looks = Bells(), list[float]()
    now = 100.0
    bells.join(world.store, "a slave", "broker-a", lambda: looks.append(now - 100.0), (DOWN, UP))
    bells.next_step(now)
    bells.bell_failed(error, now)
    assert bells.bell.due_at <= now + listens_s
    while now < 110.0:
        now += bells.next_step(now).wait_s
    bells.next_step(now)
    assert looks == [5.0, 10.0]
    bells.heard(b"", now)
    assert looks == [5.0, 10.0, 10.0]
    assert bells.next_step(now).wait_s == 60.0
    await bells.leave("a slave")


async def test_a_master_has_none(world: World) -> None:
    async with BrokerAgent(world.config()) as agent:
        await agent.until(Phase.SERVING)
        assert agent.status().master_address is None


def hook_of(folder: Path, text: str) -> str:
    path = folder / "hook.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


async def test_the_master_of_a_slave_is_told_in_a_file_and_to_a_command(world: World, tmp_path: Path) -> None:
    path, log = tmp_path / "master.properties", tmp_path / "hook.log"
    say = 'echo "$BROKER_NAME:$BROKER_ID $1 $MASTER_ADDRESS $MASTER_HA_ADDRESS" >>' + str(log)
    hook = hook_of(tmp_path, say)
    async with slave(world, master_file=path, master_hook=f"{hook} 'an argument'") as agent:
        await until_master(agent, "", "")
        await master_of(world, "t1")
        told = "masterAddr=10.0.0.1:10911\nhaServerAddr=10.0.0.1:10912\n"
        await await_until(lambda: path.exists() and path.read_text() == told, description="the file")
        line = "broker-a:1 an argument 10.0.0.1:10911 10.0.0.1:10912"
        await await_until(lambda: log.exists() and line in log.read_text(), description="the command")
    assert log.read_text().splitlines()[-1] == line
    assert not (tmp_path / f".{path.name}.new").exists()


async def test_a_command_that_fails_is_said_and_takes_nobody_with_it(
    world: World, tmp_path: Path, logs: pytest.LogCaptureFixture
) -> None:
    async with slave(world, master_hook=str(tmp_path / "nowhere")) as agent:
        await await_until(lambda: "its master was not told" in logs.text, description="the report")
        await heartbeats_pass(agent)


async def test_filter_servers_are_those_that_were_told_last(world: World) -> None:
    async def stand(*servers: str) -> None:
        async def do() -> bool:
            found = await world.store.owner("broker-a")
            return found is not None and found.filter_servers == servers

        await await_until(do, description=f"{servers} stand in the registry")

    async with BrokerAgent(world.config(filter_servers=("10.0.0.1:5",))) as agent:
        await stand("10.0.0.1:5")
        agent.set_filter_servers(["10.0.0.1:6", "10.0.0.1:7"])
        await stand("10.0.0.1:6", "10.0.0.1:7")
        with pytest.raises(ValueError, match="filterServer"):
            agent.set_filter_servers(["nonsense"])
    async with BrokerAgent(world.config()):
        await stand()  # they went with the registration of their address
