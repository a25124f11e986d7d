"""The sizes that the registry promises: topics of one broker, brokers, the length of names.

The large tables get a server of their own: the guard of the shared one would look at every key.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.registry import (
    EXPIRED,
    Broker,
    Change,
    ChangeKind,
    EmbeddedServer,
    InvalidInput,
    LeaseStatus,
    QueueMapping,
    Registration,
    RegistryConfig,
    RouteStore,
    TopicConfig,
    plans,
)
from sharedroutes.registry.codec import encode_config
from sharedroutes.registry.connection.replies import normal
from sharedroutes.registry.plans import ORIGIN, Batch, Call, Plan
from sharedroutes.registry.plans.table import TableDifference
from tests.fix_redis import Store
from tests.registry.builders import table, topics
from tests.registry.probes import SCRIPTS, one_by_one
from tests.support import wait_until

T = TypeVar("T")

MANY_TOPICS: Final = 100_000
MANY_BROKERS: Final = 10_000
TOPICS_EACH: Final = 3
AT_ONCE: Final = 1_000
LONGEST: Final = ("n" * 255, "é" * 127 + "n")
"""Names of 255 bytes."""

PATIENT: Final = RegistryConfig(lease_ttl_s=3_600)


def all_changes(store: RouteStore, position: str = ORIGIN) -> Iterator[Change]:
    """Return what was written after a position."""
    complete = False
    while not complete:
        page = store.changes_since(position)
        assert not page.lost
        assert not page.corrupt
        yield from page.changes
        position, complete = page.position, page.complete


def last_position(store: RouteStore) -> str:
    return store.run(plans.last_change_id(store.keys))


# One broker with very many topics.


@pytest.mark.long
def test_a_broker_has_a_hundred_thousand_topics(own_server: EmbeddedServer) -> None:
    with RouteStore.from_url(own_server.url, PATIENT) as store:
        whole = table(MANY_TOPICS)
        broker = Broker("broker-a", "10.0.0.1:10911")
        held = store.register(broker, whole)
        assert len(store.topics()) == MANY_TOPICS
        assert store.heartbeat(held) is LeaseStatus.OK

        some = random.Random(1).sample(list(whole), 2_500)
        routes = store.routes(some)
        assert {name: route.queue_datas[0].write_queue_nums for name, route in routes.items()} == {
            name: whole[name].write_queue_nums for name in some
        }

        before = last_position(store)
        changed = {**whole, "t7": replace(whole["t7"], perm=4), "new": TopicConfig("new")}
        del changed["t99999"]
        held = store.register(broker, changed, held=held)
        (record,) = all_changes(store, before)
        assert (record.added, record.changed, record.removed) == (("new",), ("t7",), ("t99999",))
        assert store.routes(["t99999"]) == {}

        assert store.unregister(held)
        assert store.topics() == []


@pytest.mark.long
def test_a_restart_finds_a_hundred_thousand_topics_and_writes_none(own_server: EmbeddedServer) -> None:
    with RouteStore.from_url(own_server.url, PATIENT) as store:
        broker = Broker("broker-a", "10.0.0.1:10911")
        store.unregister(store.register(broker, table(MANY_TOPICS)))
        before = last_position(store)
        held = store.register(broker, table(MANY_TOPICS))
        assert [change.kind for change in all_changes(store, before)] == [ChangeKind.UP]
        assert store.heartbeat(held) is LeaseStatus.OK


@pytest.mark.long
def test_a_hundred_thousand_topics_are_removed_and_leave_no_key(own_server: EmbeddedServer) -> None:
    with RouteStore.from_url(own_server.url, PATIENT) as store, client_of(own_server) as client:
        broker = Broker("broker-a", "10.0.0.1:10911")
        held = store.register(broker, table(MANY_TOPICS))
        store.register(broker, {}, held=held)
        assert store.topics() == []
        assert list(client.scan_iter(match=f"{store.keys.topic('')}*", count=10_000)) == []
        assert not client.exists(store.keys.topics, store.keys.broker_topics("broker-a"))


# Very many brokers.


@contextmanager
def client_of(server: EmbeddedServer) -> Iterator[redis.Redis]:
    """Return a plain client of a server that knows all scripts."""
    with redis.Redis.from_url(server.url) as client:
        for script in SCRIPTS:
            client.script_load(script.source)
        yield client


def run_together(client: redis.Redis, of: Sequence[Plan[T]]) -> list[T]:
    """Run many plans in step, a call or the commands of each in one round trip."""
    done: dict[int, T] = {}
    plans_of_all = [one_by_one(plan) for plan in of]
    waiting = {number: next(plan) for number, plan in enumerate(plans_of_all)}
    while waiting:
        replies = iter(_send(client, list(waiting.values())))
        for number, batch in list(waiting.items()):
            count = 1 if isinstance(batch, Call) else len(batch.commands)
            try:
                waiting[number] = plans_of_all[number].send([normal(next(replies)) for _ in range(count)])
            except StopIteration as end:
                del waiting[number]
                done[number] = end.value
    return [done[number] for number in range(len(of))]


def _send(client: redis.Redis, batches: Sequence[Batch]) -> list[Any]:
    pipeline: Any = client.pipeline(transaction=False)
    for batch in batches:
        if isinstance(batch, Call):
            pipeline.execute_command("EVALSHA", batch.script.sha, len(batch.keys), *batch.keys, *batch.args)
        else:
            for command in batch.commands:
                pipeline.execute_command(*command)
    replies: list[Any] = pipeline.execute(raise_on_error=False)
    return replies


def in_parts(client: redis.Redis, plan: Callable[[int], Plan[T]]) -> list[T]:
    """Run one plan for each of the many brokers."""
    numbers = range(MANY_BROKERS)
    return [
        result
        for start in range(0, MANY_BROKERS, AT_ONCE)
        for result in run_together(client, [plan(number) for number in numbers[start : start + AT_ONCE]])
    ]


def register_many(client: redis.Redis) -> list[Registration]:
    """Register the brokers b0, b1, ...; the n-th has the topics t<n>, t<n + 1>, t<n + 2>."""

    def register(number: int) -> Plan[Registration]:
        broker = Broker(f"b{number}", f"10.{number // 250}.0.{number % 250}:10911", 0, f"c{number % 8}")
        mine = {config.topic_name: config for config in topics(TOPICS_EACH, first=number)}
        return plans.register(PATIENT, broker, mine)

    return in_parts(client, register)


@pytest.mark.long
def test_ten_thousand_brokers_and_their_topics_are_listed(own_server: EmbeddedServer) -> None:
    with client_of(own_server) as client, RouteStore.from_url(own_server.url, PATIENT) as store:
        held = register_many(client)
        assert {broker.broker_name for broker in store.brokers()} == {f"b{n}" for n in range(MANY_BROKERS)}
        assert len(store.topics()) == MANY_BROKERS + TOPICS_EACH - 1
        clusters = store.cluster_info().clusters
        assert {name: len(members) for name, members in clusters.items()} == {
            f"c{number}": MANY_BROKERS // 8 for number in range(8)
        }
        found = store.lookup(["t5000"])
        assert {*found.alive} == {"b4998", "b4999", "b5000"}

        # A client that knows them all reads all their leases at each look.
        known = store.lookup([f"t{number}" for number in range(MANY_BROKERS)]).groups
        assert len(known) == MANY_BROKERS
        assert len(store.lookup(["t5000"], known).alive) == MANY_BROKERS

        assert store.unregister(held[5_000])
        assert {*store.lookup(["t5000"], known).routes()["t5000"].broker_datas} == {
            data for data in store.brokers() if data.broker_name in ("b4998", "b4999")
        }


@pytest.mark.long
def test_ten_thousand_brokers_that_die_together_are_announced_once_each(own_server: EmbeddedServer) -> None:
    soon = replace(PATIENT, lease_ttl_s=0.5, sweeper_lease_s=0.05)
    pause = threading.Event()
    with client_of(own_server) as client, RouteStore.from_url(own_server.url, soon) as store:
        held = register_many(client)
        before = last_position(store)
        in_parts(client, lambda number: plans.heartbeat(soon, held[number]))
        leases = f"{store.keys.prefix}:lease:*"
        wait_until(
            lambda: not any(client.exists(key) for key in client.scan_iter(match=leases, count=10_000)),
            description="the last lease has ended",
        )

        def sweep(holder: str) -> Counter[str]:
            """Sweep until no lease is left, as an agent does; its turn is so short that the two overlap."""
            announced: Counter[str] = Counter()
            while client.zcard(store.keys.deadlines):
                found = store.sweep(holder)
                announced.update(name for name, _ in found.expired)
                if found.held:
                    pause.wait(found.wait_s)
            return announced

        with ThreadPoolExecutor() as pool:
            swept = sum(pool.map(sweep, ("one", "other")), Counter())
        names = Counter(f"b{number}" for number in range(MANY_BROKERS))
        assert swept == names
        changes = list(all_changes(store, before))
        assert Counter(change.broker_name for change in changes) == names
        assert {(change.kind, change.reason) for change in changes} == {(ChangeKind.DOWN, EXPIRED)}
        assert store.brokers() == []


# Names.


@pytest.mark.parametrize("name", LONGEST, ids=["ascii", "two bytes a letter"])
async def test_the_longest_names_are_registered_found_and_listed(store: Store, name: str) -> None:
    address, other = f"{'h' * 249}:10911", f"{'s' * 249}:10911"
    held = await store.register(Broker(name, address, 0, name, address), [TopicConfig(name)])
    slave = await store.register(Broker(name, other, 2**63 - 1, name, other), [])
    assert await store.heartbeat(held) is LeaseStatus.OK
    assert await store.heartbeat(slave) is LeaseStatus.OK
    (data,) = (await store.routes([name]))[name].broker_datas
    assert (data.broker_name, data.cluster, data.broker_addrs) == (
        name,
        name,
        {0: address, 2**63 - 1: other},
    )
    assert await store.topics() == [name]
    assert await store.unregister(held)


LONGEST_ADDRESSES: Final = [f"{'h' * 249}:10911"]


@pytest.mark.parametrize(
    ("what", "make", "longest"),
    [
        ("topicName", TopicConfig, LONGEST),
        ("brokerName", lambda name: Broker(name, "10.0.0.1:10911"), LONGEST),
        ("brokerClusterName", lambda name: Broker("b", "10.0.0.1:10911", cluster=name), LONGEST),
        ("brokerAddr", lambda address: Broker("b", address), LONGEST_ADDRESSES),
        ("haServerAddr", lambda address: Broker("b", "h:1", ha_address=address), LONGEST_ADDRESSES),
    ],
)
def test_one_byte_more_than_the_longest_name_or_address_is_refused(
    what: str, make: Callable[[str], object], longest: Sequence[str]
) -> None:
    for text in longest:
        make(text)
        with pytest.raises(InvalidInput, match=f"^{what}: .* has 256 bytes, the limit is 255"):
            make("n" + text)


def test_attributes_and_mapped_queues_of_one_topic_are_limited() -> None:
    TopicConfig("t", attributes={"k": "v" * 65_535})
    with pytest.raises(InvalidInput, match="attributes of topic 't': 65537 bytes, the limit is 65536"):
        TopicConfig("t", attributes={"k": "v" * 65_536})
    QueueMapping(4_096, 1, {queue: queue for queue in range(4_096)})
    with pytest.raises(InvalidInput, match=r"currIdMap: 4097 is not within 0\.\.4096"):
        QueueMapping(4_097, 1, {queue: queue for queue in range(4_097)})


@given(st.integers(0, 7), st.integers(0, 7), st.integers(0, 7), st.integers(1, 9))
def test_a_difference_is_cut_into_full_parts_without_losing_any(
    added: int, changed: int, removed: int, size: int
) -> None:
    new = dict.fromkeys(table(added), b"4 4 6 0")
    whole = TableDifference(new, {f"c{n}": b"8 8 6 0" for n in range(changed)}, ["r"] * removed)
    parts = list(whole.chunks(size))
    assert [name for part in parts for name in (*part.added, *part.changed, *part.removed)] == [
        *whole.added,
        *whole.changed,
        *whole.removed,
    ]
    sizes = [*map(len, parts)]
    assert all(found == size for found in sizes[:-1])
    assert all(0 < found <= size for found in sizes)


def test_a_difference_is_cut_by_its_bytes_too() -> None:
    topics = {f"t{n}": encode_config(TopicConfig(f"t{n}", attributes={"k": "v" * 60_000})) for n in range(12)}
    assert [len(part.added) for part in TableDifference(topics).chunks(500)] == [5, 5, 2]
