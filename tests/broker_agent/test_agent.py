"""The agent in this process: a real store, real files and a listener that stands in for the broker."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.broker_agent import BrokerAgent
from sharedroutes.registry import (
    EXPIRED,
    AsyncRouteStore,
    Broker,
    ChangeKind,
    RegistryConfig,
)
from tests.broker_agent.data_files import as_written, put, remove, rewrite, topics_json
from tests.broker_agent.world import World, running, times
from tests.support import await_until


async def test_a_broker_is_registered_renewed_and_unregistered(world: World, admin: redis.Redis) -> None:
    lease = world.store.keys.lease("broker-a", 0)
    async with running(world.config()):
        await world.until_served(orders=4)
        admin.pexpire(lease, 5_000)
        await await_until(lambda: admin.pttl(lease) > 5_000, description="the lease is renewed")
        assert await world.topics_served() == {"orders": 4}
    assert await world.topics_served() == {}


async def test_agents_of_two_registries_in_one_program_share_nothing(world: World, redis_url: str) -> None:
    other = RegistryConfig(namespace="other")
    async with running(world.config()), AsyncRouteStore.from_url(redis_url, other) as store:
        await world.until_served(orders=4)
        theirs = world.config(registry=other, broker=Broker("broker-b", world.address))
        async with running(theirs):
            await await_until(store.topics, description="the other registry has topics")
            assert [broker.broker_name for broker in await store.brokers()] == ["broker-b"]
            assert [broker.broker_name for broker in await world.store.brokers()] == ["broker-a"]
        assert await store.topics() == []
        assert await world.topics_served() == {"orders": 4}


async def test_a_changed_topic_is_written_and_the_others_are_not(world: World) -> None:
    put(world.path, topics_json("orders", "payments", counter=1))
    async with running(world.config()):
        await world.until_served(orders=4, payments=4)
        rewrite(world.path, as_written({"orders": {"writeQueueNums": 8}, "payments": {}}, 2))
        await world.until_served(orders=8, payments=4)
    changes = (await world.store.changes_since()).changes
    topics = [change for change in changes if change.kind is ChangeKind.TOPICS]
    assert [(change.added, change.changed) for change in topics] == [
        (("orders", "payments"), ()),
        ((), ("orders",)),
    ]


@pytest.mark.parametrize(
    "content", [b"", topics_json("orders", "payments")[:100], None], ids=["empty", "cut off", "missing"]
)
async def test_a_broken_file_is_reported_and_wipes_nothing(
    world: World, logs: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    async with running(world.config()):
        await world.until_served(orders=4)
        if content is None:
            remove(world.path)
        else:
            put(world.path, content)
        await await_until(lambda: times(logs, "keeping the 1 topics"), description="the report")
        assert await world.topics_served() == {"orders": 4}
        put(world.path, topics_json("orders", "payments", counter=2))
        await world.until_served(orders=4, payments=4)
    assert times(logs, "keeping the 1 topics") == 1


async def test_a_slave_is_registered_without_topics_of_its_own(world: World) -> None:
    remove(world.path)
    slave = world.config(broker=Broker("broker-a", world.address, 1))
    async with running(slave):
        await world.until_members({1: world.address})
        assert [data.broker_addrs for data in await world.store.brokers()] == [{1: world.address}]


async def test_another_owner_is_reported_and_followed_when_its_lease_ends(
    world: World, logs: pytest.LogCaptureFixture
) -> None:
    other = Broker("broker-a", "10.0.0.9:10911")
    held = await world.store.register(other, {})
    async with running(world.config()):
        await await_until(lambda: times(logs, "is held by 10.0.0.9:10911"), description="the report")
        await world.last_heartbeat(held)
        await world.until_served(orders=4)
    assert times(logs, "is held by") == 1


async def test_of_two_agents_beside_one_broker_one_works_and_they_do_not_take_turns(
    world: World, logs: pytest.LogCaptureFixture
) -> None:
    async with running(world.config()):
        await world.until_served(orders=4)
        async with running(world.config()):
            await await_until(lambda: times(logs, "on standby"), description="the first one stands by")
            await await_until(
                lambda: times(logs, "another agent serves this broker"), description="the first one has tried"
            )
            assert len(set(await world.owner_epochs())) == 2
        await world.until_served(orders=4)
    assert len(set(await world.owner_epochs())) == 3


async def test_a_store_that_loses_the_topics_has_them_back_soon(world: World, admin: redis.Redis) -> None:
    async with running(world.config()):
        await world.until_served(orders=4)
        keys = world.store.keys
        admin.delete(keys.topic("orders"), keys.broker_topics("broker-a"), keys.topics)
        admin.hdel(keys.broker("broker-a"), "token")
        await world.until_served(orders=4)


async def test_an_agent_announces_the_end_of_a_broker_that_is_not_its_own(world: World) -> None:
    other = Broker("broker-b", "10.0.0.9:10911")
    held = await world.store.register(other, {})
    async with running(world.config()):

        async def announced() -> bool:
            changes = (await world.store.changes_since()).changes
            return [(change.broker_name, change.epoch) for change in changes if change.reason == EXPIRED] == [
                ("broker-b", held.epoch)
            ]

        await world.last_heartbeat(held)
        await await_until(announced, description="the end of broker-b is announced")


async def test_an_agent_that_is_stopped_before_it_works_just_ends(world: World) -> None:
    agent = BrokerAgent(world.config())
    agent.stop()
    await agent.run()
    assert await world.topics_served() == {}
