"""What rebuild and import read of an owner is not written once that owner has gone or another has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
import redis

from sharedroutes.registry import (
    ChangeKind,
    Registration,
    RegistryConfig,
    RouteStore,
    plans,
    topic_table,
)
from sharedroutes.registry.codec import encode_config
from sharedroutes.registry.plans import Batch, Call, Reads, advance
from sharedroutes.registry.plans.export_import import BrokerRecord, Counts, ImportSummary, import_record
from sharedroutes.registry.plans.repair.differences import Difference
from sharedroutes.registry.plans.repair.walk import rebuild
from sharedroutes.registry.scripts import PUT_TOPICS, SNAPSHOT
from tests.registry.builders import broker, topics
from tests.registry.probes import Crash, interrupted, observed

CONFIG: Final = RegistryConfig()
TABLE: Final = {config.topic_name: encode_config(config) for config in topics(3, queues=9)}
GROUP: Final = {"cluster": "cluster-1"}


def once(is_moment: Callable[[Batch], bool], act: Callable[[], object]) -> Callable[[Batch], None]:
    """Return what acts after the first batch that is the moment for it."""
    done: list[Batch] = []

    def look(batch: Batch) -> None:
        if not done and is_moment(batch):
            done.append(batch)
            act()

    return look


def reads(*words: str) -> Callable[[Batch], bool]:
    """Return whether a batch is reads and one of them begins with the words."""
    return lambda batch: (
        isinstance(batch, Reads) and any(command[: len(words)] == words for command in batch.commands)
    )


def is_second_look(batch: Batch) -> bool:
    """Whether a batch is the look that confirms what is wrong with member 0."""
    return isinstance(batch, Call) and batch.script is SNAPSHOT and "member:0" in batch.args


def is_put(batch: Batch) -> bool:
    return isinstance(batch, Call) and batch.script is PUT_TOPICS


def rebuilt(store: RouteStore, look: Callable[[Batch], None]) -> list[Difference]:
    stream = rebuild(CONFIG)
    found: list[Difference] = []
    while (page := store.run(observed(advance(stream), look))) is not None:
        found += page.found
    return found


def claimed(store: RouteStore) -> None:
    with pytest.raises(Crash):
        store.run(interrupted(plans.register(CONFIG, broker(), topic_table(topics(1))), 1))


GONE: Final[dict[str, Callable[[RouteStore, redis.Redis, Registration], object]]] = {
    "unregistered": lambda store, _, held: store.unregister(held),
    "ended": lambda store, admin, _: admin.delete(store.keys.lease("broker-a", 0)),
    "claimed by the next owner": lambda store, _admin, _held: claimed(store),
}


@pytest.mark.parametrize("how", GONE)
def test_a_replica_that_goes_while_it_is_mended_does_not_come_back(admin: redis.Redis, how: str) -> None:
    store = RouteStore.from_client(admin)
    held = store.register(broker(), topics(1))
    group = store.keys.broker("broker-a")
    admin.hdel(group, "member:0")
    position = store.changes_since().position
    done, *more = rebuilt(store, once(is_second_look, lambda: GONE[how](store, admin, held)))
    assert (done.kind, done.mended) == ("lease-without-member", False)
    assert "meanwhile" in done.left
    assert [found.kind for found in more] == (["deadline-overdue"] if how == "ended" else [])
    assert admin.hget(group, "member:0") is None
    assert all(change.kind is not ChangeKind.UP for change in store.changes_since(position).changes)


@pytest.mark.parametrize("queues", [8, 0], ids=["changes", "goes"])
def test_a_topic_that_its_broker_writes_while_its_row_is_mended_is_as_the_broker_wrote_it(
    admin: redis.Redis, queues: int
) -> None:
    store = RouteStore.from_client(admin)
    held = store.register(broker(), topics(1))
    index = store.keys.topic("t0")
    admin.set(index, "broker-b 1 1 6 0\nbroker-a 9 9 6 0\nbroker-a 1 1 6 0")

    def is_look(batch: Batch) -> bool:
        return isinstance(batch, Call) and batch.script is SNAPSHOT and index in batch.keys

    wanted = topics(1, queues=queues) if queues else []
    found = rebuilt(store, once(is_look, lambda: store.register(broker(), wanted, held=held)))
    assert {one.kind for one in found} == {"row-duplicate", "row-without-table"}
    assert all(one.mended for one in found)
    assert admin.get(index) == (b"broker-a 8 8 6 0" if queues else None)
    assert list(store.admin.verify()) == []


def slave_comes(store: RouteStore) -> Registration:
    return store.register(broker(broker_id=1, address="10.0.0.9:1"), [])


def imported(
    store: RouteStore, record: BrokerRecord, look: Callable[[Batch], None], *, replace_live: bool = False
) -> ImportSummary:
    summary = ImportSummary()
    plan = import_record(store.config, 2, record, summary, replace_live=replace_live)
    store.run(observed(plan, look))
    return summary


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_an_import_does_not_write_over_a_slave_that_comes_after_its_look(
    admin: redis.Redis, *, known: bool
) -> None:
    store = RouteStore.from_client(admin)
    store.unregister(store.register(broker(), topics(3)))
    if known:
        store.unregister(slave_comes(store))
    before = admin.get(store.keys.topic("t0"))
    table = admin.hgetall(store.keys.broker_topics("broker-a"))
    moment = reads("GET", store.keys.lease("broker-a", 0))
    record = BrokerRecord("broker-a", GROUP, TABLE)
    summary = imported(store, record, once(moment, lambda: slave_comes(store)))
    assert summary.brokers == Counts(refused=1)
    assert "10.0.0.9:1" in summary.refused[0].reason
    assert admin.hgetall(store.keys.broker_topics("broker-a")) == table
    assert admin.get(store.keys.topic("t0")) == before
    assert list(store.admin.verify()) == []


def test_an_import_that_may_replace_live_owners_fences_one_that_comes_after_its_look(
    admin: redis.Redis,
) -> None:
    store = RouteStore.from_client(admin)
    store.unregister(store.register(broker(), topics(3)))
    came: list[Registration] = []
    moment = reads("GET", store.keys.lease("broker-a", 0))
    record = BrokerRecord("broker-a", GROUP, TABLE)
    look = once(moment, lambda: came.append(slave_comes(store)))
    summary = imported(store, record, look, replace_live=True)
    assert summary == ImportSummary(Counts(written=1), Counts(written=3))
    assert store.heartbeat(came[0]) == "fenced"
    assert list(store.admin.verify()) == []


@pytest.mark.parametrize("stays", [True, False], ids=["stays", "goes"])
def test_an_old_version_is_not_imported_into_a_group_that_was_claimed_since(
    admin: redis.Redis, *, stays: bool
) -> None:
    store = RouteStore.from_client(admin)
    group = store.keys.broker("broker-a")
    record = BrokerRecord("broker-a", {**GROUP, "version:0": "7 7 7"}, TABLE)

    def come() -> None:
        held = store.register(broker(), topics(1))
        if not stays:
            store.unregister(held)

    imported(store, record, once(is_put, come))
    assert admin.hget(group, "version:0") is None
    again = imported(store, record, lambda _: None)
    assert again.brokers == (Counts(refused=1) if stays else Counts(written=1))
    assert admin.hget(group, "version:0") == (None if stays else b"7 7 7")


@pytest.mark.parametrize("after", range(1, 15))
def test_the_index_of_brokers_keeps_the_cluster_while_a_broker_is_imported(
    admin: redis.Redis, after: int
) -> None:
    """The export may hold no cluster: it was not readable then."""
    store = RouteStore.from_client(admin)
    store.unregister(store.register(broker(), topics(2)))
    try:
        record = BrokerRecord("broker-a", topics=TABLE)
        store.run(interrupted(import_record(store.config, 2, record, ImportSummary()), after))
    except Crash:
        pass
    assert admin.hgetall(store.keys.brokers) == {b"broker-a": b"cluster-1"}


def test_an_imported_cluster_stands_in_the_group_and_in_the_index(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin)
    store.unregister(store.register(broker(), topics(3)))
    imported(store, BrokerRecord("broker-a", {"cluster": "cluster-2"}, TABLE), lambda _: None)
    assert admin.hget(store.keys.broker("broker-a"), "cluster") == b"cluster-2"
    assert admin.hgetall(store.keys.brokers) == {b"broker-a": b"cluster-2"}
