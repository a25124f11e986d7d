"""Slaves learn who has the lowest id of their group, also when a front has missed changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sharedroutes.nameserver.notices import MinBrokerIds
from sharedroutes.registry import AsyncRouteStore, Broker, TopicConfig
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.support import await_until

MASTER_AT = "127.0.0.1:10911"


@asynccontextmanager
async def looking(store: AsyncRouteStore) -> AsyncIterator[MinBrokerIds]:
    ids = MinBrokerIds(store)
    try:
        yield ids
    finally:
        await ids.aclose()


async def test_what_changed_while_changes_were_missed_is_told_once(redis_url: str) -> None:
    async with (
        SpeakingBroker() as slave,
        AsyncRouteStore.from_url(redis_url) as store,
        looking(store) as ids,
    ):
        master = Broker("broker-a", MASTER_AT, enable_acting_master=True)
        await store.register(Broker("broker-a", slave.address, 1, enable_acting_master=True), [])
        await ids.look_at_all(tells=True)
        held = await store.register(master, [TopicConfig("orders")])
        await ids.look_at_all(tells=True)
        await ids.look_at_all(tells=True)
        back = {"minBrokerId": "0", "minBrokerAddr": MASTER_AT}
        await await_until(lambda: slave.told == [back], description="it knows of the master")
        await store.unregister(held)
        await ids.look_at_all(tells=True)
        gone = {"minBrokerId": "1", "minBrokerAddr": slave.address, "offlineBrokerAddr": MASTER_AT}
        await await_until(lambda: slave.told == [back, gone], description="it knows that it is gone")
