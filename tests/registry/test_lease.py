"""A broker is found exactly as long as its lease lives; heartbeats renew it and tell what was lost."""

from __future__ import annotations

import asyncio

import pytest
import redis

from sharedroutes.registry import BrokerData, ChangeKind, LeaseStatus, plans
from sharedroutes.registry.plans import Batch
from tests.fix_redis import Store
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, table, topics
from tests.registry.probes import lease_ended, puts, recorded, unchanged
from tests.support import await_until


async def test_no_lookup_returns_an_address_whose_lease_has_ended(
    short_lived: Store, admin: redis.Redis
) -> None:
    await short_lived.register(broker(), topics(1))
    lease = short_lived.keys.lease("broker-a", 0)

    async def gone() -> bool:
        was_alive = admin.exists(lease)
        found = await short_lived.routes(["t0"])
        assert was_alive or not found
        return not found

    await await_until(gone, description="the address disappears")
    assert (await short_lived.lookup(["t0"])).alive == {}
    assert await short_lived.brokers() == []
    assert await short_lived.topics() == []


async def test_only_the_replica_whose_lease_ended_disappears(
    store: Store, short_lived: Store, admin: redis.Redis
) -> None:
    await store.register(broker(), topics(1))
    await short_lived.register(broker(broker_id=1, address=OTHER_ADDRESS), [])
    await lease_ended(short_lived, admin, 1)
    (route,) = (await store.routes(["t0"])).values()
    assert route.broker_datas == (BrokerData("cluster-1", "broker-a", {0: ADDRESS}),)


async def test_a_lease_lives_for_its_ttl_from_the_last_heartbeat(store: Store, admin: redis.Redis) -> None:
    held = await store.register(broker(), topics(1))
    lease = store.keys.lease("broker-a", 0)
    admin.pexpire(lease, 5_000)
    assert await store.heartbeat(held) is LeaseStatus.OK
    assert 5_000 < admin.pttl(lease) <= store.config.lease_ttl_ms


def deadlines_ms(store: Store, admin: redis.Redis) -> tuple[float, float]:
    """Return when the master's lease ends by the deadlines and by its key, in ms since 1970."""
    noted = admin.zscore(store.keys.deadlines, store.keys.lease_member("broker-a", 0))
    assert noted is not None
    end_ms = "local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 + redis.call('PTTL', KEYS[1])"
    return noted, float(admin.eval(end_ms, 1, store.keys.lease("broker-a", 0)))


async def test_the_deadline_of_a_lease_is_noted_by_register_and_heartbeat(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(broker(), topics(1))
    noted, real = deadlines_ms(store, admin)
    assert abs(noted - real) <= 1
    admin.zadd(store.keys.deadlines, {store.keys.lease_member("broker-a", 0): 0})
    await store.heartbeat(held)
    noted, real = deadlines_ms(store, admin)
    assert abs(noted - real) <= 1


async def test_a_heartbeat_announces_nothing(store: Store, admin: redis.Redis) -> None:
    held = await store.register(broker(), topics(1))
    with unchanged(admin, but=store.keys.deadlines):
        assert await store.heartbeat(held) is LeaseStatus.OK


async def test_a_heartbeat_after_the_end_of_the_lease_says_so_and_revives_nothing(
    short_lived: Store, admin: redis.Redis
) -> None:
    held = await short_lived.register(broker(), topics(1))
    await lease_ended(short_lived, admin)
    assert await short_lived.heartbeat(held) is LeaseStatus.LEASE_LOST
    assert await short_lived.routes(["t0"]) == {}


async def test_a_lost_lease_comes_back_with_the_registration_in_hand_and_is_announced(
    short_lived: Store, store: Store, admin: redis.Redis
) -> None:
    held = await short_lived.register(broker(), topics(10))
    await lease_ended(short_lived, admin)
    position = (await store.changes_since()).position
    batches: list[Batch] = []
    await store.run(recorded(plans.register(store.config, broker(), table(10), held=held), batches))
    assert puts(batches) == []
    assert [change.kind for change in (await store.changes_since(position)).changes] == [ChangeKind.UP]
    assert list(await store.routes(["t0"])) == ["t0"]


@pytest.mark.parametrize("how", ["flushed", "unregistered", "no member"])
async def test_a_heartbeat_says_that_the_lease_is_lost_and_the_registration_in_hand_or_anew_brings_it_back(
    store: Store, admin: redis.Redis, how: str
) -> None:
    held = await store.register(broker(), topics(1))
    if how == "flushed":
        admin.flushall()
    elif how == "unregistered":
        await store.unregister(held)
    else:
        admin.hdel(store.keys.broker("broker-a"), "member:0")
    with unchanged(admin):
        assert await store.heartbeat(held) is LeaseStatus.LEASE_LOST
    await store.register(broker(), topics(1), held=None if how == "flushed" else held)
    assert list(await store.routes(["t0"])) == ["t0"]


@pytest.mark.parametrize("token", [None, "1.1"], ids=["lost", "of another write"])
async def test_a_heartbeat_tells_when_the_table_is_not_the_one_its_owner_wrote_who_then_writes_it_again(
    store: Store, admin: redis.Redis, token: str | None
) -> None:
    held = await store.register(broker(), topics(3))
    group, table = store.keys.broker("broker-a"), store.keys.broker_topics("broker-a")
    lease = store.keys.lease("broker-a", 0)
    if token is None:
        admin.hdel(group, "token")
    else:
        admin.hset(group, "token", token)
    admin.hset(table, "t1", "1 1 6 0")
    admin.pexpire(lease, 5_000)
    assert await store.heartbeat(held) is LeaseStatus.TABLE_LOST
    assert admin.pttl(lease) > 5_000
    held = await store.register(broker(), topics(3), held=held)
    assert admin.hget(table, "t1") == b"4 4 6 0"
    assert await store.heartbeat(held) is LeaseStatus.OK


async def test_an_unregistered_broker_disappears_at_once_and_is_announced(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(broker(), topics(2))
    position = (await store.changes_since()).position
    assert await store.unregister(held, reason="maintenance")
    assert admin.zcard(store.keys.deadlines) == 0
    assert await store.routes(["t0", "t1"]) == {}
    assert await store.brokers() == []
    (change,) = (await store.changes_since(position)).changes
    assert (change.kind, change.broker_name, change.broker_id) == (ChangeKind.DOWN, "broker-a", 0)
    assert (change.reason, change.epoch) == ("maintenance", held.epoch)


async def test_a_second_unregister_finds_nothing_to_end_and_announces_nothing(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(broker(), topics(1))
    assert await store.unregister(held)
    with unchanged(admin):
        assert not await store.unregister(held)


async def test_the_table_of_an_unregistered_broker_stays_for_its_next_start(store: Store) -> None:
    held = await store.register(broker(), topics(10))
    await store.unregister(held)
    batches: list[Batch] = []
    await store.run(recorded(plans.register(store.config, broker(), table(10)), batches))
    assert puts(batches) == []
    assert await store.topics() == sorted(table(10))


async def test_many_owners_renew_at_the_same_time(store: Store) -> None:
    brokers = [broker(f"b{number}") for number in range(20)]
    held = await asyncio.gather(*(store.register(item, topics(2)) for item in brokers))
    assert set(await asyncio.gather(*map(store.heartbeat, held))) == {LeaseStatus.OK}
    (route,) = (await store.routes(["t1"])).values()
    assert {row.broker_name for row in route.queue_datas} == {item.broker_name for item in brokers}
