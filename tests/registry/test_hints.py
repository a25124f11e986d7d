"""Hints: who cannot reach whom, for a short time, within bounds."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import redis
from hypothesis import given

from sharedroutes.registry import EmbeddedServer, InvalidInput, RouteStore, plans
from sharedroutes.registry.acl import Role, acl_rules
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans.client_hints import MAX_HINTS_OF_A_BROKER, MAX_HINTS_OF_A_CLIENT
from tests.fix_redis import Store
from tests.registry.builders import broker, broker_names, names, topics
from tests.registry.probes import clock_ms, dump
from tests.support import await_until

KEY = Keys("sharedroutes").hints
MAX_HINTS = 512
LONGEST_S = 60


async def give(store: Store, *brokers: str, by: str = "client-1", ttl_s: float = 60.0) -> dict[str, str]:
    return await store.hint(by, brokers, ttl_s=ttl_s)


async def test_hints_are_told_by_broker_with_who_gave_them(store: Store) -> None:
    assert await store.hints() == {}
    assert await give(store, "a", "b") == {}
    assert await give(store, "b", by="client-2") == {}
    assert await store.hints() == {"a": {"client-1"}, "b": {"client-1", "client-2"}}


async def test_what_a_client_says_replaces_what_it_said_and_nothing_withdraws_all(
    store: Store, admin: redis.Redis
) -> None:
    await give(store, "a", "b")
    await give(store, "b", by="client-2")
    await give(store, "b", "c")
    assert await store.hints() == {"b": {"client-1", "client-2"}, "c": {"client-1"}}
    await give(store)
    assert await store.hints() == {"b": {"client-2"}}
    await give(store, by="client-2")
    assert admin.exists(KEY) == 0
    assert await give(store) == {}


async def test_saying_it_again_changes_nothing_but_its_end(store: Store, admin: redis.Redis) -> None:
    await give(store, "a", ttl_s=10.0)
    first_ms = admin.zscore(KEY, "a client-1")
    await give(store, "a")
    assert await store.hints() == {"a": {"client-1"}}
    assert (admin.zscore(KEY, "a client-1") or 0) >= (first_ms or 0) + 50_000


async def test_a_hint_ends_by_the_servers_clock_and_nothing_outlives_the_last_one(
    store: Store, admin: redis.Redis
) -> None:
    await give(store, "a", ttl_s=0.1)
    await give(store, "b", by="client-2", ttl_s=50.0)
    assert 20_000 < admin.pttl(KEY) <= 50_000
    await give(store, "c", by="client-3", ttl_s=20.0)  # a shorter one does not shorten the others
    assert 20_000 < admin.pttl(KEY) <= 50_000

    async def without_a() -> bool:
        return await store.hints() == {"b": {"client-2"}, "c": {"client-3"}}

    await await_until(without_a, description="the first one has ended")
    assert admin.zscore(KEY, "a client-1") is not None  # unread, not yet removed
    await give(store, by="client-2")
    assert admin.zrange(KEY, 0, -1) == [b"c client-3"]
    assert 0 < admin.pttl(KEY) <= 20_000
    await give(store, "c", by="client-3", ttl_s=0.1)
    await await_until(lambda: not admin.exists(KEY), description="the last one has ended")


async def test_enough_voices_name_a_broker_and_more_are_not_taken(store: Store) -> None:
    for number in range(MAX_HINTS_OF_A_BROKER):
        assert await give(store, "a", by=f"client-{number}") == {}
    assert await give(store, "a", "b", by="late") == {"a": "enough others name it"}
    assert len((await store.hints())["a"]) == MAX_HINTS_OF_A_BROKER
    assert (await store.hints())["b"] == {"late"}
    assert await give(store, "a", by="client-0") == {}  # one of them may go on


async def test_a_full_set_takes_no_more_until_some_end(store: Store, admin: redis.Redis) -> None:
    end_ms = clock_ms(admin) + 50_000
    admin.zadd(KEY, {f"b{number} c": end_ms for number in range(MAX_HINTS - 2)})
    assert await give(store, "x", "y", "z") == {"z": "there are too many hints"}
    assert admin.zcard(KEY) == MAX_HINTS
    assert await give(store, "y", "z") == {}  # its own make room for each other
    admin.zadd(KEY, {"b0 c": clock_ms(admin) - 1})
    assert await give(store, "z", by="client-2") == {}
    assert admin.zcard(KEY) == MAX_HINTS


async def test_a_reader_reads_no_more_than_the_bound(store: Store, admin: redis.Redis) -> None:
    admin.zadd(KEY, {f"b{number} c": clock_ms(admin) + 50_000 for number in range(MAX_HINTS + 100)})
    admin.pexpire(KEY, 50_000)
    assert len(await store.hints()) == MAX_HINTS


async def test_an_end_later_than_a_hint_can_have_is_none_and_the_next_hint_removes_it(
    store: Store, admin: redis.Redis
) -> None:
    admin.zadd(KEY, {"a forever": "inf", "a long": clock_ms(admin) + 1000 * (LONGEST_S + 60)})
    admin.pexpire(KEY, 50_000)
    assert await store.hints() == {}
    await give(store, "b")
    assert admin.zrange(KEY, 0, -1) == [b"b client-1"]
    assert admin.pttl(KEY) <= 1000 * LONGEST_S


async def test_members_that_are_no_hint_are_reported_and_the_others_told(
    store: Store, admin: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    await give(store, "a")
    odd = (b"", b"alone", b"a:b c", b"a b c", b" c", b"\xff c", b"a \xff", b"a ")
    admin.zadd(KEY, {member: clock_ms(admin) + 50_000 for member in odd})
    assert await give(store, "b", by="client-2") == {}
    caplog.clear()
    assert await store.hints() == {"a": {"client-1"}, "b": {"client-2"}}
    (record,) = caplog.records
    assert f"{KEY}: {len(odd)} members are no hint" in record.getMessage()


@pytest.mark.parametrize(
    ("client_id", "brokers", "ttl_s", "what"),
    [
        ("", ["a"], 1.0, "clientId"),
        ("two words", ["a"], 1.0, "clientId"),
        ("c", ["two words"], 1.0, "brokerName"),
        ("c", ["a:b"], 1.0, "brokerName"),
        ("c", "broker-a", 1.0, "brokerNames.*'broker-a'"),
        ("c", [f"b{n}" for n in range(MAX_HINTS_OF_A_CLIENT + 1)], 1.0, "brokerNames: 17"),
        ("c", ["a"], 0.01, "ttl_s: 0.01"),
        ("c", ["a"], 60.5, "ttl_s: 60.5"),
    ],
)
async def test_what_cannot_be_a_hint_is_named(
    store: Store, admin: redis.Redis, client_id: str, brokers: Iterable[str], ttl_s: float, what: str
) -> None:
    with pytest.raises(InvalidInput, match=what):
        await store.hint(client_id, brokers, ttl_s=ttl_s)
    assert admin.exists(KEY) == 0


async def test_as_many_brokers_as_a_client_may_name_are_taken_and_each_counts_once(store: Store) -> None:
    brokers = [f"b{n}" for n in range(MAX_HINTS_OF_A_CLIENT)]
    assert await give(store, *brokers, *brokers) == {}
    assert await store.hints() == {name: {"client-1"} for name in brokers}


@given(broker_names(), names())
def test_any_legal_names_come_back_as_they_were(broker_name: str, client_id: str) -> None:
    plan = plans.hints(Keys("sharedroutes"))
    next(plan)
    plan.send([(1, 0)])
    with pytest.raises(StopIteration) as done:
        plan.send([[f"{broker_name} {client_id}".encode()]])
    assert done.value.value == ({broker_name: {client_id}}, ())


def test_the_script_takes_any_legal_names(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin)
    for broker_name, client_id in (("a%d[", "(.+)"), ("ä|\U0001f600", "10.0.0.1@42#x"), ("a", "a")):
        for _ in range(2):
            assert store.hint(client_id, [broker_name], ttl_s=60.0) == {}
        assert store.hints()[broker_name] == {client_id}
    assert admin.zcard(KEY) == 3


# --- who may ----------------------------------------------------------------------------------------------


OTHER_WRITES = [
    "SET {key} 1",
    "ZADD {deadlines} 1 broker-a:0",
    "ZADD {{other}}:hints 1 x",
    "ZREM {deadlines} broker-a:0",
    "PEXPIRE {topic} 1",
    "DEL {key}",
    "PUBLISH {changes} 1",
    "PERSIST {key}",
]


@pytest.mark.parametrize("command", OTHER_WRITES)
def test_who_may_give_hints_changes_nothing_else_not_even_by_scripts(
    own_server: EmbeddedServer, command: str
) -> None:
    keys = Keys("sharedroutes")
    words = command.format(
        key=KEY, deadlines=keys.deadlines, topic=keys.topic("t0"), changes=keys.changes
    ).split()
    call = "redis.call(" + ", ".join(f"'{word}'" for word in words) + ")"
    with redis.Redis.from_url(own_server.url) as admin:
        if str(admin.info("server")["redis_version"]).startswith("6."):
            pytest.skip("Redis 6.2 has no read-only key patterns, and so no such role")
        rules = acl_rules("sharedroutes", Role.HINTER, user="u", password=">p")  # noqa: S106
        admin.execute_command(*rules.split(" "))
        store = RouteStore.from_client(admin)
        store.register(broker(), topics(1))
        store.hint("client-1", ["broker-a"], ttl_s=60.0)
        before = dump(admin)
        with redis.Redis(port=own_server.port, username="u", password="p") as hinter:  # noqa: S106
            for tried in (words, ("EVAL", call, "0"), ("EVAL", call, "1", words[1])):
                with pytest.raises(redis.ResponseError):
                    hinter.execute_command(*tried)
            assert RouteStore.from_client(hinter).hint("client-2", ["broker-b"], ttl_s=60.0) == {}
        store.hint("client-2", [], ttl_s=60.0)
        assert dump(admin) == before
        assert admin.pttl(keys.topic("t0")) == -1


def test_redis_6_has_no_role_that_gives_hints_and_changes_nothing_else() -> None:
    with pytest.raises(InvalidInput, match="hinter needs the key patterns of Redis 7"):
        acl_rules("sharedroutes", Role.HINTER, read_only_patterns=False)
