"""A store that is away, empty, frozen or refuses: what a client goes on serving, and what it says."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import redis

from sharedroutes.client import snapshot
from sharedroutes.registry import EmbeddedServer, StoreRefused, StoreUnavailable
from tests.client.clients import (
    FOLLOWER,
    IMPATIENT,
    AnyClient,
    ClientMaker,
    OwnStage,
    Stage,
    chosen,
    holders,
    running,
    until_held_by,
    until_in_place,
    until_known,
    until_source,
)
from tests.registry.builders import broker, topics
from tests.support import await_until

PASSWORD: Final = "correct-horse"  # noqa: S105 - of a server that lives for one test
WRONG: Final = "battery-staple"

BOTH: Final = {"broker-a", "broker-b"}

SOON_S: Final = 10.0
"""Far more than any deadline of IMPATIENT, far less than a wait that nobody bounds."""


async def until_found(client: AnyClient, topic: str) -> None:
    """Wait until an unknown topic is found; a connection that was open may have to fail first."""

    async def found() -> bool:
        with contextlib.suppress(StoreUnavailable):
            return await holders(client, topic) != set()
        return False

    await await_until(found, description=f"{topic} is found")


def said(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in caplog.records)


# --- a store that is away ----------------------------------------------------------------------------------


async def test_while_the_store_is_away_the_known_routes_are_served_and_it_is_said_once(
    own: OwnStage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    own.register("broker-a", "broker-b")
    async with own.client() as client:
        await until_known(client, "broker-a", "broker-b")
        own.server.kill()
        await until_source(client, "memory")
        await await_until(lambda: (client.health().age_s or 0) > 0.3, description="several tries fail")
        assert await chosen(client) == BOTH
        health = client.health()
        assert health.last_error is not None
        assert "cannot be reached" in health.last_error
        with pytest.raises(StoreUnavailable):
            await client.select_queue("unknown")
        assert said(caplog, "does not answer") == 1
        own.server.start()
        own.register("broker-a", "broker-b")
        await until_source(client, "live")
        assert client.health().last_error is None
        await await_until(lambda: said(caplog, "answers again"), description="it is said")
        assert said(caplog, "answers again") == 1


async def test_a_client_recovers_from_many_restarts_of_its_store(own: OwnStage) -> None:
    own.register("broker-a", "broker-b")
    async with own.client() as client:
        await until_known(client, "broker-a", "broker-b")
        for number in range(3):
            own.server.kill()
            await until_source(client, "memory")
            own.server.start()
            own.register("broker-a", "broker-b")
            own.agent.register(broker(f"broker-{number}"), topics(1, first=number + 1))
            await until_source(client, "live")
            await until_found(client, f"t{number + 1}")
            assert await chosen(client) == BOTH


# --- a store that lost its data ----------------------------------------------------------------------------


def restart_empty(server: EmbeddedServer) -> None:
    server.kill()
    server.start()


def flush(server: EmbeddedServer) -> None:
    with redis.Redis.from_url(server.url) as admin:
        admin.flushall()


LOSSES: Final = [restart_empty, flush]


@pytest.mark.parametrize("lose", LOSSES)
async def test_routes_outlive_a_store_that_lost_its_data_until_the_agents_are_back(
    own: OwnStage, lose: Callable[[EmbeddedServer], None]
) -> None:
    own.register("broker-a", "broker-b")
    async with own.client() as client:
        await until_known(client, "broker-a", "broker-b")
        lose(own.server)
        everything = ("broker-a", "broker-b", "t0")
        await await_until(lambda: client.health().held == everything, description="all is held")
        assert await chosen(client) == BOTH
        own.agent.register(broker("broker-a"), topics(1))
        await await_until(lambda: "broker-a" not in client.health().held, description="one is back")
        assert await chosen(client) == BOTH
        own.agent.register(broker("broker-b"), topics(1))
        await await_until(lambda: not client.health().held, description="nothing is held")
        assert await chosen(client) == BOTH
        assert client.health().source == "live"


@pytest.mark.parametrize("lose", LOSSES)
async def test_what_does_not_come_back_is_let_go_when_the_time_is_over(
    own: OwnStage, lose: Callable[[EmbeddedServer], None]
) -> None:
    own.register("broker-a", "broker-b")
    async with own.client(guard_hold_s=0.3, refresh_s=0.3) as client:
        await until_known(client, "broker-a", "broker-b")
        lose(own.server)
        await until_held_by(client, "t0")
        await await_until(lambda: not client.health().held, description="nothing is held")


# --- a store that refuses ----------------------------------------------------------------------------------


async def test_a_wrong_password_is_refused_without_being_told(
    make_client: ClientMaker, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedServer("--requirepass", PASSWORD) as locked:
        async with make_client(locked.url.replace("//", f"//:{WRONG}@")) as client:
            with pytest.raises(StoreRefused, match="refuses these credentials") as refused:
                await client.select_queue("t0")
            await await_until(lambda: client.health().last_error, description="the follower is refused")
            health = client.health()
            assert health.source == "none"
            told = f"{refused.value} {refused.value.__cause__} {health} {caplog.text}"
            assert "credentials" in caplog.text
            assert WRONG not in told
            assert PASSWORD not in told


async def test_a_feed_of_another_type_is_said_once_and_the_leases_are_read_without_it(
    stage: Stage, admin: redis.Redis, foreign_keys: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    stage.register("broker-a", "broker-b")
    key = stage.agent.keys.changes
    foreign_keys.append(key)
    admin.delete(key)
    admin.set(key, "foreign")
    async with stage.client() as client:
        await until_held_by(client, "t0", "broker-a", "broker-b")
        admin.delete(stage.agent.keys.lease("broker-b", 0))
        await until_held_by(client, "t0", "broker-a")
        await await_until(lambda: key in caplog.text, description="the key is reported")
        assert client.health().source == "live"
        assert said(caplog, key) == 1
        admin.delete(key)
        await until_in_place(client)


# --- a store that is not there yet -------------------------------------------------------------------------


async def test_the_snapshot_of_the_last_client_is_served_until_the_store_is_there(
    own: OwnStage, tmp_path: Path
) -> None:
    path = tmp_path / "routes.json"
    own.register("broker-a", "broker-b")
    async with own.client(snapshot_path=path) as client:
        await until_known(client, "broker-a", "broker-b")
        await await_until(
            lambda: path.exists() and b"broker-b" in path.read_bytes(), description="the file is written"
        )
    own.server.kill()
    async with own.client(snapshot_path=path) as client:
        assert client.health().source == "snapshot"
        assert (await client.route("t0")).age_s is None
        assert await chosen(client) == BOTH
        own.server.start()
        own.agent.register(broker("broker-a"), topics(1))
        await until_source(client, "live")
        assert await chosen(client) == BOTH
        own.agent.register(broker("broker-b"), topics(1))

        async def is_confirmed() -> bool:
            return (await client.route("t0")).as_of is not None

        await await_until(is_confirmed, description="the store confirms the route")


# --- a disk that hangs -------------------------------------------------------------------------------------


class HangingDisk:
    """Writes snapshots only when a test lets it."""

    def __init__(self, write: Callable[[Path, bytes], None]) -> None:
        self.asked = 0
        self.goes_on = threading.Event()
        self._write = write

    def write(self, path: Path, content: bytes) -> None:
        self.asked += 1
        self.goes_on.wait()
        self._write(path, content)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingDisk]:
    disk = HangingDisk(snapshot.write)
    monkeypatch.setattr(snapshot, "write", disk.write)
    yield disk
    disk.goes_on.set()


async def test_a_disk_that_hangs_keeps_no_change_from_a_client_and_has_the_newest_when_it_goes_on(
    stage: Stage, tmp_path: Path, disk: HangingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_SAVE_S", 0.0)
    path = tmp_path / "routes.json"
    stage.register("broker-a")
    async with stage.in_place(snapshot_path=path) as client:
        await until_held_by(client, "t0", "broker-a")
        await await_until(lambda: disk.asked, description="it writes")
        stage.register("broker-b")
        await until_held_by(client, "t0", *BOTH)
        stage.register("broker-c")  # of the round after the one that would have begun to write again
        await until_held_by(client, "t0", *BOTH, "broker-c")
        assert disk.asked == 1
        disk.goes_on.set()
        await await_until(
            lambda: path.exists() and b"broker-c" in path.read_bytes(), description="the newest is written"
        )


async def test_closing_waits_for_a_write_that_is_under_way(
    stage: Stage, tmp_path: Path, disk: HangingDisk
) -> None:
    path = tmp_path / "routes.json"
    stage.register("broker-a")
    async with stage.in_place(snapshot_path=path) as client:
        await until_held_by(client, "t0", "broker-a")
        await await_until(lambda: disk.asked, description="it writes")
        closing = asyncio.ensure_future(client.aclose())
        await await_until(lambda: not running(FOLLOWER), description="it reads no more")
        disk.goes_on.set()
        await closing
        assert path.exists()


async def test_closing_does_not_wait_for_ever_for_a_disk_that_hangs(
    stage: Stage, tmp_path: Path, disk: HangingDisk
) -> None:
    stage.register("broker-a")
    async with stage.client(IMPATIENT, snapshot_path=tmp_path / "routes.json") as client:
        await until_held_by(client, "t0", "broker-a")
        await await_until(lambda: disk.asked, description="it writes")
        await asyncio.wait_for(client.aclose(), SOON_S)
