"""Every operation on the table as a plan, and the keys without which it cannot do its work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import redis

from sharedroutes.registry import Broker, DataVersion, Registration, RegistryConfig, TopicConfig, plans
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import ORDER_TOPIC_CONFIG, Plan, fronts
from sharedroutes.registry.plans.overview import Overview, overview
from tests.fix_redis import Store
from tests.registry.builders import OTHER_ADDRESS, broker, table, topics
from tests.support import await_until

KEYS: Final = Keys("sharedroutes")
DEAD: Final = ("broker-c", 0)
KINDS_OF_KEYS: Final = {
    "index": KEYS.topic("t0"),
    "group": KEYS.broker("broker-a"),
    "table": KEYS.broker_topics("broker-a"),
    "lease": KEYS.lease("broker-a", 0),
    "deadlines": KEYS.deadlines,
    "brokers": KEYS.brokers,
    "topics": KEYS.topics,
    "changes": KEYS.changes,
    "sweeper": KEYS.sweeper,
    "schema": KEYS.schema,
    "namespaces": KEYS.namespaces,
    "values": KEYS.kv(ORDER_TOPIC_CONFIG),
    "hints": KEYS.hints,
}
"""One key of each kind, by what it is called here."""


@dataclass(frozen=True)
class Prepared:
    """A store on which broker-a and broker-b live, a value is set, and a hint given."""

    config: RegistryConfig
    held: Registration


async def prepared(store: Store) -> Prepared:
    held = await store.register(broker(), topics(2))
    await store.register(broker("broker-b", address=OTHER_ADDRESS), topics(2))
    await store.kv.put(ORDER_TOPIC_CONFIG, "t0", "broker-a:4")
    await store.hint("client-1", ["broker-b"], ttl_s=60.0)
    return Prepared(store.config, held)


async def with_a_dead_one(store: Store, admin: redis.Redis) -> None:
    """Register broker-c, and wait until its lease has ended."""
    await store.register(Broker(DEAD[0], "h:3", heartbeat_timeout_ms=50), topics(2))
    await await_until(lambda: admin.pttl(KEYS.lease(*DEAD)) == -2, description="its lease has ended")


@dataclass(frozen=True)
class Operation:
    """One operation."""

    plan: Callable[[Prepared], Plan[Any]]
    needs: frozenset[str]
    """The kinds of keys that it complains about when they are foreign."""

    writes: bool
    needs_dead: bool = False
    """Whether it is about a broker whose lease has ended."""


def _op(plan: Callable[[Prepared], Plan[Any]], *needs: str, writes: bool = False) -> Operation:
    return Operation(plan, frozenset(needs), writes)


def _read(plan: Callable[[], Plan[Any]], *needs: str) -> Operation:
    return Operation(lambda _: plan(), frozenset(needs), writes=False)


def _dead(plan: Callable[[Prepared], Plan[Any]], *needs: str) -> Operation:
    return Operation(plan, frozenset(needs), writes=True, needs_dead=True)


def _slave() -> Broker:
    return replace(broker(broker_id=1, address="h:4"), enable_acting_master=True)


_TOPIC: Final = TopicConfig("t9")
_TABLE: Final = ("group", "table")
_OF_A_TOPIC: Final = ("index", "table", "brokers", "topics", "schema")

OPERATIONS: Final[dict[str, Operation]] = {
    "register": _op(
        lambda p: plans.register(p.config, broker(), table(3)),
        *(*_TABLE, "lease"),
        writes=True,
    ),
    "register again": _op(
        lambda p: plans.register(p.config, broker(), table(3), held=p.held),
        *(*_TABLE, "lease"),
        writes=True,
    ),
    "register a slave": _op(
        lambda p: plans.register(p.config, _slave(), table(3)),
        *_TABLE,
        writes=True,
    ),
    "register one topic": _op(lambda p: plans.register_topic(p.config, p.held, _TOPIC), *_TABLE, writes=True),
    "heartbeat": _op(lambda p: plans.heartbeat(p.config, p.held), "group", writes=True),
    "unregister": _op(
        lambda p: plans.unregister(p.config, p.held),
        *("group", "lease"),
        writes=True,
    ),
    "expire": _dead(lambda p: plans.expire(p.config, *DEAD)),
    "sweep": _dead(lambda p: plans.sweep(p.config, "me"), "sweeper"),
    "wipe": _op(
        lambda p: plans.set_write_perm(p.config, "broker-a", writable=False),
        *_TABLE,
        writes=True,
    ),
    "lift": _op(
        lambda p: plans.set_write_perm(p.config, "broker-a", writable=True),
        *_TABLE,
        writes=True,
    ),
    "delete a topic": _op(lambda p: plans.delete_topic(p.config, "t0"), *_OF_A_TOPIC, "group", writes=True),
    "set a value": _op(
        lambda p: plans.kv_put(p.config, ORDER_TOPIC_CONFIG, "t0", "x"),
        *("values", "namespaces", "schema"),
        writes=True,
    ),
    "delete a value": _op(
        lambda p: plans.kv_delete(p.config, ORDER_TOPIC_CONFIG, "t0"),
        *("values", "schema"),
        writes=True,
    ),
    "record settings": _op(
        lambda p: plans.record_settings(p.config, {"enableTopicList": "false"}), "schema", writes=True
    ),
    "give a hint": _op(lambda _: plans.hint(KEYS, "client-2", ["broker-a"], 60.0), "hints", writes=True),
    "say that a front lives": _op(lambda p: fronts.front_beat(p.config, "f1", 60_000), writes=True),
    "vouch": _op(
        lambda p: fronts.vouch(p.config, broker(), "f1.1", anew=True), "group", "lease", writes=True
    ),
    "release": _op(
        lambda p: fronts.release(p.config, broker(), ["f1.1"], fronts.Ending.CLOSED, "closed"),
        *("group", "lease"),
        writes=True,
    ),
    "overview": _read(lambda: overview(KEYS)),
    "get hints": _read(lambda: plans.hints(KEYS), "hints"),
    "look up": _read(lambda: plans.lookup(KEYS, ["t0", "t1"])),
    "list topics": _read(lambda: plans.topics(KEYS), "brokers", "topics"),
    "list topics of a cluster": _read(lambda: plans.topics(KEYS, "cluster-1"), "brokers", "topics"),
    "list system topics": _read(lambda: plans.system_topics(KEYS), "brokers"),
    "whole table": _read(lambda: plans.whole_table(KEYS), "brokers", "topics"),
    "list brokers": _read(lambda: plans.brokers(KEYS), "brokers"),
    "cluster info": _read(lambda: plans.cluster_info(KEYS), "brokers"),
    "member group": _read(lambda: plans.member_group(KEYS, "broker-a"), "group"),
    "owner": _read(lambda: plans.owner(KEYS, "broker-a", 0), "group", "lease"),
    "data version": _read(lambda: plans.query_data_version(KEYS, "broker-a", 0, DataVersion()), "group"),
    "changes": _read(lambda: plans.changes_since(KEYS, plans.ORIGIN), "changes"),
    "last change": _read(lambda: plans.last_change_id(KEYS), "changes"),
    "history": _read(lambda: plans.history(KEYS, plans.HistoryRange()), "changes"),
    "bounds of the history": _read(lambda: plans.history_bounds(KEYS), "changes"),
    "get a value": _read(lambda: plans.kv_get(KEYS, ORDER_TOPIC_CONFIG, "t0"), "values"),
    "get values": _read(lambda: plans.kv_list(KEYS, ORDER_TOPIC_CONFIG), "values"),
    "get namespaces": _read(lambda: plans.kv_namespaces(KEYS), "namespaces"),
}


def _lasting(result: fronts.Vouched | Overview | plans.HistoryBounds) -> Any:
    if isinstance(result, fronts.Vouched):
        return (result.holder, result.is_same)
    if isinstance(result, Overview):
        return (result.brokers, result.topics, result.table, result.leases, result.hints)
    return (result.entries, result.written)


def outcome(result: Any) -> Any:
    """Return what an operation answered, without what differs each time: epochs, tokens, ids and clocks."""
    if isinstance(result, Registration):
        return (result.broker, dict(result.topics), result.corrupt_keys, result.master_address)
    if isinstance(result, plans.ChangePage):
        return [(change.kind, change.broker_name, change.added) for change in result.changes]
    if isinstance(result, fronts.Vouched | Overview | plans.HistoryBounds):
        return _lasting(result)
    if isinstance(result, list) and result and isinstance(result[0], plans.HistoryPage):
        return [(len(page.records), page.lost, page.complete) for page in result]
    if hasattr(result, "clock_ms"):
        return (result.held, result.expired, result.corrupt)
    return result if not isinstance(result, str) or "-" not in result else "an id"
