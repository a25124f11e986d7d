"""A command has one shape of reply, however it was sent: plans need not know by which client they run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
import redis
import redis.asyncio

from sharedroutes.registry import AsyncRouteStore, LeaseStatus, RouteStore
from sharedroutes.registry.plans import Command, ErrorReply, Plan, Reads, Reply
from tests.fix_redis import AsyncFromSync, Store
from tests.registry.builders import ADDRESS, broker, topics

HASH, SET, STREAM, TEXT, NOTHING = "shape:hash", "shape:set", "shape:stream", "shape:text", "shape:nothing"

SHAPES: list[tuple[Command, Reply]] = [
    (("HGETALL", HASH), {b"field": b"value", b"other": b""}),
    (("HGETALL", NOTHING), {}),
    (("HKEYS", HASH), [b"field", b"other"]),
    (("HGET", HASH, "field"), b"value"),
    (("HGET", HASH, "none"), None),
    (("HSCAN", HASH, 0, "COUNT", 100), (0, {b"field": b"value", b"other": b""})),
    (("HSCAN", NOTHING, 0), (0, {})),
    (("SSCAN", SET, 0, "COUNT", 100), (0, [b"member"])),
    (("SSCAN", NOTHING, 0), (0, [])),
    (("XRANGE", STREAM, "-", "+", "COUNT", 2), [(b"1-0", {b"c": b"one"}), (b"2-0", {b"c": b"two"})]),
    (("XRANGE", NOTHING, "-", "+"), []),
    ((b"XRANGE", STREAM, "-", "+", "COUNT", 1), [[b"1-0", [b"c", b"one"]]]),
    ((b"XRANGE", NOTHING, "-", "+"), []),
    (("XREVRANGE", STREAM, "+", "-", "COUNT", 1), [(b"2-0", {b"c": b"two"})]),
    (("MGET", TEXT, NOTHING, HASH), [b"text", None, None]),
    (("TYPE", HASH), b"hash"),
    (("TYPE", NOTHING), b"none"),
]


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def protocol(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture(params=["sync", "async"])
def client_store(
    request: pytest.FixtureRequest, redis_url: str, protocol: int, runner: asyncio.Runner
) -> Iterator[Store]:
    """Return a store over a client of the caller's that speaks that version of the protocol."""
    if request.param == "sync":
        with redis.Redis.from_url(redis_url, protocol=protocol) as client:
            yield cast("Store", AsyncFromSync(RouteStore.from_client(client)))
    else:
        async_client = redis.asyncio.Redis.from_url(redis_url, protocol=protocol)
        yield AsyncRouteStore.from_client(async_client)
        runner.run(async_client.aclose())


@pytest.fixture
def data(admin: redis.Redis) -> Iterator[None]:
    admin.hset(HASH, mapping={"field": "value", "other": ""})
    admin.sadd(SET, "member")
    admin.xadd(STREAM, {"c": "one"}, id="1-0")
    admin.xadd(STREAM, {"c": "two"}, id="2-0")
    admin.set(TEXT, "text")
    yield
    admin.delete(HASH, SET, STREAM, TEXT)


def asking(*commands: Command) -> Plan[list[Reply]]:
    replies = yield Reads(commands)
    return replies


def plain(reply: Any) -> Any:
    """Return a reply with lists for tuples, which plans unpack alike."""
    return [plain(item) for item in reply] if isinstance(reply, list | tuple) else reply


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    ("command", "expected"), SHAPES, ids=[f"{command[0]!s} {command[1]!s}" for command, _ in SHAPES]
)
async def test_a_reply_has_the_same_shape_alone_and_in_a_pipeline(
    client_store: Store, command: Command, expected: Reply
) -> None:
    alone = await client_store.run(asking(command))
    together = await client_store.run(asking(command, ("TYPE", TEXT), command))
    assert plain(alone) == [plain(expected)]
    assert plain(together) == [plain(expected), b"string", plain(expected)]


@pytest.mark.usefixtures("data")
async def test_an_error_of_one_command_is_a_value_and_the_others_are_answered(client_store: Store) -> None:
    wrong: Command = ("HGETALL", TEXT)
    (alone,) = await client_store.run(asking(wrong))
    before, among, after = await client_store.run(asking(("TYPE", TEXT), wrong, ("TYPE", TEXT)))
    assert (before, after) == (b"string", b"string")
    for error in (alone, among):
        assert isinstance(error, ErrorReply)
        assert error.code == "WRONGTYPE"
        assert "wrong kind of value" in error.message


async def test_the_registry_works_over_a_client_of_either_protocol(client_store: Store) -> None:
    held = await client_store.register(broker(), topics(3))
    assert await client_store.heartbeat(held) is LeaseStatus.OK
    held = await client_store.register(broker(), topics(2))
    (route,) = (await client_store.routes(["t1", "t2"])).values()
    assert route.broker_datas[0].master_address == ADDRESS
    assert await client_store.topics() == ["t0", "t1"]
    assert [data.broker_name for data in await client_store.brokers()] == ["broker-a"]
    page = await client_store.changes_since()
    assert len(page.changes) == 4
    assert page.corrupt == ()
    await client_store.hint("client-1", ["broker-a"], ttl_s=60.0)
    assert await client_store.hints() == {"broker-a": {"client-1"}}
    bell = client_store.doorbell()
    assert await bell.wait(1.0) == b""
    await client_store.unregister(held)
    assert b'"kind":"down"' in (await bell.wait(1.0) or b"")
    await cast("Any", bell).aclose()
