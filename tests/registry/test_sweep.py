"""The sweep makes the end of a lease known at once, one process at a time."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry import EXPIRED, ChangeKind, Sweep
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import OTHER_ADDRESS, broker, topics
from tests.support import await_until

SHORT_TTL_S = 0.06


@pytest.fixture
def short_lived(make_store: StoreMaker, redis_url: str) -> Store:
    """Return a store whose leases end soon."""
    return make_store(redis_url, lease_ttl_s=SHORT_TTL_S)


async def swept(store: Store, holder: str = "me") -> Sweep:
    """Sweep until something was found to have ended."""
    return await await_until(  # type: ignore[no-any-return]
        lambda: _swept_something(store, holder), description="a lease ends"
    )


async def _swept_something(store: Store, holder: str) -> Sweep | None:
    found = await store.sweep(holder)
    return found if found.expired or found.corrupt else None


async def test_an_empty_registry_has_nothing_to_wait_for(store: Store) -> None:
    assert await store.sweep("me") == Sweep(held=False, wait_s=None)


async def test_nothing_is_due_before_the_next_lease_ends(store: Store) -> None:
    await store.register(broker(), topics(1))
    found = await store.sweep("me")
    assert found.wait_s is not None
    assert 14 < found.wait_s <= 15
    assert found.expired == ()


async def test_the_end_of_a_lease_is_announced_once_with_its_owner(short_lived: Store) -> None:
    held = await short_lived.register(broker(), topics(1))
    before = (await short_lived.changes_since()).position
    assert (await swept(short_lived)).expired == (("broker-a", 0),)
    assert (await short_lived.sweep("me")).expired == ()
    (change,) = (await short_lived.changes_since(before)).changes
    assert (change.kind, change.reason, change.epoch) == (ChangeKind.DOWN, EXPIRED, held.epoch)
    assert (change.broker_name, change.broker_id, change.cluster) == ("broker-a", 0, "cluster-1")


async def test_a_replica_that_ended_is_no_member_any_more_and_becomes_one_again(short_lived: Store) -> None:
    held = await short_lived.register(broker(), topics(1))
    await swept(short_lived)
    assert (await short_lived.lookup(["t0"])).groups["broker-a"].broker_ids == ()
    await short_lived.register(broker(), topics(1), held=held)
    assert list(await short_lived.routes(["t0"])) == ["t0"]


async def test_only_what_has_ended_is_announced(short_lived: Store, store: Store) -> None:
    await short_lived.register(broker(), topics(1))
    await store.register(broker("broker-b", address=OTHER_ADDRESS), topics(1))
    assert (await swept(short_lived)).expired == (("broker-a", 0),)
    assert [found.broker_name for found in await store.brokers()] == ["broker-b"]


async def test_a_lease_whose_deadline_is_wrong_is_not_ended(store: Store, admin: redis.Redis) -> None:
    await store.register(broker(), topics(1))
    admin.zadd(store.keys.deadlines, {"broker-a:0": 1})
    assert (await store.sweep("me")).expired == ()
    mended = await store.sweep("me")
    assert mended.wait_s is not None
    assert 14 < mended.wait_s <= 15


async def test_one_sweeps_at_a_time_and_another_follows_when_it_falls_silent(
    make_store: StoreMaker, redis_url: str
) -> None:
    store = make_store(redis_url, sweeper_lease_s=0.1)
    assert not (await store.sweep("me")).held
    other = await store.sweep("other")
    assert other.held
    assert other.wait_s is not None
    assert 0 < other.wait_s <= 0.1
    assert not (await store.sweep("me")).held
    await await_until(lambda: _holds(store, "other"), description="the other one sweeps")
    assert (await store.sweep("me")).held


async def _holds(store: Store, holder: str) -> bool:
    return not (await store.sweep(holder)).held


async def test_many_deaths_are_announced_a_part_at_a_time(make_store: StoreMaker, redis_url: str) -> None:
    store = make_store(redis_url, lease_ttl_s=0.05)
    count = 120
    for number in range(count):
        await store.register(broker(f"broker-{number}"), [])
    await await_until(lambda: _none_alive(store), description="all leases end")
    first = await store.sweep("me")
    assert len(first.expired) == 100
    assert first.wait_s == 0
    assert len((await store.sweep("me")).expired) == count - 100


async def _none_alive(store: Store) -> bool:
    return not await store.brokers()


@pytest.mark.parametrize("member", ["garbage", "broker-x:", ":", "broker-x:1x"])
async def test_a_deadline_of_nobody_is_reported_and_keeps_nobody_alive(
    short_lived: Store, admin: redis.Redis, member: str
) -> None:
    await short_lived.register(broker(), topics(1))
    admin.zadd(short_lived.keys.deadlines, {member: 1})
    await await_until(
        lambda: not admin.exists(short_lived.keys.lease("broker-a", 0)), description="the lease ends"
    )
    found = await short_lived.sweep("me")
    assert found.expired == (("broker-a", 0),)
    assert [error.key for error in found.corrupt] == [short_lived.keys.deadlines]


async def test_a_foreign_group_keeps_no_other_broker_alive(
    short_lived: Store, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    await short_lived.register(broker(), topics(1))
    await short_lived.register(broker("broker-b", address=OTHER_ADDRESS), topics(1))
    key = short_lived.keys.broker("broker-a")
    admin.delete(key)
    admin.rpush(key, "foreign")
    foreign_keys.append(key)
    await await_until(
        lambda: (
            not admin.exists(short_lived.keys.lease("broker-a", 0), short_lived.keys.lease("broker-b", 0))
        ),
        description="both leases end",
    )
    found = await short_lived.sweep("me")
    assert found.expired == (("broker-b", 0),)
    assert [error.key for error in found.corrupt] == [key]


async def test_deaths_behind_many_members_that_cannot_be_swept_are_announced(
    short_lived: Store, admin: redis.Redis
) -> None:
    admin.zadd(short_lived.keys.deadlines, {f"garbage-{number}": 1 for number in range(250)})
    await short_lived.register(broker(), topics(1))
    await await_until(lambda: _none_alive(short_lived), description="the lease ends")
    found = await short_lived.sweep("me")
    assert found.expired == (("broker-a", 0),)
    assert len(found.corrupt) == 250
