"""Brokers that are connected to fronts: one owner for all fronts, sessions, and who ends a lease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import redis

from sharedroutes.registry import Broker, BrokerWithdrawn, ChangeKind, LeaseStatus, Registration, codec, plans
from sharedroutes.registry.plans import fronts
from sharedroutes.registry.plans.fronts import Claimed, Ending, Holder, OtherAddress, Vouched
from tests.fix_redis import Store
from tests.registry.builders import OTHER_ADDRESS, broker, topics
from tests.registry.repairs import differences
from tests.support import await_until

BROKER = replace(broker(), heartbeat_timeout_ms=60_000, filter_servers=())


def joined(one: Broker, found: Vouched) -> Registration:
    return Registration(one, found.epoch, found.table_token, {}, complete=False)


class Fronts:
    """Fronts of one registry, by the plans that they run."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def live(self, *names: str, ttl_ms: int = 60_000) -> None:
        for name in names:
            await self.store.run(fronts.front_beat(self.store.config, name, ttl_ms))

    async def vouch(
        self, session: str, one: Broker = BROKER, *, anew: bool = True, silent_ms: int = 0
    ) -> fronts.Vouch:
        member = codec.encode_member(one) if anew else b""
        plan = fronts.vouch(self.store.config, one, session, anew=anew, silent_ms=silent_ms, member=member)
        found: fronts.Vouch = await self.store.run(plan)
        return found

    async def register(
        self, session: str, one: Broker = BROKER, table: Sequence[Any] = tuple(topics(2))
    ) -> Vouched:
        """Do what a front does with a registration; the reply of the vouch at the end is returned."""
        found = await self.vouch(session, one)
        assert found is None or isinstance(found, Vouched)
        joins = isinstance(found, Vouched) and found.holder is Holder.FRONTS
        await self.store.run(
            plans.register(
                self.store.config,
                one,
                {topic.topic_name: topic for topic in table},
                held=joined(one, found) if joins and isinstance(found, Vouched) else None,
                admit=False,
                joint=True,
                rest=plans.Rest.STAYS,
            )
        )
        again = await self.vouch(session, one)
        assert isinstance(again, Vouched)
        return again

    async def release(self, *sessions: str, why: Ending = Ending.CLOSED, one: Broker = BROKER) -> bool:
        done: bool = await self.store.run(fronts.release(self.store.config, one, sessions, why, why.value))
        return done

    async def is_served(self) -> bool:
        return [found.broker_name for found in await self.store.brokers()] == ["broker-a"]

    async def changes(self) -> list[ChangeKind]:
        return [change.kind for change in (await self.store.changes_since()).changes]


@pytest.fixture
def there(store: Store) -> Fronts:
    return Fronts(store)


async def test_three_fronts_and_their_broker_are_one_owner_and_repeat_nothing(there: Fronts) -> None:
    await there.live("f1", "f2", "f3")
    first = await there.register("f1.1")
    told = await there.changes()
    for session in ("f2.1", "f3.1", "f1.1"):
        found = await there.register(session)
        assert (found.epoch, found.table_token, found.holder) == (
            first.epoch,
            first.table_token,
            Holder.FRONTS,
        )
        assert found.is_same
    assert await there.changes() == told


async def test_a_closed_connection_ends_the_lease_at_once(there: Fronts) -> None:
    await there.live("f1")
    await there.register("f1.1")
    assert await there.release("f1.1")
    assert not await there.is_served()
    assert (await there.changes())[-1] is ChangeKind.DOWN
    assert not await there.release("f1.1")


async def test_a_broker_that_is_connected_to_another_front_stays(there: Fronts) -> None:
    await there.live("f1", "f2")
    await there.register("f1.1")
    await there.register("f2.1")
    assert not await there.release("f1.1")
    assert await there.is_served()
    assert await there.release("f2.1")
    assert not await there.is_served()


async def test_a_front_that_died_holds_no_broker(there: Fronts) -> None:
    await there.live("f1")
    await there.register("f1.1")
    await there.register("f2.1")  # f2 never said that it lives
    assert await there.release("f1.1")


async def test_a_front_that_drains_takes_no_broker_with_it_and_holds_none(there: Fronts) -> None:
    await there.live("f1", "f2")
    await there.register("f1.1")
    await there.live("f1", ttl_ms=0)
    assert await there.is_served()
    await there.register("f2.1")
    assert await there.release("f2.1")


async def test_a_late_end_of_an_old_connection_does_not_wipe_a_fresh_registration(there: Fronts) -> None:
    """apache/rocketmq#11043: the broker has connected anew before its old connection is seen to be closed."""
    await there.live("f1")
    await there.register("f1.1")
    await there.register("f1.2")
    assert not await there.release("f1.1")
    assert await there.is_served()


async def test_a_late_goodbye_does_not_wipe_a_process_that_was_started_meanwhile(there: Fronts) -> None:
    await there.live("f1", "f2")
    await there.register("f1.1")
    await there.register("f2.7")
    assert not await there.release("f1.1", why=Ending.GOODBYE)
    assert await there.is_served()
    assert await there.release("f2.7", why=Ending.GOODBYE)


async def test_a_goodbye_on_the_newest_connection_ends_all_older_ones(there: Fronts) -> None:
    await there.live("f1", "f2")
    await there.register("f1.1")
    await there.register("f2.1")
    assert await there.release("f2.1", why=Ending.GOODBYE)
    assert not await there.is_served()


async def test_a_goodbye_ends_an_older_connection_that_the_store_learned_of_later(there: Fronts) -> None:
    await there.live("f1")
    await there.register("f1.2")
    assert isinstance(await there.vouch("f1.1", silent_ms=60_000), Vouched)
    assert await there.release("f1.2", why=Ending.GOODBYE)


async def test_a_goodbye_on_a_connection_that_never_registered_ends_the_broker(there: Fronts) -> None:
    await there.live("f1")
    await there.register("f1.1")
    assert await there.release(why=Ending.GOODBYE)


async def test_who_leaves_at_another_address_ends_nothing(there: Fronts) -> None:
    await there.live("f1")
    await there.register("f1.1")
    former = replace(BROKER, address=OTHER_ADDRESS)
    assert isinstance(await there.vouch("f1.2", former), OtherAddress)
    assert not await there.release("f1.2", one=former, why=Ending.GOODBYE)
    assert not await there.release(one=former, why=Ending.DEAD)
    assert await there.is_served()


async def test_a_heartbeat_keeps_the_sessions_as_long_as_the_lease(there: Fronts, admin: redis.Redis) -> None:
    """A broker with acting masters sends one each second, and registers each 30 s with a lease of 10 s."""
    await there.live("f1", "f2")
    await there.register("f1.1")
    await there.register("f2.1")
    sessions = there.store.keys.sessions("broker-a", 0)
    admin.pexpire(sessions, 1_000)
    await there.vouch("", anew=False)
    assert admin.pttl(sessions) > 30_000
    assert not await there.release("f1.1")
    assert await there.is_served()


async def test_a_verdict_from_before_a_new_connection_ends_nothing(there: Fronts) -> None:
    await there.live("f1")
    await there.register("f1.1")

    def judged(ms: int) -> plans.Plan[bool]:
        return fronts.release(there.store.config, BROKER, (), Ending.DEAD, "silent", judged_ms=ms)

    assert not await there.store.run(judged(60_000))
    assert await there.is_served()
    assert await there.store.run(judged(0))


async def test_a_verdict_ends_a_session_that_is_older_although_the_store_had_lost_it(there: Fronts) -> None:
    await there.live("f1")
    await there.register("")
    assert isinstance(await there.vouch("f1.1", silent_ms=60_000), Vouched)
    plan = fronts.release(there.store.config, BROKER, (), Ending.DEAD, "silent", judged_ms=50_000)
    assert await there.store.run(plan)


async def test_a_heartbeat_of_a_broker_that_is_not_registered_brings_nothing(there: Fronts) -> None:
    assert await there.vouch("f1.1", anew=False) is None
    assert not await there.is_served()


async def test_a_lease_whose_group_lost_its_epoch_is_registered_again(
    there: Fronts, admin: redis.Redis
) -> None:
    await there.live("f1")
    await there.register("f1.1")
    admin.hdel("{sharedroutes}:broker:broker-a", "epoch:0")
    assert await there.vouch("f1.1") is None
    assert (await there.register("f1.1")).holder is Holder.FRONTS
    assert await there.is_served()


async def test_a_registration_that_is_under_way_is_waited_for(there: Fronts) -> None:
    def only_claimed() -> plans.Plan[None]:
        registering = plans.register(there.store.config, BROKER, {}, joint=True)
        batch = next(registering)
        yield batch
        registering.close()

    await there.store.run(only_claimed())
    found = await there.vouch("f1.1")
    assert isinstance(found, Claimed)
    assert found.age_ms >= 0


async def test_verify_knows_what_fronts_write_into_a_group(there: Fronts, admin: redis.Redis) -> None:
    key = there.store.keys.broker("broker-a")
    await there.register("f1.1")
    assert await differences(there.store) == []
    epoch: Any = admin.hget(key, "epoch:0")
    admin.hset(key, "joint:0", epoch + b" claimed")  # as while another front registers it
    await there.store.register(broker("broker-b"), topics(2))
    beside = replace(BROKER, broker_name="broker-b")
    assert isinstance(await there.vouch("f1.1", beside), Vouched)  # an agent's, and vouched for
    assert await differences(there.store) == []
    for field in ("joint:0", "vouched:0"):
        admin.hset(key, field, "garbage")
    assert len(await differences(there.store)) == 2


async def test_an_agent_beside_fronts_owns_the_table_and_its_heartbeats_do_not_shorten_the_lease(
    there: Fronts, admin: redis.Redis
) -> None:
    store = there.store
    held = await store.register(broker(), topics(2))
    found = await there.vouch("f1.1")
    assert isinstance(found, Vouched)
    assert found.holder is Holder.AGENT
    lease = store.keys.lease("broker-a", 0)
    assert await store.heartbeat(held) is LeaseStatus.OK
    assert admin.pttl(lease) > 30_000
    again = await store.register(broker(), topics(2))  # the agent is started anew
    assert admin.pttl(lease) > 30_000
    assert again.epoch > held.epoch


async def test_an_agent_that_dies_beside_a_broker_at_a_front_takes_nothing_out(
    there: Fronts, admin: redis.Redis
) -> None:
    store = there.store
    await there.live("f1")

    async def is_beside_an_agent() -> bool:
        await store.register(replace(broker(), heartbeat_timeout_ms=100), topics(2))
        return isinstance(await there.vouch("f1.1"), Vouched)

    await await_until(is_beside_an_agent, description="the front joins before the agent's time is over")
    group = store.keys.broker("broker-a")

    async def is_gone() -> bool:
        found = await there.vouch("f1.1")
        assert isinstance(found, Vouched)
        return found.holder is Holder.GONE

    await await_until(is_gone, description="the agent's time is over")
    assert await there.is_served()
    found = await there.register("f1.1")  # the fronts take over what the agent had
    assert found.holder is Holder.FRONTS
    assert admin.hget(group, "token") == found.table_token.encode()
    assert await there.release("f1.1")


async def test_a_closed_connection_leaves_a_broker_to_its_agent_and_to_its_agents_time(
    there: Fronts, admin: redis.Redis
) -> None:
    await there.live("f1")
    held = await there.store.register(broker(), topics(1))
    await there.vouch("f1.1")
    assert not await there.release("f1.1")
    assert 0 < admin.pttl(there.store.keys.lease("broker-a", 0)) <= there.store.config.lease_ttl_ms
    assert await there.store.heartbeat(held) is LeaseStatus.OK


async def test_what_an_agent_withdrew_no_front_brings_back(there: Fronts) -> None:
    await there.store.register(broker(), topics(1))
    await there.store.admin.withdraw(broker(), reason="drained")
    with pytest.raises(BrokerWithdrawn, match="stays out"):
        await there.register("f1.1")


async def test_the_dead_end_although_their_connections_are_open(there: Fronts) -> None:
    await there.live("f1")
    await there.register("f1.1")
    assert await there.release(why=Ending.DEAD)
    assert not await there.is_served()
    assert (await there.register("f1.1")).holder is Holder.FRONTS  # it registers again


async def test_one_front_asks_and_another_does_when_it_ends(there: Fronts) -> None:
    config, run = there.store.config, there.store.run
    assert (await run(fronts.front_beat(config, "f1", 60_000))).asks_brokers
    second = await run(fronts.front_beat(config, "f2", 60_000))
    assert (second.asks_brokers, second.fronts) == (False, ("f1", "f2"))
    await run(fronts.front_beat(config, "f1", 0))
    assert (await run(fronts.front_beat(config, "f2", 60_000))).asks_brokers


async def test_a_front_learns_that_the_store_does_not_know_it_any_more(
    there: Fronts, admin: redis.Redis
) -> None:
    config, run = there.store.config, there.store.run
    assert (await run(fronts.front_beat(config, "f1", 60_000))).is_new
    assert not (await run(fronts.front_beat(config, "f1", 60_000))).is_new
    admin.flushall()
    assert (await run(fronts.front_beat(config, "f1", 60_000))).is_new


async def test_the_brokers_that_fronts_vouch_for_are_found(there: Fronts) -> None:
    await there.register("f1.1")
    await there.store.register(broker("broker-b"), topics(1))
    (found,) = await there.store.run(fronts.watched(there.store.keys))
    assert (found.broker_name, found.address) == ("broker-a", BROKER.address)
    assert await there.store.run(fronts.id_at(there.store.keys, "broker-a", BROKER.address)) == 0
    assert await there.store.run(fronts.id_at(there.store.keys, "broker-a", OTHER_ADDRESS)) is None
