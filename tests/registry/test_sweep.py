"""The sweep makes the end of a lease known at once, one process at a time."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from sharedroutes.registry import EXPIRED, ChangeKind, CorruptData, RouteStore, Sweep, plans
from sharedroutes.registry.plans import Batch, Reads
from tests.fix_redis import Plant, Store, StoreMaker
from tests.registry.builders import OTHER_ADDRESS, broker, topics
from tests.registry.probes import lease_ended, observed
from tests.support import await_until


async def swept(store: Store) -> Sweep:
    """Sweep until a broker was found dead: its deadline is up to a millisecond after the end of its lease."""

    async def found_dead() -> Sweep | None:
        found: Sweep = await store.sweep("me")
        return found if found.expired else None

    dead: Sweep = await await_until(found_dead, description="a lease ends")
    return dead


async def test_an_empty_registry_has_nothing_to_wait_for(store: Store) -> None:
    assert await store.sweep("me") == Sweep(held=False, wait_s=None)


def is_until_the_lease_ends(wait_s: float | None, store: Store, admin: redis.Redis) -> bool:
    """Whether somebody who has just swept waits for the lease of broker-a, for its whole time."""
    left_s = admin.pttl(store.keys.lease("broker-a", 0)) / 1000
    return wait_s is not None and left_s <= wait_s <= 15.001  # it lives in the millisecond of its deadline


async def test_nothing_is_due_before_the_next_lease_ends(store: Store, admin: redis.Redis) -> None:
    await store.register(broker(), topics(1))
    found = await store.sweep("me")
    assert is_until_the_lease_ends(found.wait_s, store, admin)
    assert found.expired == ()


async def test_the_end_of_a_lease_is_announced_once_with_its_owner_and_its_time(
    short_lived: Store, admin: redis.Redis
) -> None:
    held = await short_lived.register(broker(), topics(1))
    deadline_ms = admin.zscore(short_lived.keys.deadlines, "broker-a:0")
    before = (await short_lived.changes_since()).position
    assert (await swept(short_lived)).expired == (("broker-a", 0),)
    assert (await short_lived.sweep("me")).expired == ()
    (change,) = (await short_lived.changes_since(before)).changes
    assert (change.kind, change.reason, change.epoch) == (ChangeKind.DOWN, EXPIRED, held.epoch)
    assert (change.broker_name, change.broker_id, change.cluster) == ("broker-a", 0, "cluster-1")
    assert change.lease_ended_ms == deadline_ms
    assert deadline_ms is not None
    assert int(change.change_id.partition("-")[0]) > deadline_ms


@pytest.mark.parametrize("score", [float("-inf"), -1.0, 0.0])
async def test_a_deadline_that_is_no_time_is_not_told(store: Store, admin: redis.Redis, score: float) -> None:
    await store.register(broker(), topics(1))
    admin.delete(store.keys.lease("broker-a", 0))
    admin.zadd(store.keys.deadlines, {"broker-a:0": score})
    assert await store.expire("broker-a", 0)
    assert (await store.changes_since()).changes[-1].lease_ended_ms is None


async def test_a_replica_that_ended_is_no_member_any_more_and_becomes_one_again(
    short_lived: Store, store: Store
) -> None:
    held = await short_lived.register(broker(), topics(1))
    await swept(short_lived)
    assert (await short_lived.lookup(["t0"])).groups["broker-a"].broker_ids == ()
    await store.register(broker(), topics(1), held=held)
    assert list(await store.routes(["t0"])) == ["t0"]


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
    assert is_until_the_lease_ends(mended.wait_s, store, admin)


async def test_one_sweeps_at_a_time_and_another_follows_when_it_falls_silent(
    make_store: StoreMaker, redis_url: str, admin: redis.Redis
) -> None:
    store = make_store(redis_url, sweeper_lease_s=10.0)
    assert not (await store.sweep("me")).held
    other = await store.sweep("other")
    assert other.held
    assert other.wait_s is not None
    assert 0 < other.wait_s <= 10.0
    assert not (await store.sweep("me")).held
    admin.pexpire(store.keys.sweeper, 20)
    await await_until(lambda: _holds(store, "other"), description="the other one sweeps")
    assert (await store.sweep("me")).held


async def test_a_sweepers_lease_that_never_ends_keeps_nobody_from_sweeping(
    make_store: StoreMaker, redis_url: str, admin: redis.Redis
) -> None:
    store = make_store(redis_url, sweeper_lease_s=10.0)
    await store.sweep("me")
    admin.persist(store.keys.sweeper)
    found = await store.sweep("other")
    assert not found.held
    assert (found.lease_before_ms, found.lease_after_ms) == (None, 10_000)
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


@pytest.mark.parametrize(
    "member",
    [
        "garbage",
        "broker-x:",
        ":",
        "broker-x:1x",
        "broker-x:" + "1" * 5_000,
        "broker-x:\u0661",
        "broker-x:00",
        b"broker-\xff:0",
    ],
    ids=lambda member: ascii(member)[:20],
)
async def test_a_deadline_of_nobody_is_reported_and_keeps_nobody_alive(
    short_lived: Store, admin: redis.Redis, member: str | bytes
) -> None:
    await short_lived.register(broker(), topics(1))
    due: dict[Any, float] = {member: 1}
    admin.zadd(short_lived.keys.deadlines, due)
    await lease_ended(short_lived, admin)
    found = await swept(short_lived)
    assert found.expired == (("broker-a", 0),)
    assert [error.key for error in found.corrupt] == [short_lived.keys.deadlines]


async def test_a_foreign_group_keeps_no_other_broker_alive(
    short_lived: Store, admin: redis.Redis, plant: Plant
) -> None:
    await short_lived.register(broker(), topics(1))
    await short_lived.register(broker("broker-b", address=OTHER_ADDRESS), topics(1))
    key = short_lived.keys.broker("broker-a")
    plant(key)
    await lease_ended(short_lived, admin)
    await lease_ended(short_lived, admin, name="broker-b")
    found = await swept(short_lived)
    assert found.expired == (("broker-b", 0),)
    assert [error.key for error in found.corrupt] == [key]


@pytest.mark.parametrize("form", ["garbage-{}", "x:00{}", "\udcff{}:0"], ids=ascii)
async def test_deaths_behind_many_members_that_cannot_be_swept_are_announced(
    short_lived: Store, admin: redis.Redis, form: str
) -> None:
    members = [form.format(number).encode(errors="surrogateescape") for number in range(250)]
    admin.zadd(short_lived.keys.deadlines, dict.fromkeys(members, 1))
    await short_lived.register(broker(), topics(1))
    await await_until(lambda: _none_alive(short_lived), description="the lease ends")
    found = await swept(short_lived)
    assert found.expired == (("broker-a", 0),)
    assert len(found.corrupt) == 250


# --- one lease ---------------------------------------------------------------------------------------------


async def test_a_live_lease_is_not_announced_as_ended(store: Store) -> None:
    await store.register(broker(), topics(1))
    before = (await store.changes_since()).position
    assert not await store.expire("broker-a", 0)
    assert (await store.changes_since(before)).changes == ()


async def test_a_lease_that_was_deleted_is_announced_once_and_before_its_deadline(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(broker(), topics(1))
    before = (await store.changes_since()).position
    admin.delete(store.keys.lease("broker-a", 0))
    assert await store.expire("broker-a", 0)
    assert not await store.expire("broker-a", 0)
    (change,) = (await store.changes_since(before)).changes
    assert (change.kind, change.reason, change.epoch) == (ChangeKind.DOWN, EXPIRED, held.epoch)
    assert await store.sweep("me") == Sweep(held=False, wait_s=None)


def test_the_end_of_a_lease_is_not_announced_for_the_owner_before(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin)
    first, lease = store.register(broker(), topics(1)), store.keys.lease("broker-a", 0)
    admin.delete(lease)

    def come_and_go(batch: Batch) -> None:
        if isinstance(batch, Reads):
            store.register(broker(), topics(1))
            admin.delete(lease)

    assert not store.run(observed(plans.expire(store.config, "broker-a", 0), come_and_go))
    assert store.expire("broker-a", 0)
    ends = [change for change in store.changes_since().changes if change.kind is ChangeKind.DOWN]
    assert [change.epoch > first.epoch for change in ends] == [True]


async def test_a_broker_that_nobody_knows_has_nothing_to_announce(store: Store, admin: redis.Redis) -> None:
    assert not await store.expire("broker-x", 7)
    assert admin.keys() == []


async def test_a_lease_that_never_ends_is_reported(
    store: Store, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    await store.register(broker(), topics(1))
    lease = store.keys.lease("broker-a", 0)
    admin.persist(lease)
    foreign_keys.append(lease)
    with pytest.raises(CorruptData, match="never ends") as raised:
        await store.expire("broker-a", 0)
    assert raised.value.key == lease
    assert list(await store.routes(["t0"])) == ["t0"]


# --- the clock ---------------------------------------------------------------------------------------------


async def test_each_look_brings_the_clock_and_the_progress_of_the_sweepers_lease(
    make_store: StoreMaker, redis_url: str
) -> None:
    store = make_store(redis_url, sweeper_lease_s=10.0)
    first = await store.sweep("me")
    assert (first.lease_before_ms, first.lease_after_ms) == (None, 10_000)
    assert first.clock_ms is not None

    async def later() -> Sweep | None:
        found: Sweep = await store.sweep("me")
        return found if (found.clock_ms or 0) >= (first.clock_ms or 0) + 50 else None

    second: Sweep = await await_until(later, description="50 ms go by on the server")
    assert second.clock_ms is not None
    assert second.lease_before_ms == second.lease_after_ms
    assert 10_000 - (second.lease_before_ms or 0) == pytest.approx(second.clock_ms - first.clock_ms, abs=5)
    assert ((await store.sweep("other")).clock_ms or 0) >= second.clock_ms


async def test_the_lease_of_the_sweeper_is_renewed_in_its_second_half(
    make_store: StoreMaker, redis_url: str, admin: redis.Redis
) -> None:
    store = make_store(redis_url, sweeper_lease_s=20.0)
    await store.sweep("me")
    first_half = await store.sweep("me")
    assert first_half.lease_before_ms == first_half.lease_after_ms
    admin.pexpire(store.keys.sweeper, 9_999)
    second_half = await store.sweep("me")
    assert second_half.lease_before_ms is not None
    assert 0 <= second_half.lease_before_ms < 10_000
    assert second_half.lease_after_ms == 20_000
