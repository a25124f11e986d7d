"""Whatever owners, operators, sweepers and crashes do, in whatever order: the store is as the model says.

`SHAREDROUTES_EXAMPLES=2000` looks for new sequences at random; without it the same ones run each time.
A sequence that fails is printed as Python, in its shortest form.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from sharedroutes.registry import (
    AsyncRouteStore,
    Broker,
    BrokerOwned,
    DataVersion,
    LeaseStatus,
    NotFound,
    Registration,
    RouteStore,
    StaleEpoch,
    TopicConfig,
    plans,
)
from sharedroutes.registry.scripts import PUT_TOPICS
from tests.registry.compared import Compared, Run
from tests.registry.going import CONFIG, KEYS
from tests.registry.model_of_table import SYNC_TOPIC, Answer, Copy, TableModel
from tests.registry.probes import clock_ms
from tests.support import ASKED_EXAMPLES, examples, wait_until

SHORT_TTL_MS: Final = 50
EXAMPLES: Final = 50
NAMES: Final = ("a", "aa")
TOPICS: Final = ("t0", "t1", "t:2", "{t3}", SYNC_TOPIC)
CLUSTERS: Final = ("one", "two")


def topic_configs() -> st.SearchStrategy[TopicConfig]:
    queues = st.sampled_from([1, 4])
    return st.builds(TopicConfig, st.sampled_from(TOPICS), queues, queues, st.sampled_from([6, 6, 2, 4]))


def tables() -> st.SearchStrategy[dict[str, TopicConfig]]:
    lists = st.lists(topic_configs(), max_size=5, unique_by=lambda config: config.topic_name)
    return lists.map(lambda configs: {config.topic_name: config for config in configs})


def brokers() -> st.SearchStrategy[Broker]:
    """Return few brokers, so that they are often in each other's way."""
    return st.builds(
        lambda name, host, one, cluster, acting: Broker(
            name, f"h{host}:1", one, cluster, enable_acting_master=acting
        ),
        st.sampled_from(NAMES),
        st.integers(1, 3),
        st.sampled_from([0, 0, 1, 2]),
        st.sampled_from(CLUSTERS),
        st.sampled_from([True, None, False]),
    )


def versions() -> st.SearchStrategy[DataVersion]:
    return st.sampled_from([DataVersion(), DataVersion(1, 7), DataVersion(2, 7, 1)])


PICK: Final = st.integers(0, 9)
"""Which of those there are, the latest first."""


class RegistryMachine(Compared):
    """Owners, operators and sweepers on one registry."""

    # --- owners ---------------------------------------------------------------------------------------------

    @rule(
        broker=brokers(), table=tables(), version=versions(), take_over=st.sampled_from([True, True, False])
    )
    def a_broker_registers(
        self, broker: Broker, table: dict[str, TopicConfig], version: DataVersion, *, take_over: bool
    ) -> None:
        self.registers(broker, table, None, version, take_over=take_over)

    @rule(broker=brokers(), table=tables(), version=versions(), seen=st.booleans())
    def a_broker_finds_the_owner_gone(
        self, broker: Broker, table: dict[str, TopicConfig], version: DataVersion, *, seen: bool
    ) -> None:
        refused = self.registers(broker, table, None, version, take_over=False).error
        lease = refused.lease if isinstance(refused, BrokerOwned) else None
        if lease is not None and not seen:  # the one before it
            lease = replace(lease, epoch=lease.epoch - 1)
        self.registers(broker, table, None, version, take_over=False, instead_of=lease)

    @precondition(lambda self: self.held or self.found)
    @rule(
        pick=PICK,
        table=tables(),
        version=versions(),
        cluster=st.sampled_from([None, None, *CLUSTERS]),
        found=st.booleans(),
    )
    def an_owner_registers_again(
        self,
        pick: int,
        table: dict[str, TopicConfig],
        version: DataVersion,
        cluster: str | None,
        *,
        found: bool,
    ) -> None:
        held = self.one_held(pick, found=found)
        self.registers(replace(held.broker, cluster=cluster or held.broker.cluster), table, held, version)

    def one_held(self, pick: int, *, found: bool) -> Registration:
        """Return a registration that was made, or one that was looked up if there is any."""
        held: Registration = self.picked(
            (self.found if found else self.held) or self.held or self.found, pick
        )
        return held

    @precondition(lambda self: self.held or self.found)
    @rule(pick=PICK, host=st.integers(1, 3), table=tables(), version=versions(), found=st.booleans())
    def an_owner_moves_to_another_address(
        self, pick: int, host: int, table: dict[str, TopicConfig], version: DataVersion, *, found: bool
    ) -> None:
        held = self.one_held(pick, found=found)
        self.registers(replace(held.broker, address=f"h{host}:1"), table, held, version)

    @precondition(lambda self: self.held or self.found)
    @rule(pick=PICK, topic=topic_configs(), found=st.booleans())
    def one_topic_is_registered(self, pick: int, topic: TopicConfig, *, found: bool) -> None:
        self.registers_topic(self.one_held(pick, found=found), topic)

    @precondition(lambda self: self.held or self.found)
    @rule(pick=PICK, topic=topic_configs(), found=st.booleans(), batches=st.integers(1, 3))
    def a_registration_of_one_topic_begins(
        self, pick: int, topic: TopicConfig, batches: int, *, found: bool
    ) -> None:
        self.goes_on(self.begins_topic(self.one_held(pick, found=found), topic), batches)

    @rule(
        broker=brokers(),
        table=tables(),
        version=versions(),
        again=st.booleans(),
        pick=PICK,
        batches=st.integers(1, 5),
    )
    def a_registration_begins(
        self,
        broker: Broker,
        table: dict[str, TopicConfig],
        version: DataVersion,
        pick: int,
        batches: int,
        *,
        again: bool,
    ) -> None:
        some = self.held + self.found
        held = self.picked(some, pick) if again and some else None
        broker = held.broker if held else broker
        self.goes_on(self.begins(broker, table, held, version), batches)

    @rule(
        first=brokers(),
        second=brokers(),
        several=st.lists(tables(), min_size=2, max_size=2),
        turns=st.lists(st.booleans(), min_size=4, max_size=14),
        deletes=st.booleans(),
    )
    def two_work_on_one_group_in_turns(
        self,
        first: Broker,
        second: Broker,
        several: list[dict[str, TopicConfig]],
        turns: list[bool],
        *,
        deletes: bool,
    ) -> None:
        second = replace(second, broker_name=first.broker_name)
        one = self.begins(first, several[0])
        if deletes:
            topic = next(iter(several[0]), TOPICS[0])
            other = self.begin(plans.delete_topic(CONFIG, topic), reason=topic)
            self.going.append(other)
        else:
            other = self.begins(second, several[1])
        for turn in turns:
            self.goes_on(one if turn else other, 1)

    @rule(slave=brokers(), table=tables(), acting=st.booleans())
    def a_master_comes_before_its_slave_has_brought_topics(
        self, slave: Broker, table: dict[str, TopicConfig], *, acting: bool
    ) -> None:
        """The master brings what is there already, so that only its lease is in the slave's way."""
        slave = replace(slave, broker_id=slave.broker_id or 1, enable_acting_master=acting)
        bringing = self.begins(slave, table)
        while not bringing.done and not bringing.about_to(PUT_TOPICS):
            self.goes_on(bringing, 1)
        stored = dict(self.model.group(slave.broker_name).table)
        self.registers(Broker(slave.broker_name, "h9:1"), stored, None, DataVersion(9))
        self.goes_on(bringing, 9)
        self.registers(slave, stored, None, DataVersion(9))

    @precondition(lambda self: self.model.living())
    @rule(
        pick=PICK,
        table=tables(),
        version=versions(),
        take_over=st.booleans(),
        host=st.sampled_from([None, 3]),
    )
    def a_broker_starts_where_one_lives(
        self,
        pick: int,
        table: dict[str, TopicConfig],
        version: DataVersion,
        host: int | None,
        *,
        take_over: bool,
    ) -> None:
        name, broker_id, address = self.one_living(pick)
        broker = Broker(name, f"h{host}:1" if host else address, broker_id, enable_acting_master=True)
        if take_over:  # one that goes no further for now than to claim the broker
            self.goes_on(self.begins(broker, table, None, version), 1)
            self.somebody_asks_for_an_owner(name, broker_id, version)
        self.registers(broker, table, None, version, take_over=take_over)

    def one_living(self, pick: int, least_id: int = 0) -> tuple[str, int, str]:
        """Return name, id and address of a live replica."""
        groups = self.model.living().items()
        name, one = self.picked(sorted((n, i) for n, g in groups for i in g.leases if i >= least_id), pick)
        return name, one, self.model.groups[name].leases[one][1]

    @precondition(lambda self: any(max(g.leases) for g in self.model.living().values()))
    @rule(pick=PICK, table=tables())
    def a_promotion_is_overtaken(self, pick: int, table: dict[str, TopicConfig]) -> None:
        """A slave takes the place of its master; meanwhile another one takes the slave's."""
        name, broker_id, address = self.one_living(pick, 1)
        promoted = self.begins(Broker(name, address), table)
        self.goes_on(promoted, 1)
        self.registers(Broker(name, "h9:1", broker_id), table, None, DataVersion(9))
        self.goes_on(promoted, pick)

    @precondition(lambda self: self.going)
    @rule(pick=PICK, batches=st.integers(1, 4))
    def what_was_begun_goes_on(self, pick: int, batches: int) -> None:
        self.goes_on(self.picked(self.going, pick), batches)

    @precondition(lambda self: self.going)
    @rule(pick=PICK, answer_lost=st.booleans())
    def what_was_begun_dies(self, pick: int, *, answer_lost: bool) -> None:
        going = self.picked(self.going, pick)
        self.going.remove(going)
        if answer_lost:  # the store has done it, and nobody learns of it
            self.observe(going, self.send(going.batch))
        going.plan.close()

    @precondition(lambda self: self.held)
    @rule(pick=PICK)
    def an_owner_beats(self, pick: int) -> None:
        held = self.picked(self.held + self.found, pick)
        expected = self.model.heartbeat(held.broker, held.epoch, held.table_token)
        assert self.run(plans.heartbeat(CONFIG, held)) is expected
        self.look("ok" if expected in (LeaseStatus.OK, LeaseStatus.TABLE_LOST) else "refused")

    @precondition(lambda self: self.held)
    @rule(picks=st.lists(PICK, min_size=1, max_size=2), reason=st.sampled_from(["unregistered", "stopped"]))
    def owners_unregister(self, picks: list[int], reason: str) -> None:
        for pick in picks:
            held = self.picked(self.found + self.held, pick)
            expected = self.model.unregister(held.broker, held.epoch, reason)
            try:
                self.run(plans.unregister(CONFIG, held, reason=reason))
            except StaleEpoch:
                assert expected[0] == "fenced"
            else:
                assert expected[0] != "fenced"
        self.look("ok")

    # --- time, sweepers, operators, the store itself --------------------------------------------------------

    @precondition(lambda self: self.model.living())
    @rule(count=st.integers(1, 2), picks=st.lists(PICK, min_size=2, max_size=2))
    def leases_end(self, count: int, picks: list[int]) -> None:
        living = sorted((name, one) for name, group in self.model.living().items() for one in group.leases)
        chosen = {self.picked(living, pick) for pick in picks[:count]}
        for name, broker_id in sorted(chosen):
            self.shorten(name, broker_id)
        for name, broker_id in chosen:
            self.await_end(KEYS.lease(name, broker_id))
            self.model.lease_ended(name, broker_id)
        self.ending.clear()
        self.look("ok")

    def await_end(self, key: str) -> None:
        wait_until(lambda: self.admin.pttl(key) == -2, description=f"{key} has ended")

    def shorten(self, name: str, broker_id: int) -> None:
        """Let the last heartbeat of a replica be one with a short TTL."""
        group = self.model.groups[name]
        epoch, _ = group.leases[broker_id]
        self.ending.add(KEYS.lease(name, broker_id))
        if group.epochs[broker_id] == epoch:
            silent = replace(group.members[broker_id], heartbeat_timeout_ms=SHORT_TTL_MS)
            held = Registration(replace(silent, broker_name=name), epoch, group.token or "", {})
            assert self.run(plans.heartbeat(CONFIG, held)) is LeaseStatus.OK
        else:  # fenced since: time goes by until its lease ends
            ends_ms = clock_ms(self.admin)
            self.admin.zadd(KEYS.deadlines, {KEYS.lease_member(name, broker_id): ends_ms})
            self.admin.pexpireat(KEYS.lease(name, broker_id), ends_ms)

    @rule(broker=brokers(), table=tables())
    def a_broker_registers_and_is_never_heard_of_again(
        self, broker: Broker, table: dict[str, TopicConfig]
    ) -> None:
        key = KEYS.lease(broker.broker_name, broker.broker_id)
        self.ending.add(key)
        going = self.registers(
            replace(broker, heartbeat_timeout_ms=SHORT_TTL_MS), table, None, DataVersion(), take_over=True
        )
        if going.error is None:
            self.await_end(key)
            self.model.lease_ended(broker.broker_name, broker.broker_id)
            some = self.held if going.result.complete else self.found
            some[-1] = replace(going.result, broker=broker)  # should it come back, it beats as usual
        self.ending.clear()
        self.look("ok")

    @rule(holder=st.sampled_from(["s1", "s2"]), batches=st.sampled_from([1, 2, 9]))
    def somebody_sweeps(self, holder: str, batches: int) -> None:
        due = self.model.due()
        going = self.begin(plans.sweep(CONFIG, holder), reason=holder)
        self.going.append(going)
        self.goes_on(going, batches)
        if going.done and not going.result.held:
            assert {*going.result.expired} == due
            assert self.model.due() == set()

    @precondition(lambda self: self.sweeper)
    @rule()
    def the_sweeper_is_silent_for_too_long(self) -> None:
        self.admin.pexpire(KEYS.sweeper, 1)
        self.await_end(KEYS.sweeper)
        self.sweeper = ""

    @rule(name=st.sampled_from(NAMES), broker_id=st.integers(0, 2), batches=st.integers(1, 2))
    def somebody_tells_of_an_end(self, name: str, broker_id: int, batches: int) -> None:
        going = self.begin(plans.expire(CONFIG, name, broker_id))
        self.going.append(going)
        self.goes_on(going, batches)

    @rule(name=st.sampled_from(NAMES), wiped=st.booleans())
    def the_write_permission_is_set(self, name: str, *, wiped: bool) -> None:
        expected = self.model.write_perm(name, wiped=wiped)
        try:
            assert self.run(plans.set_write_perm(CONFIG, name, writable=not wiped)) == expected[1]
        except NotFound:
            assert expected == ("unknown",)
        self.look(expected[0])

    @rule(
        topic=st.sampled_from(TOPICS),
        cluster=st.sampled_from([None, *CLUSTERS]),
        batches=st.sampled_from([2, 9]),
    )
    def a_topic_is_deleted(self, topic: str, cluster: str | None, batches: int) -> None:
        holders = self.model.holders(topic, cluster)
        going = self.begin(plans.delete_topic(CONFIG, topic, cluster), reason=topic)
        self.going.append(going)
        self.goes_on(going, batches)
        if going.done:
            assert going.result == holders
            assert self.model.holders(topic, cluster) == ()

    @rule(
        namespace=st.sampled_from(["n1", "n2"]),
        key=st.sampled_from(["k1", "k2"]),
        value=st.sampled_from([None, "", "v"]),
    )
    def a_value_is_set_or_deleted(self, namespace: str, key: str, value: str | None) -> None:
        if value is None:
            expected = self.model.kv_delete(namespace, key)
            assert self.run(plans.kv_delete(CONFIG, namespace, key)) is bool(expected[1])
        else:
            expected = self.model.kv_put(namespace, key, value)
            assert self.run(plans.kv_put(CONFIG, namespace, key, value)) is bool(expected[1])
        self.look("ok")
        known = self.model.kv.get(namespace, {}) or ({} if namespace in self.model.namespaces else None)
        assert self.run(plans.kv_list(KEYS, namespace)) == known

    @rule()
    def the_scripts_are_forgotten(self) -> None:
        self.admin.script_flush()

    @precondition(lambda self: len(self.model.groups) == len(NAMES))
    @rule(sure=st.sampled_from([False, False, True]))
    def the_store_loses_everything(self, *, sure: bool) -> None:
        if sure:
            self.admin.flushall()
            self.model, self.copy, self.position = TableModel(), Copy(), plans.ORIGIN
            self.sweeper = ""
            self.before = self.picture()

    # --- who asks ----------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), broker_id=st.integers(0, 2), version=versions())
    def somebody_asks_for_an_owner(self, name: str, broker_id: int, version: DataVersion) -> None:
        group = self.model.group(name)
        stored = group.versions.get(broker_id) if self.model.alive(name, broker_id) else None
        answer = self.run(plans.query_data_version(KEYS, name, broker_id, version))
        assert answer == (stored != version, stored)
        owner = self.run(plans.owner(KEYS, name, broker_id))
        lease = group.leases.get(broker_id)
        if lease is None or lease[0] != group.epochs[broker_id]:
            assert owner is None
        else:
            assert (owner.epoch, owner.broker.address) == lease
            assert owner.table_token == (group.token or "")
            assert not owner.complete
            self.found.append(owner)

    @rule(cluster=st.sampled_from([None, *CLUSTERS]))
    def somebody_lists(self, cluster: str | None) -> None:
        living = {n: g for n, g in self.model.living().items() if cluster in (None, g.cluster)}
        topics = {topic for group in living.values() for topic in group.table}
        assert self.run(plans.topics(KEYS, cluster)).found == sorted(topics)
        found = self.run(plans.brokers(KEYS)).found
        addresses = {data.broker_name: dict(data.broker_addrs) for data in found}
        assert addresses == {
            name: {one: address for one, (_, address) in group.leases.items()}
            for name, group in self.model.living().items()
        }

    @invariant()
    def lookups_serve_what_they_must(self) -> None:
        found = self.run(plans.lookup(KEYS, TOPICS))
        assert found.corrupt == ()
        served = {
            topic: (
                frozenset((r.broker_name, *_numbers(r)) for r in route.queue_datas),
                frozenset(map(_broker_data, route.broker_datas)),
            )
            for topic, route in found.routes().items()
        }
        assert served == self.model.routes()


def _numbers(row: Any) -> Answer:
    return (row.read_queue_nums, row.write_queue_nums, row.perm, row.topic_sys_flag)


def _broker_data(data: Any) -> Answer:
    addresses = frozenset(data.broker_addrs.items())
    return (data.broker_name, data.cluster, addresses, data.enable_acting_master, data.wiped)


@pytest.fixture(params=["blocking", "asyncio"])
def run(request: pytest.FixtureRequest, runner: asyncio.Runner, redis_url: str) -> Iterator[Run]:
    """Return what runs a plan on a store, over each face."""
    if request.param == "blocking":
        with RouteStore.from_url(redis_url, CONFIG) as store:
            yield store.run
        return
    aio = AsyncRouteStore.from_url(redis_url, CONFIG)
    yield lambda plan: runner.run(aio.run(plan))
    runner.run(aio.aclose())


@pytest.mark.timeout(600 + ASKED_EXAMPLES)  # to find the shortest sequence that fails takes minutes
def test_the_store_holds_what_the_model_says(run: Run, admin: redis.Redis) -> None:
    def machine() -> RegistryMachine:
        return RegistryMachine(run, admin)

    run_state_machine_as_test(
        machine,  # type: ignore[arg-type]  # any function that makes one
        settings=settings(
            max_examples=examples(EXAMPLES),
            stateful_step_count=30,
            derandomize=not ASKED_EXAMPLES,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
