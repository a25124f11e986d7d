"""What registrations once did wrong when several replicas, owners and operators met."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from sharedroutes.registry import (
    Broker,
    ChangeKind,
    DataVersion,
    LeaseStatus,
    Registration,
    RegistryError,
    plans,
)
from sharedroutes.registry.plans import Batch, Plan
from sharedroutes.registry.scripts import PUT_TOPICS
from tests.fix_redis import Store
from tests.registry.builders import table, topics
from tests.registry.probes import Crash, interrupted, one_batch, paused_before, puts, recorded, unchanged
from tests.support import await_until

MASTER = Broker("broker-a", "h:1", 0, "c", enable_acting_master=True)
SLAVE = Broker("broker-a", "h:3", 1, "c", enable_acting_master=True)
VERSION = DataVersion(3, 5, 7)

ONE_FACE = pytest.mark.parametrize("make_store", ["async"], indirect=True)


async def looked_up(store: Store, broker_id: int = 0) -> Registration:
    found = await store.owner("broker-a", broker_id)
    assert found is not None
    return found


async def resumed(store: Store, plan: Plan[Any], batch: Batch) -> Any:
    """Run a plan on to its end, from a batch on."""
    try:
        while True:
            batch = plan.send(await store.run(one_batch(batch)))
    except StopIteration as end:
        return end.value


# --- registrations that were looked up ----------------------------------------------------------------------


async def test_a_registration_that_was_looked_up_is_compared_with_the_stored_table(store: Store) -> None:
    await store.register(MASTER, topics(4))
    found, batches = await looked_up(store), list[Batch]()
    held = await store.run(recorded(plans.register(store.config, MASTER, table(3), held=found), batches))
    assert puts(batches) == [["t3"]]
    assert await store.topics() == ["t0", "t1", "t2"]
    assert held.complete


async def test_a_topic_of_an_owner_that_was_looked_up_too_early_costs_no_other_topic(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(MASTER, topics(2))
    found = await looked_up(store)
    held = await store.register(MASTER, topics(3), held=held)
    with unchanged(admin):
        with pytest.raises(RegistryError, match="look") as changed:
            await store.run(plans.register_topic(store.config, found, topics(1, first=9)[0]))
        assert type(changed.value) is RegistryError
    assert await store.heartbeat(held) is LeaseStatus.OK


@pytest.mark.parametrize(("first", "added", "changed"), [(1, (), ("t1",)), (9, ("t9",), ())])
async def test_who_looked_the_owner_up_records_a_known_topic_as_changed(
    store: Store, first: int, added: tuple[str, ...], changed: tuple[str, ...]
) -> None:
    await store.register(MASTER, topics(2))
    topic = topics(1, first=first, queues=8)[0]
    again = await store.run(plans.register_topic(store.config, await looked_up(store), topic))
    *_, record = (await store.changes_since()).changes
    assert (record.kind, record.added, record.changed) == (ChangeKind.TOPICS, added, changed)
    assert not again.complete
    assert (await store.run(plans.register_topic(store.config, again, topic))).table_token == (
        await looked_up(store)
    ).table_token


# --- slaves and their seniors -------------------------------------------------------------------------------


async def test_a_slave_registers_no_topic_while_its_master_lives(store: Store, admin: redis.Redis) -> None:
    slave = await store.register(SLAVE, topics(2))
    await store.register(MASTER, topics(2))
    with unchanged(admin), pytest.raises(RegistryError, match="lower id"):
        await store.run(plans.register_topic(store.config, slave, topics(1, first=9)[0]))


async def test_a_topic_of_a_slave_that_brought_no_table_costs_the_group_no_other_topic(
    store: Store, admin: redis.Redis
) -> None:
    master = await store.register(MASTER, topics(2))
    slave = await store.register(SLAVE, topics(2))
    await store.unregister(master)
    with unchanged(admin), pytest.raises(RegistryError, match="has changed"):
        await store.run(plans.register_topic(store.config, slave, topics(1, first=9)[0]))
    slave = await store.register(SLAVE, topics(2), held=slave)
    await store.run(plans.register_topic(store.config, slave, topics(1, first=9)[0]))
    assert await store.topics() == ["t0", "t1", "t9"]


@ONE_FACE
async def test_a_topic_of_a_slave_comes_too_late_when_its_master_has_come_back(
    store: Store, admin: redis.Redis
) -> None:
    """The master brings the table that is there, so that only its lease is in the slave's way."""
    slave = await store.register(SLAVE, topics(2))
    plan = plans.register_topic(store.config, slave, topics(1, first=9)[0])
    put = await paused_before(store, plan, PUT_TOPICS)
    await store.register(MASTER, topics(2))
    with unchanged(admin), pytest.raises(RegistryError, match="lower id"):
        await resumed(store, plan, put)


async def test_a_registration_at_an_address_ends_what_the_address_was_before(store: Store) -> None:
    master = await store.register(MASTER, topics(1))
    slave = await store.register(SLAVE, topics(1))
    moved = await store.register(Broker("broker-a", SLAVE.address, 0, "c"), topics(1), held=master)
    assert await store.heartbeat(slave) is LeaseStatus.FENCED
    assert await store.heartbeat(moved) is LeaseStatus.OK
    assert [dict(found.broker_addrs) for found in await store.brokers()] == [{0: SLAVE.address}]


@ONE_FACE
async def test_a_promotion_ends_what_its_address_became_after_the_claim(store: Store) -> None:
    promoted = plans.register(store.config, Broker("broker-a", SLAVE.address, 0, "c"), table(1))
    after_claim = promoted.send(await store.run(one_batch(next(promoted))))
    slave = await store.register(SLAVE, topics(1))
    await resumed(store, promoted, after_claim)
    assert await store.heartbeat(slave) is LeaseStatus.FENCED
    assert [dict(found.broker_addrs) for found in await store.brokers()] == [{0: SLAVE.address}]


# --- what a group remembers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["unregister", "expire", "another owner", "another id"])
async def test_the_version_of_a_table_goes_with_its_owner(store: Store, admin: redis.Redis, end: str) -> None:
    held = await store.register(SLAVE, topics(1), version=VERSION)
    assert await store.run(plans.query_data_version(store.keys, "broker-a", 1, VERSION)) == (False, VERSION)
    if end == "unregister":
        await store.unregister(held)
    elif end == "expire":
        key = store.keys.lease("broker-a", 1)
        admin.pexpire(key, 1)
        await await_until(lambda: admin.pttl(key) == -2, description=f"{key} has ended")
        assert await store.expire("broker-a", 1)
    elif end == "another owner":
        await store.register(SLAVE, topics(1))
    else:
        await store.register(Broker("broker-a", SLAVE.address, 0, "c"), topics(1))
    assert await store.run(plans.query_data_version(store.keys, "broker-a", 1, VERSION)) == (True, None)


async def test_an_owner_that_registers_again_without_a_version_keeps_the_one_it_had(store: Store) -> None:
    held = await store.register(MASTER, topics(1), version=VERSION)
    await store.register(MASTER, topics(2), held=held)
    assert await store.run(plans.query_data_version(store.keys, "broker-a", 0, VERSION)) == (False, VERSION)


async def test_the_index_of_brokers_follows_a_group_to_another_cluster(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(MASTER, topics(1))
    await store.register(Broker("broker-a", MASTER.address, 0, "d"), topics(1), held=held)
    assert admin.hgetall(store.keys.brokers) == {b"broker-a": b"d"}
    assert [found.cluster for found in await store.brokers()] == ["d"]


async def test_a_claim_that_goes_no_further_moves_no_group_to_another_cluster(
    store: Store, admin: redis.Redis
) -> None:
    await store.register(MASTER, topics(1))
    elsewhere = Broker("broker-a", SLAVE.address, 1, "d")
    with pytest.raises(Crash):
        await store.run(interrupted(plans.register(store.config, elsewhere, {}), 1))
    assert admin.hgetall(store.keys.brokers) == {b"broker-a": b"c"}


async def test_no_table_has_a_name_of_before(store: Store) -> None:
    """A slave and a master that write in turns, with an operator in between, count on."""
    names, slave = list[str](), await store.register(SLAVE, topics(3))
    names.append(slave.table_token)
    for count in (1, 2, 3):
        master = await store.register(MASTER, topics(count))
        await store.admin.delete_topic("t0")
        names += [master.table_token, (await looked_up(store)).table_token]
        await store.unregister(master)
        slave = await store.register(SLAVE, topics(count + 3), held=slave)
        names.append(slave.table_token)
    numbers = [int(name.split(".")[1]) for name in names]
    assert numbers == sorted(set(numbers))


# --- tables that change under a registration ----------------------------------------------------------------


@ONE_FACE
@pytest.mark.parametrize("again", [False, True])
async def test_a_registration_is_completed_though_the_table_changes_four_times_under_it(
    store: Store, *, again: bool
) -> None:
    held = await store.register(MASTER, topics(6))
    plan = plans.register(store.config, MASTER, table(7), held=held if again else None)
    batch: Batch = next(plan)
    for number in range(4):
        batch = await paused_before(store, plan, PUT_TOPICS, batch)
        await store.admin.delete_topic(f"t{number}")
        batch = plan.send(await store.run(one_batch(batch)))
    done = await resumed(store, plan, batch)
    assert await store.topics() == sorted(table(7))
    assert await store.heartbeat(done) is LeaseStatus.OK
    assert sorted(await store.routes([*table(7)])) == sorted(table(7))
