"""A server whose clock stands still or jumps is reported, by whoever sweeps on it.

faketime's library is put before the server's own: what time it is comes from a file that the test rewrites.
"""

from __future__ import annotations

import asyncio
import random
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from sharedroutes.registry import (
    EXPIRED,
    AsyncRouteStore,
    AsyncSweeper,
    EmbeddedServer,
    RegistryConfig,
    RouteStore,
    Sweeper,
    sweep_policy,
)
from sharedroutes.registry.embedded import server_in_wheel
from tests.registry.builders import broker, topics
from tests.support import await_until, wait_until

CONFIG: Final = RegistryConfig(lease_ttl_s=1.0, sweeper_lease_s=0.5)
IN_STEP: Final = "+0 x1"
STANDING: Final = "2026-01-01 00:00:00"
SLOW: Final = "+0 x0.2"
NOTICED_WITHIN_S: Final = 15.0
OVER_WITHIN_S: Final = 20.0

_LIBRARIES: Final = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
_NAME: Final = "libfaketimeMT.so.1"
_START: Final = """#!/bin/sh
# libc before jemalloc, which asks for the time when it allocates: libfaketime allocates when it is asked.
export LD_PRELOAD={library}' 'libc.so.6 FAKETIME_TIMESTAMP_FILE={time_file} FAKETIME_NO_CACHE=1
{more} exec {binary} "$@"
"""


def faketime_library() -> str:
    """Return Debian's libfaketime for programs with threads."""
    found = [path for folder in _LIBRARIES if Path(folder).is_dir() for path in Path(folder).rglob(_NAME)]
    assert found, f"no {_NAME}: apt-get install faketime"
    return str(found[0])


def write_start(start: Path, binary: str, time_file: Path, more: str = "") -> None:
    """Write a program that starts a server whose clock a file says; `more`: variables of its environment."""
    parts = {"library": faketime_library(), "time_file": str(time_file), "binary": binary}
    start.write_text(_START.format(more=more, **{name: shlex.quote(part) for name, part in parts.items()}))
    start.chmod(0o755)


def servers() -> dict[str, str | None]:
    """Return the servers to test on by name; None = not installed."""
    return {"redis": shutil.which("redis-server"), "valkey": server_in_wheel()}


@dataclass
class Clock:
    """The server and the file that tells it the time."""

    server: EmbeddedServer
    time_file: Path

    def show(self, time: str) -> None:
        """Make the server's clock show that, in faketime's words."""
        new = self.time_file.with_suffix(".new")
        new.write_text(f"{time}\n")
        new.rename(self.time_file)


@pytest.fixture(params=["redis", "valkey"])
def clock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clock]:
    """Return a server whose clock the test sets; it is in step at first."""
    binary = servers()[request.param]
    assert binary, (
        f"no {request.param} server: apt-get install redis-server, pip install 'sharedroutes[embedded]'"
    )
    start, time_file = tmp_path / "start", tmp_path / "time"
    write_start(start, binary, time_file)
    time_file.write_text(f"{IN_STEP}\n")
    server = EmbeddedServer(binary=str(start)).start()
    yield Clock(server, time_file)
    server.kill()


@pytest.fixture
def store(clock: Clock) -> Iterator[RouteStore]:
    """Return a store on that server."""
    with RouteStore.from_url(clock.server.url, CONFIG) as store:
        yield store


@pytest.fixture(autouse=True)
def short_calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a problem be over soon."""
    monkeypatch.setattr(sweep_policy, "CALM_S", 1.0)


def until_problem(sweeper: Any, what: str) -> None:
    wait_until(
        lambda: what in (sweeper.clock_problem or ""),
        timeout_s=NOTICED_WITHIN_S,
        description=f"{what} is noticed",
    )


def until_over(sweeper: Any) -> None:
    wait_until(lambda: sweeper.clock_problem is None, timeout_s=OVER_WITHIN_S, description="it is over")


def until_elected(store: RouteStore, clock: Clock) -> None:
    with redis.Redis.from_url(clock.server.url) as client:
        wait_until(lambda: client.exists(store.keys.sweeper), description="the sweeper sweeps")


def ended(store: RouteStore) -> list[str]:
    return [change.broker_name for change in store.changes_since().changes if change.reason == EXPIRED]


def until_one_more_ended(store: RouteStore, seen: int) -> None:
    wait_until(lambda: len(ended(store)) > seen, description="the sweep goes on")


@pytest.mark.parametrize("time", [STANDING, SLOW])
def test_a_clock_that_comes_to_stand_still_is_reported_until_it_goes_again(
    clock: Clock, store: RouteStore, caplog: pytest.LogCaptureFixture, time: str
) -> None:
    with Sweeper(store, random.Random(1)) as sweeper:
        until_elected(store, clock)
        assert sweeper.clock_problem is None
        clock.show(time)
        until_problem(sweeper, "stands still")
        clock.show(IN_STEP)
        until_over(sweeper)
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert sum("stands still" in text for text in errors) == 1


def test_where_the_clock_stands_still_a_dead_broker_lives_on(clock: Clock, store: RouteStore) -> None:
    clock.show(STANDING)
    with Sweeper(store, random.Random(1)) as sweeper:
        store.register(broker(), topics(1))
        until_problem(sweeper, "stands still")  # after more than the TTL of the lease
        assert list(store.routes(["t0"])) == ["t0"]
        assert ended(store) == []
        clock.show(IN_STEP)
        wait_until(lambda: ended(store) == ["broker-a"], description="its end is announced")


def test_a_server_that_starts_with_a_clock_that_stands_still_is_reported(
    clock: Clock, store: RouteStore
) -> None:
    clock.server.kill()
    clock.show(STANDING)
    clock.server.start()
    with Sweeper(store, random.Random(1)) as sweeper:
        until_problem(sweeper, "stands still")


def test_who_only_waits_for_its_turn_reports_a_clock_that_stands_still(
    clock: Clock, store: RouteStore
) -> None:
    assert not store.sweep("somebody who died").held
    clock.show(STANDING)
    store.sweep("somebody who died")
    with Sweeper(store, random.Random(1)) as sweeper:
        until_problem(sweeper, "stands still")
        assert store.sweep("anybody").held


@pytest.mark.parametrize(("time", "said"), [("+65", "jumped by +6"), ("-65", "jumped by -6")])
def test_a_clock_that_jumped_is_reported_and_over_when_it_keeps_pace(
    clock: Clock, store: RouteStore, time: str, said: str
) -> None:
    with Sweeper(store, random.Random(1)) as sweeper:
        until_elected(store, clock)
        clock.show(time)
        until_problem(sweeper, said)
        until_over(sweeper)


def test_a_small_step_is_not_reported(
    clock: Clock, store: RouteStore, caplog: pytest.LogCaptureFixture
) -> None:
    with Sweeper(store, random.Random(1)) as sweeper:
        until_elected(store, clock)
        for time in (
            "+1 x1",
            "+0 x1",
            "+3 x1",
            "+2 x1",
        ):  # never back twice: between two looks, on a slow machine
            clock.show(time)
            store.register(broker(), [])
            until_one_more_ended(store, len(ended(store)))
            assert sweeper.clock_problem is None
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_sweeper_in_a_task_reports_as_one_in_a_thread(clock: Clock) -> None:
    async with AsyncRouteStore.from_url(clock.server.url, CONFIG) as store, AsyncSweeper(store) as sweeper:
        clock.show(STANDING)
        await await_until(
            lambda: "stands still" in (sweeper.clock_problem or ""),
            timeout_s=NOTICED_WITHIN_S,
            description="it is noticed",
        )
        await asyncio.to_thread(clock.show, IN_STEP)
        await await_until(
            lambda: sweeper.clock_problem is None, timeout_s=OVER_WITHIN_S, description="it is over"
        )
