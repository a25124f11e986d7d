"""Who owns a (broker, id), who may take it over, and what a former owner can no longer do."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
import redis

from sharedroutes.registry import (
    Broker,
    BrokerOwned,
    DataVersion,
    LeaseStatus,
    Registration,
    SeenLease,
    StaleEpoch,
    plans,
)
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, topics
from tests.registry.probes import addresses, dump, lease_ended, unchanged


async def test_a_restarted_agent_takes_its_own_live_broker_over_at_once(store: Store) -> None:
    first = await store.register(broker(), topics(1))
    second = await store.register(broker(), topics(1))
    assert second.epoch > first.epoch
    assert await store.heartbeat(second) is LeaseStatus.OK
    assert await store.heartbeat(first) is LeaseStatus.FENCED


async def test_a_fenced_agent_does_not_take_back_a_live_broker_of_its_address(
    store: Store, admin: redis.Redis
) -> None:
    await store.register(broker(), topics(1))
    with unchanged(admin):
        with pytest.raises(BrokerOwned, match="broker-a:0") as owned:
            await store.register(broker(), topics(2), take_over=False)
        assert owned.value.owner_address == ADDRESS


async def test_a_fenced_agent_takes_back_a_dead_broker(
    store: Store, short_lived: Store, admin: redis.Redis
) -> None:
    await short_lived.register(broker(), topics(1))
    await lease_ended(short_lived, admin)
    held = await store.register(broker(), topics(1), take_over=False)
    assert await store.heartbeat(held) is LeaseStatus.OK


@pytest.mark.parametrize("take_over", [True, False])
async def test_another_address_is_refused_while_the_lease_lives_and_nothing_changes(
    store: Store, admin: redis.Redis, *, take_over: bool
) -> None:
    held = await store.register(broker(), topics(1))
    with unchanged(admin):
        with pytest.raises(BrokerOwned) as owned:
            await store.register(broker(address=OTHER_ADDRESS), topics(2), take_over=take_over)
        assert owned.value.owner_address == ADDRESS
        assert 0 < owned.value.remaining_ms <= store.config.lease_ttl_ms
    assert await store.heartbeat(held) is LeaseStatus.OK


@pytest.mark.parametrize("take_over", [True, False])
async def test_a_higher_state_version_takes_a_live_broker_over_from_another_address(
    store: Store, *, take_over: bool
) -> None:
    old = await store.register(broker(), topics(1), version=DataVersion(9))
    new = await store.register(
        broker(address=OTHER_ADDRESS), topics(1), take_over=take_over, version=DataVersion(10)
    )
    assert await addresses(store) == {OTHER_ADDRESS}
    assert await store.heartbeat(old) is LeaseStatus.FENCED
    assert await store.heartbeat(new) is LeaseStatus.OK


async def seen_by_a_newcomer(store: Store) -> SeenLease:
    """Return the lease of the owner as a broker of the same name at another address is told it."""
    with pytest.raises(BrokerOwned) as owned:
        await store.register(broker(address=OTHER_ADDRESS), topics(1))
    assert owned.value.lease is not None
    return owned.value.lease


async def test_who_has_found_the_owner_gone_takes_its_live_lease_over(store: Store) -> None:
    old = await store.register(broker(), topics(1), version=DataVersion(9, 3, 4))
    lease = await seen_by_a_newcomer(store)
    assert (lease.epoch, lease.address, lease.version) == (old.epoch, ADDRESS, (9, 4, 3))
    new = await store.register(broker(address=OTHER_ADDRESS), topics(1), instead_of=lease)
    assert await addresses(store) == {OTHER_ADDRESS}
    assert await store.heartbeat(old) is LeaseStatus.FENCED
    assert await store.heartbeat(new) is LeaseStatus.OK


async def test_an_owner_that_has_renewed_its_lease_since_is_not_gone(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(broker(), topics(1))
    lease = await seen_by_a_newcomer(store)
    await asyncio.sleep(0.05)  # a lease is renewed some milliseconds later at least, or it ends as before
    assert await store.heartbeat(held) is LeaseStatus.OK
    with unchanged(admin), pytest.raises(BrokerOwned) as owned:
        await store.register(broker(address=OTHER_ADDRESS), topics(2), instead_of=lease)
    assert owned.value.lease is not None
    assert owned.value.lease.ends_ms > lease.ends_ms


@pytest.mark.parametrize("address", [ADDRESS, "h:77"])
async def test_an_owner_that_has_come_since_is_not_the_one_that_was_found_gone(
    store: Store, admin: redis.Redis, address: str
) -> None:
    held = await store.register(broker(), topics(1))
    lease = await seen_by_a_newcomer(store)
    await store.unregister(held)
    await store.register(broker(address=address), topics(1))
    with unchanged(admin), pytest.raises(BrokerOwned):
        await store.register(broker(address=OTHER_ADDRESS), topics(2), instead_of=lease)


async def test_a_lease_whose_owner_was_found_gone_and_which_has_ended_is_no_obstacle(store: Store) -> None:
    held = await store.register(broker(), topics(1))
    lease = await seen_by_a_newcomer(store)
    await store.unregister(held)
    await store.register(broker(address=OTHER_ADDRESS), topics(1), instead_of=lease)
    assert await addresses(store) == {OTHER_ADDRESS}


@pytest.mark.parametrize("state_version", [9, 8, 0])
async def test_an_equal_or_lower_state_version_takes_no_live_broker_over(
    store: Store, admin: redis.Redis, state_version: int
) -> None:
    await store.register(broker(), topics(1), version=DataVersion(9))
    with unchanged(admin):
        with pytest.raises(BrokerOwned, match="state version 9") as owned:
            await store.register(
                broker(address=OTHER_ADDRESS), topics(1), version=DataVersion(state_version, counter=99)
            )
        assert owned.value.owner_state_version == 9


async def test_a_higher_state_version_does_not_let_a_fenced_agent_take_its_own_address_back(
    store: Store,
) -> None:
    await store.register(broker(), topics(1))
    with pytest.raises(BrokerOwned):
        await store.register(broker(), topics(1), take_over=False, version=DataVersion(5))


async def test_a_restarted_agent_may_come_with_a_lower_state_version(store: Store) -> None:
    await store.register(broker(), topics(1), version=DataVersion(9))
    held = await store.register(broker(), topics(1), version=DataVersion(1))
    assert await store.heartbeat(held) is LeaseStatus.OK
    assert await store.run(plans.query_data_version(store.keys, "broker-a", 0, DataVersion(1))) == (
        False,
        DataVersion(1),
    )


@pytest.mark.parametrize("take_over", [True, False])
@pytest.mark.parametrize("before", [0, 9])
async def test_another_address_takes_a_dead_broker_over_with_any_state_version(
    short_lived: Store, admin: redis.Redis, *, before: int, take_over: bool
) -> None:
    old = await short_lived.register(broker(), topics(1), version=DataVersion(before))
    await lease_ended(short_lived, admin)
    new = await short_lived.register(
        broker(address=OTHER_ADDRESS), topics(1), take_over=take_over, version=DataVersion(before and 1)
    )
    assert new.broker.address == OTHER_ADDRESS
    assert new.epoch > old.epoch
    assert await short_lived.heartbeat(old) is LeaseStatus.FENCED


async def test_another_address_takes_an_unregistered_broker_over_at_once(store: Store) -> None:
    old = await store.register(broker(), topics(1))
    await store.unregister(old)
    await store.register(broker(address=OTHER_ADDRESS), topics(1))
    assert await addresses(store) == {OTHER_ADDRESS}


async def superseded(store: Store) -> tuple[Registration, Registration]:
    """Return a former registration of broker-a and the current one."""
    old = await store.register(broker(), topics(2))
    return old, await store.register(broker(), topics(2))


@pytest.mark.parametrize("count", [0, 2, 5], ids=["fewer topics", "the same topics", "more topics"])
async def test_a_registration_of_a_former_owner_changes_nothing_and_says_so(
    store: Store, admin: redis.Redis, count: int
) -> None:
    old, current = await superseded(store)
    with unchanged(admin):
        with pytest.raises(StaleEpoch) as stale:
            await store.register(broker(), topics(count), held=old)
        assert (stale.value.epoch, stale.value.current_epoch) == (old.epoch, current.epoch)


async def test_an_unregister_of_a_former_owner_changes_nothing_and_says_so(
    store: Store, admin: redis.Redis
) -> None:
    old, current = await superseded(store)
    with unchanged(admin):
        told = f"epoch {old.epoch} has been superseded by epoch {current.epoch}"
        with pytest.raises(StaleEpoch, match=told) as stale:
            await store.unregister(old)
        assert (stale.value.epoch, stale.value.current_epoch) == (old.epoch, current.epoch)
    assert await addresses(store) == {ADDRESS}


async def test_a_heartbeat_of_a_former_owner_renews_nothing(store: Store, admin: redis.Redis) -> None:
    old, _ = await superseded(store)
    lease = store.keys.lease("broker-a", 0)
    admin.pexpire(lease, 5_000)
    with unchanged(admin):
        assert await store.heartbeat(old) is LeaseStatus.FENCED
        assert admin.pttl(lease) <= 5_000


async def test_an_owner_whose_epoch_a_failover_lost_is_told_so_and_registers_anew(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(broker(), topics(1))
    admin.hset(store.keys.broker("broker-a"), "epoch:0", held.epoch - 1)
    assert await store.heartbeat(held) is LeaseStatus.LEASE_LOST
    with pytest.raises(StaleEpoch, match="lost epoch") as stale:
        await store.register(broker(), topics(2), held=held)
    assert stale.value.current_epoch < held.epoch
    again = await store.register(broker(), topics(2))
    assert again.epoch > held.epoch
    assert await store.heartbeat(again) is LeaseStatus.OK


async def test_replicas_of_one_name_have_owners_of_their_own(store: Store) -> None:
    master = await store.register(broker(), topics(1))
    replica = await store.register(broker(broker_id=1, address=OTHER_ADDRESS), [])
    assert await store.heartbeat(master) is LeaseStatus.OK
    assert await store.heartbeat(replica) is LeaseStatus.OK
    await store.register(broker(broker_id=1, address=OTHER_ADDRESS), [])
    assert await store.heartbeat(master) is LeaseStatus.OK
    assert await store.heartbeat(replica) is LeaseStatus.FENCED


async def test_an_epoch_is_the_time_of_the_store_in_microseconds(store: Store) -> None:
    held = await store.register(broker(), [])
    assert abs(held.epoch / 1e6 - time.time()) < 60  # one machine here: the same clock


async def test_an_epoch_is_newer_than_the_last_even_when_the_clock_went_back(
    store: Store, admin: redis.Redis
) -> None:
    first = await store.register(broker(), topics(1))
    future = first.epoch + 3_600_000_000
    admin.hset(store.keys.broker("broker-a"), "epoch:0", future)
    second = await store.register(broker(), topics(1))
    assert second.epoch == future + 1
    assert await store.heartbeat(second) is LeaseStatus.OK


async def test_an_owner_from_before_a_flush_is_fenced_by_the_one_after_it(
    store: Store, admin: redis.Redis
) -> None:
    old = await store.register(broker(), topics(2))
    admin.flushall()
    new = await store.register(broker(address=OTHER_ADDRESS), topics(1))
    assert new.epoch > old.epoch
    with unchanged(admin):
        assert await store.heartbeat(old) is LeaseStatus.FENCED
        with pytest.raises(StaleEpoch):
            await store.register(broker(), topics(5), held=old)
        with pytest.raises(StaleEpoch):
            await store.unregister(old)


async def test_a_registration_from_before_a_flush_must_be_made_anew(store: Store, admin: redis.Redis) -> None:
    old = await store.register(broker(), topics(2))
    admin.flushall()
    with pytest.raises(StaleEpoch, match="register anew"):
        await store.register(broker(), topics(2), held=old)
    with pytest.raises(StaleEpoch, match="register anew"):
        await store.unregister(old)
    assert dump(admin) == {}
    await store.register(broker(), topics(2), take_over=False)
    assert await addresses(store) == {ADDRESS}


async def test_owners_that_race_end_with_one_of_them_and_its_whole_table(
    make_store: StoreMaker, redis_url: str
) -> None:
    store = make_store(redis_url, chunk_topics=2)
    racers = [store.register(broker(), topics(10, first=100 * number)) for number in range(6)]
    results = await asyncio.gather(*racers, return_exceptions=True)
    assert {type(result) for result in results} <= {Registration, StaleEpoch}
    held = [result for result in results if isinstance(result, Registration)]
    (winner,) = [item for item in held if await store.heartbeat(item) is LeaseStatus.OK]
    assert await store.topics() == sorted(winner.topics)
    assert winner.epoch == max(item.epoch for item in held)


# --- one address, several ids ------------------------------------------------------------------------------

SLAVE = Broker("broker-a", ADDRESS, 1, "cluster-1", enable_acting_master=True)


async def test_a_fenced_agent_does_not_end_what_its_address_has_become(store: Store) -> None:
    before = await store.register(SLAVE, topics(1))
    after = await store.register(broker(), topics(1), version=DataVersion(7))
    assert await store.heartbeat(before) is LeaseStatus.FENCED
    with pytest.raises(BrokerOwned, match="another replica of the group now") as owned:
        await store.register(SLAVE, topics(1), take_over=False)
    assert (owned.value.broker_id, owned.value.owner_address) == (0, ADDRESS)
    assert await store.heartbeat(after) is LeaseStatus.OK
    assert await addresses(store) == {ADDRESS}


async def test_an_agent_that_slept_past_its_lease_does_not_stand_beside_its_successor(
    store: Store, admin: redis.Redis
) -> None:
    before = await store.register(replace(SLAVE, heartbeat_timeout_ms=50), topics(1))
    await lease_ended(store, admin, 1)
    await store.expire("broker-a", 1)
    after = await store.register(broker(), topics(1))
    assert await store.heartbeat(before) is LeaseStatus.LEASE_LOST
    with pytest.raises(StaleEpoch) as stale:
        await store.register(before.broker, topics(1), held=before)
    assert stale.value.current_epoch == after.epoch
    assert await store.heartbeat(after) is LeaseStatus.OK
    (group,) = await store.brokers()
    assert dict(group.broker_addrs) == {0: ADDRESS}


async def test_a_fenced_agent_takes_its_address_back_when_its_successor_is_dead(
    store: Store, admin: redis.Redis
) -> None:
    await store.register(SLAVE, topics(1))
    await store.register(replace(broker(), heartbeat_timeout_ms=50), topics(1))
    await lease_ended(store, admin)
    held = await store.register(SLAVE, topics(1), take_over=False)
    assert await store.heartbeat(held) is LeaseStatus.OK
    (group,) = await store.brokers()
    assert dict(group.broker_addrs) == {1: ADDRESS}
