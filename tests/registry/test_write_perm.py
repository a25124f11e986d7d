"""Wiping the write permission of a broker: at once, for all its topics, until it is lifted."""

from __future__ import annotations

import pytest

from sharedroutes.registry import ChangeKind, NotFound, TopicConfig
from tests.fix_redis import Store
from tests.registry.builders import broker, topics


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


async def test_the_owner_does_not_lose_its_table_by_a_wipe(store: Store) -> None:
    held = await store.register(broker(), topics(1))
    await store.admin.wipe_write_perm("broker-a")
    assert await store.heartbeat(held) == "ok"
