"""What operators change: brokers and topics that are not theirs, and the key-value store."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry import (
    Broker,
    BrokerOwned,
    BrokerWithdrawn,
    ChangeKind,
    CorruptData,
    InvalidInput,
    LeaseStatus,
    NotFound,
    StaleEpoch,
    TopicConfig,
    plans,
)
from sharedroutes.registry.plans import Plan
from sharedroutes.registry.plans.leases import RESTARTED, claim
from sharedroutes.registry.plans.table import Write
from tests.fix_redis import Plant, Store
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, table, topics
from tests.registry.probes import Crash, interrupted, unchanged
from tests.registry.repairs import everything


async def withdraw(store: Store) -> bool:
    return await store.admin.withdraw(broker(), reason="drained")


async def test_a_broker_is_taken_out_whoever_has_registered_it(store: Store) -> None:
    held = await store.register(broker(), topics(1))
    assert await withdraw(store)
    assert await store.routes(["t0"]) == {}
    assert await store.heartbeat(held) is LeaseStatus.FENCED
    last = (await store.changes_since()).changes[-1]
    assert (last.kind, last.broker_name, last.reason) == (ChangeKind.DOWN, "broker-a", "drained")


async def test_nobody_registers_it_again_who_is_not_told_to(store: Store) -> None:
    await store.register(broker(), topics(1))
    await withdraw(store)
    for take_over in (True, False):
        with pytest.raises(BrokerWithdrawn, match=f"broker-a:0 at {ADDRESS} was taken out of the registry"):
            await store.register(broker(), topics(1), take_over=take_over, admit=False)
    assert await store.routes(["t0"]) == {}


async def test_who_is_told_to_ends_it_for_everybody(store: Store, admin: redis.Redis) -> None:
    await withdraw(store)
    held = await store.register(broker(), topics(1), admit=True)
    await store.unregister(held)
    await store.register(broker(), topics(1), admit=False)
    assert "t0" in await store.routes(["t0"])
    assert not admin.hexists(store.keys.broker("broker-a"), "out:0")


async def test_a_broker_that_nobody_has_registered_can_be_kept_out(store: Store) -> None:
    assert not await withdraw(store)
    assert not await withdraw(store)
    with pytest.raises(BrokerWithdrawn):
        await store.register(broker(), topics(1), admit=False)


async def test_a_registration_that_was_under_way_is_fenced(store: Store) -> None:
    held = await store.register(broker(), topics(1))
    await store.unregister(held, reason="broker gone")
    await withdraw(store)
    with pytest.raises(StaleEpoch):
        await store.register(broker(), topics(2), held=held, admit=False)


async def test_another_broker_of_the_same_name_and_id_is_left_alone(store: Store) -> None:
    await store.register(broker(address=OTHER_ADDRESS), topics(1))
    with pytest.raises(BrokerOwned, match=f"is held by {OTHER_ADDRESS}"):
        await withdraw(store)
    assert "t0" in await store.routes(["t0"])


async def test_what_the_same_address_is_under_another_id_keeps_its_lease(store: Store) -> None:
    """A registration ends it: the address has a new role. A withdrawal does not say which role it has."""
    held = await store.register(broker(), topics(1))
    await store.admin.withdraw(broker(broker_id=1), reason="drained")
    assert await store.heartbeat(held) is LeaseStatus.OK


async def test_another_broker_may_take_the_place_of_one_that_was_taken_out(store: Store) -> None:
    await withdraw(store)
    held = await store.register(broker(address=OTHER_ADDRESS), topics(1), admit=False)
    await store.unregister(held)
    with pytest.raises(BrokerWithdrawn):
        await store.register(broker(), topics(1), admit=False)


async def test_who_may_not_bring_it_back_does_not_win_against_who_may(store: Store) -> None:
    """Between the claim and the lease of who was told to resume, another agent looks."""
    await withdraw(store)
    plan = plans.register(store.config, broker(), table(1), admit=True)

    with pytest.raises(Crash):
        await store.run(interrupted(plan, 1))  # the claim
    with pytest.raises(BrokerWithdrawn):
        await store.register(broker(), topics(1), admit=False)


async def test_a_claim_that_comes_in_between_does_not_win(store: Store) -> None:
    other = Write(store.config, store.keys, broker())

    def raced(plan: Plan[bool]) -> Plan[bool]:
        batch = next(plan)
        replies = yield batch
        yield from claim(other, RESTARTED)
        try:
            while True:
                batch = plan.send(replies)
                replies = yield batch
        except StopIteration as done:
            return bool(done.value)

    await store.run(raced(plans.withdraw(store.config, broker(), reason="drained")))
    with pytest.raises(BrokerWithdrawn):
        await store.register(broker(), topics(1), admit=False)


async def test_a_look_at_the_whole_registry_finds_nothing_wrong_with_it(store: Store) -> None:
    await store.register(broker(), topics(1))
    await withdraw(store)
    assert await everything(store.admin.verify()) == []


async def perms(store: Store, topic: str = "t0") -> dict[str, int]:
    routes = await store.routes([topic])
    return {row.broker_name: row.perm for row in routes[topic].queue_datas}


async def test_a_wiped_broker_is_not_writable_and_the_others_are(store: Store) -> None:
    await store.register(broker("a"), topics(2))
    await store.register(broker("b"), topics(1))
    assert await store.admin.wipe_write_perm("a") == 2
    assert await perms(store) == {"a": 4, "b": 6}
    assert await store.admin.add_write_perm("a") == 2
    assert await perms(store) == {"a": 6, "b": 6}


async def test_a_wipe_survives_the_next_registrations_and_holds_for_new_topics(store: Store) -> None:
    held = await store.register(broker(), topics(1))
    await store.admin.wipe_write_perm("broker-a")
    assert await store.heartbeat(held) is LeaseStatus.OK
    held = await store.register(broker(), topics(2), held=held)
    assert await perms(store, "t1") == {"broker-a": 4}
    await store.unregister(held)
    await store.register(broker(), topics(2))
    assert await perms(store) == {"broker-a": 4}


async def test_lifting_gives_back_what_the_broker_itself_allows(store: Store) -> None:
    await store.register(broker(), [TopicConfig("t0", perm=4), TopicConfig("t1", perm=2)])
    await store.admin.wipe_write_perm("broker-a")
    assert await perms(store, "t1") == {"broker-a": 0}
    await store.admin.add_write_perm("broker-a")
    assert await perms(store) == {"broker-a": 4}
    assert await perms(store, "t1") == {"broker-a": 2}


async def test_each_change_of_it_is_recorded_once(store: Store) -> None:
    await store.register(broker(), topics(1))
    for _ in range(2):
        assert await store.admin.wipe_write_perm("broker-a") == 1
    for _ in range(2):
        assert await store.admin.add_write_perm("broker-a") == 1
    changes = (await store.changes_since()).changes
    assert [(change.kind, change.broker_name) for change in changes[-2:]] == [
        (ChangeKind.WIPED, "broker-a"),
        (ChangeKind.LIFTED, "broker-a"),
    ]
    assert [change.kind for change in changes].count(ChangeKind.WIPED) == 1


async def test_a_broker_that_was_never_registered_is_named(store: Store) -> None:
    for operation in (store.admin.wipe_write_perm, store.admin.add_write_perm):
        with pytest.raises(NotFound, match="broker-a"):
            await operation("broker-a")
    assert (await store.changes_since()).changes == ()


async def test_a_topic_is_deleted_everywhere_and_that_is_recorded_once(
    store: Store, admin: redis.Redis
) -> None:
    for name in ("a", "b"):
        await store.register(broker(name), topics(2))
    before = (await store.changes_since()).position
    assert await store.admin.delete_topic("t0") == ("a", "b")
    (change,) = (await store.changes_since(before)).changes
    assert (change.kind, change.removed, change.brokers) == (ChangeKind.DELETED, ("t0",), ("a", "b"))
    assert list(await store.routes(["t0", "t1"])) == ["t1"]
    assert await store.topics() == ["t1"]
    assert admin.hkeys(store.keys.broker_topics("a")) == [b"t1"]
    assert not admin.exists(store.keys.topic("t0"))


async def test_a_topic_is_deleted_in_one_cluster_only(store: Store) -> None:
    await store.register(Broker("a", "h:1", cluster="one"), topics(1))
    await store.register(Broker("b", "h:2", cluster="two"), topics(1))
    assert await store.admin.delete_topic("t0", "one") == ("a",)
    assert await store.topics(cluster="one") == []
    assert await store.topics(cluster="two") == ["t0"]
    assert await store.admin.delete_topic("t0", "three") == ()
    assert await store.topics() == ["t0"]


async def test_a_topic_that_nobody_has_changes_nothing(store: Store, admin: redis.Redis) -> None:
    await store.register(broker(), topics(1))
    with unchanged(admin):
        assert await store.admin.delete_topic("unknown") == ()


async def test_the_owner_is_told_and_brings_back_what_its_broker_still_has(store: Store) -> None:
    held = await store.register(broker(), topics(2))
    await store.admin.delete_topic("t0")
    assert await store.heartbeat(held) is LeaseStatus.TABLE_LOST
    held = await store.register(broker(), topics(2), held=held)
    assert await store.topics() == ["t0", "t1"]
    assert await store.heartbeat(held) is LeaseStatus.OK


async def test_an_owner_that_deleted_it_too_stays_without(store: Store) -> None:
    held = await store.register(broker(), topics(2))
    await store.admin.delete_topic("t1")
    held = await store.register(broker(), topics(1), held=held)
    assert await store.topics() == ["t0"]
    assert await store.heartbeat(held) is LeaseStatus.OK


async def test_the_table_of_a_dead_broker_loses_it_too(store: Store) -> None:
    held = await store.register(broker(), topics(2))
    await store.unregister(held)
    assert await store.admin.delete_topic("t0") == ("broker-a",)
    await store.register(broker(), topics(1, first=1))
    assert await store.topics() == ["t1"]


async def test_a_table_entry_without_its_row_is_deleted_too(store: Store, admin: redis.Redis) -> None:
    await store.register(broker(), topics(1))
    admin.delete(store.keys.topic("t0"))
    assert await store.admin.delete_topic("t0") == ("broker-a",)
    assert not admin.exists(store.keys.broker_topics("broker-a"))


async def test_a_name_that_can_be_no_topic_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="topic"):
        await store.admin.delete_topic("")


async def test_an_owner_whose_last_write_was_lost_is_told_too(store: Store, admin: redis.Redis) -> None:
    held = await store.register(broker(), topics(2))
    before = admin.hget(store.keys.broker("broker-a"), "token")
    held = await store.register(broker(), topics(3), held=held)
    assert before is not None
    admin.hset(store.keys.broker("broker-a"), "token", before)  # what a failover does
    admin.hdel(store.keys.broker_topics("broker-a"), "t2")
    await store.admin.delete_topic("t0")
    assert await store.heartbeat(held) is LeaseStatus.TABLE_LOST


async def test_what_was_put_is_got_and_listed(store: Store) -> None:
    assert await store.kv.put("ns", "k", "v") is True
    assert await store.kv.put("ns", "empty", "") is True
    assert await store.kv.get("ns", "k") == "v"
    assert await store.kv.entries("ns") == {"k": "v", "empty": ""}
    assert await store.kv.namespaces() == ["ns"]


async def test_what_was_never_put_is_none(store: Store) -> None:
    assert await store.kv.get("ns", "k") is None
    assert await store.kv.entries("ns") is None
    assert await store.kv.delete("ns", "k") is False


async def test_an_emptied_namespace_is_empty_and_not_unknown(store: Store) -> None:
    await store.kv.put("ns", "k", "v")
    assert await store.kv.delete("ns", "k") is True
    assert await store.kv.entries("ns") == {}


async def test_each_change_is_recorded_and_a_repetition_is_not(store: Store) -> None:
    assert [await store.kv.put("ns", "k", value) for value in ("1", "1", "2")] == [True, False, True]
    await store.kv.delete("ns", "k")
    changes = (await store.changes_since()).changes
    assert {(change.kind, change.namespace, change.key) for change in changes} == {(ChangeKind.KV, "ns", "k")}
    assert [change.reason for change in changes] == ["put", "put", "deleted"]


async def test_names_of_any_letters_are_kept_apart(store: Store) -> None:
    await store.kv.put("a:b", "c d\n", "ä")
    assert await store.kv.get("a:b", "c d\n") == "ä"
    assert await store.kv.get("a", "b:c d\n") is None


@pytest.mark.parametrize(
    ("namespace", "key", "value", "what"),
    [
        ("", "k", "v", "namespace"),
        ("ns", "", "v", "key"),
        ("n" * 1_025, "k", "v", "namespace"),
        ("ns", "k", "v" * 1_048_577, "value"),
        ("ns", "k", None, "value"),
    ],
)
async def test_what_cannot_be_put_is_named(
    store: Store, namespace: str, key: str, value: str, what: str
) -> None:
    with pytest.raises(InvalidInput, match=what):
        await store.kv.put(namespace, key, value)
    assert await store.kv.namespaces() == []


async def test_a_foreign_key_breaks_its_namespace_alone(store: Store, plant: Plant) -> None:
    plant(store.keys.kv("bad"))
    await store.kv.put("good", "k", "v")
    for operation in (store.kv.put("bad", "k", "v"), store.kv.delete("bad", "k"), store.kv.get("bad", "k")):
        with pytest.raises(CorruptData, match="kv:bad"):
            await operation
    assert await store.kv.get("good", "k") == "v"
