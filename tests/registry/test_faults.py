"""What the store does to its callers when it is away, slow, full, locked or read-only."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis

from sharedroutes.registry import (
    AsyncRouteStore,
    EmbeddedServer,
    RegistryConfig,
    RegistryError,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
)
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import broker, topics
from tests.registry.servers import quick
from tests.support import Stopwatch, await_until

PASSWORD = "correct-horse"  # noqa: S105 - of a server that lives for one test
WRONG = "battery-staple"
NOBODY_LISTENS = 1


async def every_operation_raises(store: Store, error: type[RegistryError]) -> None:
    with pytest.raises(error):
        await store.routes(["t0", "t1"])
    with pytest.raises(error):
        await store.register(broker(), topics(1))
    with pytest.raises(error):
        await store.changes_since()
    with pytest.raises(error):
        await store.topics()


async def test_an_absent_server_is_unavailable_until_it_is_there(
    make_store: StoreMaker, own_server: EmbeddedServer
) -> None:
    own_server.kill()
    store = make_store(own_server.url)
    await every_operation_raises(store, StoreUnavailable)
    with pytest.raises(ConnectionError, match="cannot be reached"):  # to who does not know our errors
        await store.routes(["t0"])
    own_server.start()
    assert await store.topics() == []


async def test_the_same_store_works_again_when_the_server_is_back(
    make_store: StoreMaker, own_server: EmbeddedServer
) -> None:
    store = make_store(own_server.url)
    held = await store.register(broker(), topics(1))
    own_server.kill()
    with pytest.raises(StoreUnavailable):
        await store.heartbeat(held)
    await every_operation_raises(store, StoreUnavailable)
    own_server.start()
    assert await store.routes(["t0"]) == {}
    await store.register(broker(), topics(1))
    assert list(await store.routes(["t0"])) == ["t0"]


async def test_a_store_reaches_its_server_over_a_unix_socket(make_store: StoreMaker, tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    store = make_store(f"unix://{path}")
    with pytest.raises(StoreUnavailable):
        await store.topics()
    with quick(unix_socket=path):
        await store.register(broker(), topics(1))
        assert await store.topics() == ["t0"]


@pytest.mark.parametrize("connected", [False, True], ids=["new connection", "open connection"])
async def test_a_frozen_server_times_out_and_answers_again_when_it_thaws(
    make_store: StoreMaker, own_server: EmbeddedServer, *, connected: bool
) -> None:
    store = make_store(own_server.url, call_deadline_s=1.0, connect_deadline_s=1.0)
    if connected:
        await store.topics()
    own_server.pause()
    with Stopwatch() as watch, pytest.raises(StoreTimeout):
        await store.routes(["t0", "t1"])
    assert watch.elapsed_s < 3  # the deadlines and a busy machine, but no retries
    own_server.resume()
    assert await store.routes(["t0"]) == {}


async def test_a_call_that_fails_is_not_tried_again_behind_the_callers_back(make_store: StoreMaker) -> None:
    accepted = []

    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listener:
        _, port = listener.sockets[0].getsockname()
        store = make_store(f"redis://127.0.0.1:{port}")
        with pytest.raises(StoreUnavailable):
            await store.topics()
        with pytest.raises(StoreUnavailable):
            await store.register(broker(), topics(1))
    assert len(accepted) == 2


async def test_a_late_answer_is_not_taken_for_the_answer_to_the_next_question(
    make_store: StoreMaker, own_server: EmbeddedServer
) -> None:
    store = make_store(own_server.url, call_deadline_s=1.0, max_connections=3)
    await store.register(broker(), topics(1))
    own_server.pause()
    with pytest.raises(StoreTimeout):
        await store.routes(["t0"])
    own_server.resume()
    assert await store.topics() == ["t0"]
    assert [data.broker_name for data in await store.brokers()] == ["broker-a"]


async def test_a_cancelled_call_leaves_no_answer_for_the_next_one(own_server: EmbeddedServer) -> None:
    config = RegistryConfig(max_connections=3)
    async with AsyncRouteStore.from_url(own_server.url, config) as store:
        await store.register(broker(), topics(1))
        own_server.pause()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.routes(["t0"]), 0.05)
        own_server.resume()
        assert await store.topics() == ["t0"]
        assert [data.broker_name for data in await store.brokers()] == ["broker-a"]


async def test_a_refused_password_names_the_credentials_and_not_the_password(make_store: StoreMaker) -> None:
    with quick("--requirepass", PASSWORD) as locked:
        for url in (locked.url, locked.url.replace("//", f"//:{WRONG}@")):
            store = make_store(url)
            with pytest.raises(StoreRefused, match="credentials") as refused:
                await store.routes(["t0"])
            chain = f"{refused.value} {refused.value.__cause__}"
            assert WRONG not in chain
            assert PASSWORD not in chain
        store = make_store(locked.url.replace("//", f"//:{PASSWORD}@"))
        assert await store.topics() == []


async def test_a_user_without_the_right_to_a_command_is_refused(make_store: StoreMaker) -> None:
    with quick("--user", "reader", "on", f">{PASSWORD}", "~*", "+@read", "+ping", "+client") as restricted:
        store = make_store(restricted.url.replace("//", f"//reader:{PASSWORD}@"))
        assert await store.topics() == []
        with pytest.raises(StoreRefused, match="credentials"):
            await store.register(broker(), topics(1))


async def test_a_replica_that_lost_its_master_and_serves_no_old_data_is_unavailable(
    make_store: StoreMaker, own_server: EmbeddedServer
) -> None:
    store = make_store(own_server.url)
    with redis.Redis.from_url(own_server.url) as admin:
        admin.config_set("replica-serve-stale-data", "no")
        admin.replicaof("127.0.0.1", NOBODY_LISTENS)
    await every_operation_raises(store, StoreUnavailable)


async def test_a_store_that_is_busy_with_a_script_is_unavailable_until_it_is_done(
    make_store: StoreMaker,
) -> None:
    with quick("--lua-time-limit", "1") as busy, redis.Redis.from_url(busy.url) as admin:
        store = make_store(busy.url)
        with redis.Redis.from_url(busy.url) as endless:
            script = asyncio.create_task(asyncio.to_thread(endless.eval, "while true do end", 0))
            await await_until(lambda: is_busy(admin), description="the script has run for too long")
            await every_operation_raises(store, StoreUnavailable)
            admin.script_kill()
            with pytest.raises(redis.ResponseError):
                await script
        assert await store.topics() == []


def is_busy(admin: redis.Redis) -> bool:
    try:
        admin.ping()
    except redis.ResponseError:
        return True
    return False
