"""Verify finds each kind of difference, nothing else, and nothing of others; rebuild mends what it can."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest
import redis

from sharedroutes.registry import Broker, LeaseStatus, NewerSchema, Progress, RegistryConfig, RouteStore
from sharedroutes.registry.keys import KEY_KINDS, Keys
from sharedroutes.registry.plans.repair.differences import Difference, DifferenceKind
from tests.fix_redis import KINDS, Store, StoreMaker
from tests.markdown import page
from tests.registry.builders import ADDRESS, broker, topics
from tests.registry.probes import clock_ms, unchanged
from tests.registry.repairs import differences, everything, register_two

KEYS: Final = Keys("sharedroutes")
TABLE_A: Final = KEYS.broker_topics("broker-a")
GROUP_A: Final = KEYS.broker("broker-a")
LEASE_A: Final = KEYS.lease("broker-a", 0)
T0: Final = KEYS.topic("t0")

OF_ALL_KINDS: Final = (
    *(T0, GROUP_A, TABLE_A, LEASE_A, KEYS.brokers, KEYS.topics, KEYS.deadlines),
    *(KEYS.changes, KEYS.namespaces, KEYS.kv("ns"), KEYS.schema, KEYS.sweeper, KEYS.hints),
)

Plant = Callable[[redis.Redis], object]


@dataclass(frozen=True, slots=True)
class Case:
    """What is planted, and what is found then."""

    plant: Plant
    found: tuple[tuple[DifferenceKind, str], ...]
    mendable: bool = True


def mendable(kind: DifferenceKind, key: str, plant: Plant) -> Case:
    return Case(plant, ((kind, key),))


def hopeless(kind: DifferenceKind, key: str, plant: Plant) -> Case:
    return Case(plant, ((kind, key),), mendable=False)


def without_lease(admin: redis.Redis, *, deadline_ms: float | None) -> None:
    admin.delete(LEASE_A)
    admin.zrem(KEYS.deadlines, "broker-a:0")
    if deadline_ms is not None:
        admin.zadd(KEYS.deadlines, {"broker-a:0": deadline_ms})


def replace(admin: redis.Redis, key: str) -> None:
    admin.delete(key)
    admin.lpush(key, "foreign")


def edit(admin: redis.Redis, old: bytes, new: bytes) -> None:
    value = admin.get(T0)
    assert isinstance(value, bytes)
    assert old in value
    admin.set(T0, value.replace(old, new))


def with_future_epoch(admin: redis.Redis) -> None:
    admin.hset(GROUP_A, "epoch:0", "7")


_K = DifferenceKind
CASES: Final[dict[str, Case]] = {
    "an index that is lost": Case(
        lambda admin: admin.delete(T0),
        ((_K.ROW_MISSING, T0), (_K.ROW_MISSING, T0), (_K.TOPIC_GONE, KEYS.topics)),
    ),
    "a row that is lost": mendable(_K.ROW_MISSING, T0, lambda admin: edit(admin, b"broker-a 4 4 6 0\n", b"")),
    "a row with other numbers": mendable(
        _K.ROW_STALE, T0, lambda admin: edit(admin, b"broker-a 4 4", b"broker-a 9 9")
    ),
    "a row with a mapping that is none of the table": mendable(
        _K.ROW_STALE,
        T0,
        lambda admin: edit(
            admin,
            b"broker-a 4 4 6 0",
            b'broker-a 4 4 6 0 {"currIdMap":{},"dirty":false,"epoch":0,"scope":"s","totalQueues":1}',
        ),
    ),
    "two rows of one broker": mendable(
        _K.ROW_DUPLICATE, T0, lambda admin: admin.append(T0, "\nbroker-a 4 4 6 0")
    ),
    "a row of a broker without the topic": mendable(
        _K.ROW_WITHOUT_TABLE,
        KEYS.topic("t2"),
        lambda admin: admin.append(KEYS.topic("t2"), "\nbroker-b 1 1 6 0"),
    ),
    "a row of an unknown broker, alone": Case(
        lambda admin: admin.set(KEYS.topic("t9"), "broker-z 1 1 6 0"),
        ((_K.ROW_WITHOUT_TABLE, KEYS.topic("t9")), (_K.TOPIC_UNLISTED, KEYS.topic("t9"))),
    ),
    "a row of a broker that is no route": mendable(
        _K.ROW_CORRUPT, T0, lambda admin: edit(admin, b"broker-a 4 4 6 0", b"broker-a 4 4 9 0")
    ),
    "a row of a broker with nothing behind its name": Case(
        lambda admin: edit(admin, b"broker-a 4 4 6 0", b"broker-a"),
        ((_K.ROW_CORRUPT, T0), (_K.ROW_MISSING, T0)),
    ),
    "a row of nobody": mendable(_K.ROW_CORRUPT, T0, lambda admin: admin.append(T0, "\n:x: y")),
    "a row that is no text": mendable(_K.ROW_CORRUPT, T0, lambda admin: admin.append(T0, b"\n\xff 1 1 6 0")),
    "an empty index": Case(
        lambda admin: admin.set(KEYS.topic("t9"), ""),
        ((_K.ROW_CORRUPT, KEYS.topic("t9")), (_K.TOPIC_UNLISTED, KEYS.topic("t9"))),
    ),
    "a topic that is not listed": mendable(
        _K.TOPIC_UNLISTED, T0, lambda admin: admin.srem(KEYS.topics, "t0")
    ),
    "a listed topic without index": mendable(
        _K.TOPIC_GONE, KEYS.topics, lambda admin: admin.sadd(KEYS.topics, "t9")
    ),
    "a listed topic that is no text": hopeless(
        _K.TOPIC_GONE, KEYS.topics, lambda admin: admin.sadd(KEYS.topics, b"\xff")
    ),
    "a broker that is not listed": mendable(
        _K.BROKER_UNLISTED, GROUP_A, lambda admin: admin.hdel(KEYS.brokers, "broker-a")
    ),
    "a listed broker without group": mendable(
        _K.BROKER_GONE, KEYS.brokers, lambda admin: admin.hset(KEYS.brokers, "broker-z", "c")
    ),
    "a namespace that is not listed": mendable(
        _K.NAMESPACE_UNLISTED, KEYS.kv("ns"), lambda admin: admin.srem(KEYS.namespaces, "ns")
    ),
    "a table whose group is lost": Case(
        lambda admin: (
            admin.delete(GROUP_A, LEASE_A, KEYS.lease("broker-a", 1)),
            admin.zrem(KEYS.deadlines, "broker-a:0", "broker-a:1"),
        ),
        ((_K.TABLE_WITHOUT_GROUP, TABLE_A),),
        mendable=False,
    ),
    "a configuration that is none": hopeless(
        _K.CONFIG_CORRUPT, TABLE_A, lambda admin: admin.hset(TABLE_A, "t0", "many")
    ),
    "an entry of a table with no name": hopeless(
        _K.CONFIG_CORRUPT, TABLE_A, lambda admin: admin.hset(TABLE_A, b"\xff", "4 4 6 0")
    ),
    "a token that is none": mendable(
        _K.FIELD_CORRUPT, GROUP_A, lambda admin: admin.hset(GROUP_A, "token", "x")
    ),
    "a version that is none": mendable(
        _K.FIELD_CORRUPT, GROUP_A, lambda admin: admin.hset(GROUP_A, "version:0", "1 2")
    ),
    "an epoch that is none": mendable(
        _K.FIELD_CORRUPT, GROUP_A, lambda admin: admin.hset(GROUP_A, "epoch:7", "x")
    ),
    "a wiped that is none": mendable(
        _K.FIELD_CORRUPT, GROUP_A, lambda admin: admin.hset(GROUP_A, "wiped", "no")
    ),
    "a member that cannot be read": mendable(
        _K.FIELD_CORRUPT, GROUP_A, lambda admin: admin.hset(GROUP_A, "member:0", "{")
    ),
    "a dead member that cannot be read": mendable(
        _K.FIELD_CORRUPT,
        GROUP_A,
        lambda admin: (
            admin.hset(GROUP_A, "member:7", "{"),
            # An end that is just over is not overdue for another two seconds.
            admin.zadd(KEYS.deadlines, {"broker-a:7": clock_ms(admin)}),
        ),
    ),
    "a cluster that is lost": mendable(
        _K.FIELD_CORRUPT, GROUP_A, lambda admin: admin.hdel(GROUP_A, "cluster")
    ),
    "a field of somebody else": hopeless(
        _K.FIELD_UNKNOWN, GROUP_A, lambda admin: admin.hset(GROUP_A, "colour", "blue")
    ),
    "a lease that is none": hopeless(
        _K.LEASE_CORRUPT, LEASE_A, lambda admin: admin.set(LEASE_A, "mine", px=60_000)
    ),
    "a lease that its group does not know": hopeless(_K.LEASE_EPOCH, LEASE_A, with_future_epoch),
    "a lease that never ends": mendable(_K.NO_TTL, LEASE_A, lambda admin: admin.persist(LEASE_A)),
    "a lease without member": mendable(
        _K.LEASE_WITHOUT_MEMBER, LEASE_A, lambda admin: admin.hdel(GROUP_A, "member:0")
    ),
    "a lease without deadline": mendable(
        _K.LEASE_WITHOUT_DEADLINE, LEASE_A, lambda admin: admin.zrem(KEYS.deadlines, "broker-a:0")
    ),
    "a dead member without deadline": mendable(
        _K.MEMBER_WITHOUT_DEADLINE, GROUP_A, lambda admin: without_lease(admin, deadline_ms=None)
    ),
    "an end that nobody told": mendable(
        _K.DEADLINE_OVERDUE, KEYS.deadlines, lambda admin: without_lease(admin, deadline_ms=1)
    ),
    "an end before all time": mendable(
        _K.DEADLINE_OVERDUE, KEYS.deadlines, lambda admin: without_lease(admin, deadline_ms=-math.inf)
    ),
    "an end that never comes": mendable(
        _K.DEADLINE_OVERDUE, KEYS.deadlines, lambda admin: without_lease(admin, deadline_ms=9e15)
    ),
    "an end that comes when nobody remembers it": mendable(
        _K.DEADLINE_OVERDUE, KEYS.deadlines, lambda admin: without_lease(admin, deadline_ms=math.inf)
    ),
    "a lease whose deadline never comes": mendable(
        _K.LEASE_WITHOUT_DEADLINE, LEASE_A, lambda admin: admin.zadd(KEYS.deadlines, {"broker-a:0": math.inf})
    ),
    "a deadline of an id that is none": hopeless(
        _K.DEADLINE_CORRUPT, KEYS.deadlines, lambda admin: admin.zadd(KEYS.deadlines, {"x:00": 9e12})
    ),
    **{
        f"a lease of the id {broker_id}, which is none": hopeless(
            _K.UNKNOWN_KEY,
            f"{KEYS.prefix}:lease:broker-a:{broker_id}",
            lambda admin, broker_id=broker_id: admin.set(  # type: ignore[misc]
                f"{KEYS.prefix}:lease:broker-a:{broker_id}", f"1 {ADDRESS}", px=60_000
            ),
        )
        for broker_id in ("007", "00", 2**63, 10**19)
    },
    "a member of an id that is none": hopeless(
        _K.FIELD_UNKNOWN, GROUP_A, lambda admin: admin.hset(GROUP_A, "member:007", "{}")
    ),
    "a deadline of nothing": hopeless(
        _K.DEADLINE_CORRUPT, KEYS.deadlines, lambda admin: admin.zadd(KEYS.deadlines, {"x": 1})
    ),
    "a schema that is lost": mendable(_K.SCHEMA, KEYS.schema, lambda admin: admin.delete(KEYS.schema)),
    "a schema that is none": hopeless(_K.SCHEMA, KEYS.schema, lambda admin: admin.set(KEYS.schema, "two")),
    "a key that would vanish": mendable(_K.UNWANTED_TTL, TABLE_A, lambda admin: admin.expire(TABLE_A, 1_000)),
    "a sweeper for ever": mendable(_K.NO_TTL, KEYS.sweeper, lambda admin: admin.set(KEYS.sweeper, "me")),
    "hints for ever": mendable(
        _K.NO_TTL, KEYS.hints, lambda admin: admin.zadd(KEYS.hints, {"broker-a client-1": math.inf})
    ),
    "a key of no kind": hopeless(
        _K.UNKNOWN_KEY, f"{KEYS.prefix}:colour", lambda admin: admin.set(f"{KEYS.prefix}:colour", "blue")
    ),
    "a topic with no name": hopeless(
        _K.UNKNOWN_KEY, KEYS.topic("a b"), lambda admin: admin.set(KEYS.topic("a b"), "x")
    ),
    **{
        f"another type in place of {key.removeprefix(KEYS.prefix)}": hopeless(
            _K.WRONG_TYPE,
            key,
            lambda admin, key=key: replace(admin, key),  # type: ignore[misc]
        )
        for key in OF_ALL_KINDS
    },
}


def test_the_description_of_the_keys_and_the_design_are_one() -> None:
    prefix = re.escape("{ns}:")
    cells = re.findall(r"^\| `.*?\|", page("design/table.md"), re.MULTILINE)
    named = re.findall(rf"`{prefix}([^`]+)`", "".join(cells))
    assert sorted(named) == sorted(kind.name for kind in KEY_KINDS)
    assert sorted((kind.type_name, kind.expires) for kind in KINDS) == sorted(
        (kind.type_name, kind.expires) for kind in KEY_KINDS
    )
    for kind in KEY_KINDS:
        key = "{ns}:" + re.sub("<id>", "7", re.sub("<(?!id)[a-z]+>", "x", kind.name))
        (known,) = (known for known in KINDS if known.pattern.fullmatch(key))
        assert (known.type_name, known.expires) == (kind.type_name, kind.expires)
        found = Keys("ns").kind_of(key)
        assert found is not None
        assert found[0] is kind


async def test_a_registry_in_order_has_no_differences(store: Store, admin: redis.Redis) -> None:
    assert await differences(store) == []
    await register_two(store)
    held = await store.register(broker("broker-c"), topics(3))
    await store.unregister(held)
    await store.sweep("me")
    await store.kv.delete("ns", "key")
    await store.admin.delete_topic("t1")
    await store.admin.wipe_write_perm("broker-a")
    await store.hint("client-1", ["broker-a"], ttl_s=60.0)
    with unchanged(admin, but=KEYS.sweeper):
        assert await differences(store) == []
        assert await everything(store.admin.rebuild()) == []


@pytest.mark.parametrize("name", CASES)
async def test_what_is_wrong_is_found_and_mended_if_it_can_be(
    store: Store, admin: redis.Redis, foreign_keys: list[str], name: str
) -> None:
    case = CASES[name]
    await register_two(store)
    case.plant(admin)
    found = await differences(store)
    assert sorted((one.kind, one.key) for one in found) == sorted(case.found), found
    assert {one.mendable for one in found} == {case.mendable}
    assert all(one.text for one in found)

    done: list[Difference] = await everything(store.admin.rebuild())
    assert {one.mended for one in done} == {case.mendable}
    left = await differences(store)
    assert left == [] if case.mendable else {(one.kind, one.key) for one in left} == {*case.found}
    with unchanged(admin):
        again = await everything(store.admin.rebuild())
        assert [one.mended for one in again] == [False] * len(left)
    if not case.mendable:
        foreign_keys += [key for _, key in case.found]


async def test_a_key_that_is_no_text_is_found(store: Store, admin: redis.Redis) -> None:
    await register_two(store)
    key = KEYS.prefix.encode() + b":topic:\xff"
    admin.set(key, "x")
    (found,) = await differences(store)
    assert (found.kind, found.key, found.mendable) == ("unknown-key", f"{KEYS.prefix}:topic:\\xff", False)
    admin.delete(key)


async def test_rebuilt_routes_are_those_of_the_brokers_tables_and_are_announced(
    store: Store, admin: redis.Redis
) -> None:
    await register_two(store)
    routes = await store.routes(["t0", "t1", "t2"])
    position = (await store.changes_since()).position
    admin.delete(*(KEYS.topic(f"t{n}") for n in range(3)), KEYS.topics)
    admin.set(KEYS.topic("t1"), "broker-a 9 9 6 0\nbroker-z 1 1 6 0")
    assert (await store.routes(["t0"])) == {}
    await everything(store.admin.rebuild())
    assert {
        name: {*route.queue_datas} for name, route in (await store.routes(["t0", "t1", "t2"])).items()
    } == {name: {*route.queue_datas} for name, route in routes.items()}
    assert await store.topics() == ["t0", "t1", "t2"]
    changes = (await store.changes_since(position)).changes
    told: dict[str, set[str]] = {}
    for change in changes:
        told.setdefault(change.broker_name, set()).update(change.added + change.changed + change.removed)
    assert told == {"broker-a": {"t0", "t1", "t2"}, "broker-b": {"t0", "t1"}, "broker-z": {"t1"}}


async def test_a_replica_that_died_untold_is_told_by_rebuild(store: Store, admin: redis.Redis) -> None:
    await register_two(store)
    without_lease(admin, deadline_ms=None)
    position = (await store.changes_since()).position
    await everything(store.admin.rebuild())
    (change,) = (await store.changes_since(position)).changes
    assert (change.kind, change.broker_name, change.broker_id, change.reason) == (
        "down",
        "broker-a",
        0,
        "expired",
    )


async def test_a_lost_member_is_seen_again_with_its_address(store: Store, admin: redis.Redis) -> None:
    await register_two(store)
    admin.hdel(GROUP_A, "member:0")
    assert (await store.brokers())[0].broker_addrs == {1: "10.0.0.9:10911"}
    await everything(store.admin.rebuild())
    assert (await store.brokers())[0].broker_addrs == {0: ADDRESS, 1: "10.0.0.9:10911"}


async def test_an_owner_whose_token_was_garbage_registers_after_rebuild(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(broker(), topics(3))
    admin.hset(GROUP_A, "token", "x")
    await everything(store.admin.rebuild())
    assert await store.heartbeat(held) == "table"
    held = await store.register(broker(), topics(3), held=held)
    assert await store.heartbeat(held) == "ok"
    assert await differences(store) == []


async def test_a_takeover_under_way_is_no_difference(store: Store, admin: redis.Redis) -> None:
    held = await store.register(broker(), topics(1))
    admin.hset(GROUP_A, "epoch:0", held.epoch + 1)
    assert await differences(store) == []


async def test_a_live_replica_whose_deadline_was_before_all_time_is_in_order(
    store: Store, admin: redis.Redis
) -> None:
    """Whoever sweeps next finds it alive, and notes when its lease ends."""
    await register_two(store)
    admin.zadd(KEYS.deadlines, {"broker-a:0": -math.inf})
    assert await differences(store) == []
    assert await everything(store.admin.rebuild()) == []


async def test_keys_of_others_are_not_looked_at(
    make_store: StoreMaker, redis_url: str, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    store = make_store(redis_url, RegistryConfig(namespace="a.b"))
    await register_two(store)
    planted = ["{aXb}:x", "{a.b}x", "a.b:x", "{a.b.c}:x"]
    for key in planted:
        admin.set(key, 1)
    foreign_keys += planted
    assert await differences(store) == []


async def test_a_newer_schema_is_refused(store: Store, admin: redis.Redis) -> None:
    await register_two(store)
    admin.set(KEYS.schema, 99)
    for look in (store.admin.verify, store.admin.rebuild, store.admin.export):
        with pytest.raises(NewerSchema):
            await everything(look())


async def test_progress_is_told_and_ends_at_its_total(store: Store) -> None:
    await store.register(broker(), topics(2_500))
    told: list[Progress] = []
    assert await everything(store.admin.verify(told.append)) == []
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert all(one.done <= one.total for one in told)
    assert told[-1].done >= 7_500
    assert len(told) > 5


class Churn:
    """Two owners, each in a thread, that change their whole tables all the time until they are stopped."""

    def __init__(self, url: str, *, unregisters: bool) -> None:
        self._url = url
        self._unregisters = unregisters
        self._stop = threading.Event()
        self._owners = [asyncio.create_task(asyncio.to_thread(self._change, number)) for number in (1, 2)]

    def _change(self, number: int) -> int:
        rounds, own = 0, broker(f"churn-{number}", address=f"10.0.1.{number}:1")
        with RouteStore.from_url(self._url, RegistryConfig(chunk_topics=50)) as store:
            held = store.register(own, topics(200))
            while not self._stop.is_set():
                rounds += 1
                wanted = topics(200, first=37 * rounds % 100, queues=1 + rounds % 4)
                held = store.register(own, wanted, held=held)
                if self._unregisters and rounds % 3 == 0:
                    store.unregister(held)
                    held = store.register(own, topics(150))
        return rounds

    async def stop(self) -> None:
        """Stop them, and see that they have changed something."""
        self._stop.set()
        assert min(await asyncio.gather(*self._owners)) > 3


async def test_registrations_while_it_looks_are_no_differences(store: Store, redis_url: str) -> None:
    """Verify, and rebuild, find nothing to say."""
    idle = Broker("broker-b", ADDRESS, heartbeat_timeout_ms=3_600_000)  # nobody renews its lease
    await store.register(idle, topics(300))
    churn, found = Churn(redis_url, unregisters=True), list[Difference]()
    for _ in range(15):
        found += await differences(store)
        found += await everything(store.admin.rebuild())
    await churn.stop()
    assert found == []
    assert await differences(store) == []


async def test_rebuild_and_registrations_at_once_end_right(
    store: Store, redis_url: str, admin: redis.Redis
) -> None:
    churn = Churn(redis_url, unregisters=False)
    for number in range(8):
        admin.delete(*(KEYS.topic(f"t{n}") for n in range(number, 250, 3)))
        admin.set(KEYS.topic(f"t{number}"), "broker-z 1 1 6 0")
        await everything(store.admin.rebuild())
    await churn.stop()
    await everything(store.admin.rebuild())
    assert await differences(store) == []
    routes = await store.routes([f"t{n}" for n in range(100, 200)])
    assert {len(route.queue_datas) for route in routes.values()} == {2}
    assert len(routes) == 100


async def test_an_owner_whose_table_was_lost_writes_it_again_after_a_rebuild(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(broker(), topics(2))
    admin.delete(store.keys.broker_topics("broker-a"))
    await everything(store.admin.rebuild())
    assert await store.heartbeat(held) is LeaseStatus.TABLE_LOST
    await store.register(broker(), topics(2), held=held)
    assert await store.topics() == ["t0", "t1"]
