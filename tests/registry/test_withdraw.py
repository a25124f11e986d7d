"""A broker that an operator took out stays out, whoever had registered it, until it may come back."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry import BrokerOwned, BrokerWithdrawn, ChangeKind, LeaseStatus, StaleEpoch, plans
from sharedroutes.registry.plans import Plan
from sharedroutes.registry.plans.leases import RESTARTED, claim
from sharedroutes.registry.plans.table import Write
from tests.fix_redis import Store
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, table, topics
from tests.registry.probes import Crash, interrupted
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
