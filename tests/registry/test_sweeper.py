"""Whoever runs a sweeper takes part in making the end of leases known, in a thread or in a task."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final, TypeAlias

import pytest
import redis

from sharedroutes.registry import (
    EXPIRED,
    AsyncRouteStore,
    AsyncSweeper,
    CorruptData,
    EmbeddedServer,
    RegistryConfig,
    RouteStore,
    StoreRefused,
    StoreUnavailable,
    Sweep,
    Sweeper,
)
from sharedroutes.registry.sweep_policy import SweepPolicy
from tests.registry.builders import OTHER_ADDRESS, broker
from tests.registry.probes import clock_ms
from tests.support import await_until

LOGGER: Final = "sharedroutes.registry"
NAME: Final = "sharedroutes-sweeper"
CONFIG: Final = RegistryConfig(sweeper_lease_s=1.0, lease_ttl_s=15.0)
QUICK: Final = RegistryConfig(sweeper_lease_s=0.1, lease_ttl_s=0.1)
"""Sweeps all the time and takes over soon."""

LIVED: Final = replace(QUICK, lease_ttl_s=15.0)
"""Its leases outlive a test: what is announced before their end was told by an event."""

AnySweeper: TypeAlias = Sweeper | AsyncSweeper
SweeperMaker: TypeAlias = Callable[..., AbstractAsyncContextManager[AnySweeper]]


def running() -> int:
    """Return how many sweepers run: in threads, and in tasks of this loop."""
    threads = sum(thread.name == NAME for thread in threading.enumerate())
    return threads + sum(task.get_name() == NAME for task in asyncio.all_tasks())


@contextlib.asynccontextmanager
async def in_a_thread(url: str, config: RegistryConfig = QUICK) -> AsyncIterator[Sweeper]:
    with RouteStore.from_url(url, config) as store:
        sweeper = Sweeper(store, random.Random(1))
        sweeper.start()
        try:
            yield sweeper
        finally:
            await asyncio.to_thread(sweeper.close)


@contextlib.asynccontextmanager
async def in_a_task(url: str, config: RegistryConfig = QUICK) -> AsyncIterator[AsyncSweeper]:
    async with (
        AsyncRouteStore.from_url(url, config) as store,
        AsyncSweeper(store, random.Random(1)) as sweeper,
    ):
        yield sweeper


@pytest.fixture(params=[in_a_thread, in_a_task])
def sweeping(request: pytest.FixtureRequest) -> SweeperMaker:
    """Return a function (url, config) -> a running sweeper as an async context manager."""
    made: SweeperMaker = request.param
    return made


@pytest.fixture
def table(redis_url: str) -> Iterator[RouteStore]:
    """Return a store on the shared server whose leases end soon."""
    with RouteStore.from_url(redis_url, QUICK) as store:
        yield store


@pytest.fixture
def lasting(redis_url: str) -> Iterator[RouteStore]:
    """Return a store on the shared server whose leases outlive the test."""
    with RouteStore.from_url(redis_url, LIVED) as store:
        yield store


@pytest.fixture
def notifying(admin: redis.Redis) -> Iterator[redis.Redis]:
    """Return the plain client of the shared server, which tells of keys that go away."""
    admin.config_set("notify-keyspace-events", "Kgxe")
    yield admin
    admin.config_set("notify-keyspace-events", "")


def ended(store: RouteStore) -> list[str]:
    """Return the brokers whose end was announced, in order."""
    return [change.broker_name for change in store.changes_since().changes if change.reason == EXPIRED]


async def until_ended(store: RouteStore, *names: str) -> None:
    """Wait until the end of these brokers, and of no other, is announced."""
    await await_until(lambda: ended(store) == [*names], description=f"{names} are announced")


async def until_elected(store: RouteStore) -> None:
    """Wait until somebody sweeps."""
    await await_until(lambda: store.health().registry["sweeper"], description="a sweeper is elected")


async def until_listening(admin: redis.Redis) -> None:
    """Wait until the elected sweeper hears keyspace events."""
    await await_until(lambda: admin.pubsub_numpat() == 1, description="a sweeper listens")


# --- how long it sleeps, what it says ----------------------------------------------------------------------


@pytest.fixture
def core() -> SweepPolicy:
    return SweepPolicy(CONFIG, random.Random(1))


@pytest.mark.parametrize(
    ("wait_s", "expected"), [(None, 0.6), (14.0, 0.6), (0.3, 0.3), (0.001, 0.005), (0.0, 0.005)]
)
def test_the_sweeper_sleeps_until_a_lease_can_end_and_keeps_its_own(
    core: SweepPolicy, wait_s: float | None, expected: float
) -> None:
    assert core.answered(Sweep(held=False, wait_s=wait_s), 0.0, 0.001) == pytest.approx(expected)


@pytest.mark.parametrize("wait_s", [0.5, 0.0])
def test_the_others_look_about_three_times_in_the_ttl_of_a_lease(core: SweepPolicy, wait_s: float) -> None:
    assert 3 <= core.answered(Sweep(held=True, wait_s=wait_s), 0.0, 0.001) <= 6


@pytest.mark.parametrize("error", [StoreUnavailable("x"), StoreRefused("x"), CorruptData("k", "x")])
def test_who_cannot_sweep_tries_again_as_seldom_as_the_others(core: SweepPolicy, error: Exception) -> None:
    assert 3 <= core.failed(error) <= 6
    assert not core.listens


def test_trouble_is_said_once_until_it_changes_or_is_over(
    core: SweepPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        for error in (*[StoreUnavailable("away")] * 3, *[StoreRefused("no permission")] * 3):
            core.failed(error)
        for _ in range(3):
            core.answered(Sweep(held=True, wait_s=1.0), 0.0, 0.001)
        core.failed(StoreUnavailable("away again"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "this process cannot announce the end of leases: away"),
        ("WARNING", "this process cannot announce the end of leases: no permission"),
        ("INFO", "the sweep continues"),
        ("INFO", "this process cannot announce the end of leases: away again"),
    ]


def test_a_quiet_one_leaves_trouble_with_the_store_to_others(caplog: pytest.LogCaptureFixture) -> None:
    core = SweepPolicy(CONFIG, random.Random(1), quiet=True)
    with caplog.at_level(logging.INFO, LOGGER):
        core.failed(StoreRefused("no permission"))
        core.answered(Sweep(held=True, wait_s=1.0), 0.0, 0.001)
        core.failed(CorruptData("key", "is foreign"))
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_fault_of_our_own_is_said_with_its_traceback(
    core: SweepPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    assert core.failed(KeyError("x")) >= 3
    assert caplog.records[0].exc_info is not None


def test_only_the_elected_sweeper_listens(core: SweepPolicy) -> None:
    listens = [core.listens]
    for held in (False, True, False):
        core.answered(Sweep(held=held, wait_s=1.0), 0.0, 0.001)
        listens.append(core.listens)
    core.failed(StoreUnavailable("away"))
    assert [*listens, core.listens] == [False, True, False, True, False]


def test_a_subscription_that_was_cut_off_is_tried_again(
    core: SweepPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    core.answered(Sweep(held=False, wait_s=None), 0.0, 0.001)
    core.deaf(StoreUnavailable("cut off"))
    assert core.listens
    assert caplog.records == []


def test_an_event_of_what_the_sweep_itself_did_is_no_news(core: SweepPolicy) -> None:
    core.answered(Sweep(held=False, wait_s=None, expired=(("broker-a", 0),)), 0.0, 0.001)
    assert not core.is_news(("broker-a", 0))
    assert core.is_news(("broker-a", 1))
    core.answered(Sweep(held=False, wait_s=None), 0.6, 0.601)
    assert core.is_news(("broker-a", 0))


def test_a_clock_that_stands_still_is_said_once_and_when_it_is_over(
    core: SweepPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        for number in range(20):
            core.answered(Sweep(held=True, wait_s=1.0, clock_ms=1_000_000), number, number + 0.001)
        problem = core.clock.problem
        for number in range(20, 40):
            look = Sweep(held=True, wait_s=1.0, clock_ms=1_000_000 + 1000 * (number - 19))
            core.answered(look, number, number + 0.001)
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert caplog.records[0].getMessage() == problem
    assert core.clock.problem is None
    assert "keeps pace again" in caplog.records[1].getMessage()


# --- on a real server --------------------------------------------------------------------------------------


async def test_a_dead_broker_is_announced_and_a_key_in_the_way_is_reported_once(
    sweeping: SweeperMaker,
    redis_url: str,
    table: RouteStore,
    admin: redis.Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    admin.zadd(table.keys.deadlines, {"garbage": 1})
    caplog.set_level(logging.INFO, LOGGER)
    async with sweeping(redis_url):
        await until_elected(table)
        table.register(broker(), [])
        await until_ended(table, "broker-a")
        table.register(broker("broker-b", address=OTHER_ADDRESS), [])
        await until_ended(table, "broker-a", "broker-b")
        # The store knows of it before the answer is there, and is said to whoever reads the log.
        await await_until(lambda: "broker-b:0: its lease" in caplog.text, description="the end is logged")
    said = [record.getMessage() for record in caplog.records]
    assert [text for text in said if "has ended" in text] == [
        f"broker-{letter}:0: its lease has ended; the change was announced" for letter in "ab"
    ]
    assert len([text for text in said if "garbage" in text]) == 1


async def test_one_of_several_sweeps_and_another_follows_it(
    sweeping: SweeperMaker, redis_url: str, table: RouteStore
) -> None:
    async with sweeping(redis_url):
        async with sweeping(redis_url):
            table.register(broker(), [])
            await until_ended(table, "broker-a")
        table.register(broker(), [])
        await until_ended(table, "broker-a", "broker-a")


async def test_a_sweeper_goes_on_after_the_store_was_away(
    sweeping: SweeperMaker, own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    with RouteStore.from_url(own_server.url, QUICK) as table:
        async with sweeping(own_server.url):
            await until_elected(table)
            own_server.kill()
            await await_until(
                lambda: any("cannot announce" in text for text in caplog.messages), description="it is said"
            )
            own_server.start()
            table.register(broker(), [])
            await until_ended(table, "broker-a")
            await await_until(
                lambda: any("the sweep continues" in text for text in caplog.messages), description="and that"
            )


async def test_closing_a_sweeper_is_prompt_and_leaves_nothing(
    sweeping: SweeperMaker, redis_url: str, admin: redis.Redis
) -> None:
    before = len(admin.client_list())
    async with sweeping(redis_url, replace(CONFIG, sweeper_lease_s=60.0)) as sweeper:
        assert running() == 1
        await until_listening(admin)  # for the next 36 s
        assert sweeper.clock_problem is None
        begin_s = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - begin_s < 5
    assert running() == 0
    await await_until(lambda: len(admin.client_list()) == before, description="all connections are closed")


async def test_a_sweeper_that_was_closed_says_so(sweeping: SweeperMaker, redis_url: str) -> None:
    async with sweeping(redis_url) as sweeper:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        await asyncio.create_task(_start(sweeper))


async def test_starting_twice_is_starting_once(sweeping: SweeperMaker, redis_url: str) -> None:
    async with sweeping(redis_url) as sweeper:
        await _start(sweeper)
        assert running() == 1


async def _start(sweeper: AnySweeper) -> None:
    if isinstance(sweeper, AsyncSweeper):
        await sweeper.start()
    else:
        sweeper.start()


async def test_a_sweep_without_end_ends_by_one_cancellation(redis_url: str, table: RouteStore) -> None:
    async with AsyncRouteStore.from_url(redis_url, QUICK) as store:
        task = asyncio.create_task(AsyncSweeper(store, random.Random(1), quiet=True).run())
        await until_elected(table)
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.done()


# --- keyspace events ---------------------------------------------------------------------------------------


async def test_a_lease_that_somebody_deletes_is_announced_at_once(
    sweeping: SweeperMaker, redis_url: str, lasting: RouteStore, notifying: redis.Redis
) -> None:
    lasting.register(broker(), [])
    lasting.register(broker("broker-b", address=OTHER_ADDRESS), [])
    async with sweeping(redis_url):
        await until_listening(notifying)
        notifying.delete(lasting.keys.lease("broker-a", 0))
        await until_ended(lasting, "broker-a")
        notifying.unlink(lasting.keys.lease("broker-b", 0))
        await until_ended(lasting, "broker-a", "broker-b")


async def test_a_lease_that_somebody_shortens_is_announced_when_redis_deletes_it(
    sweeping: SweeperMaker, redis_url: str, lasting: RouteStore, notifying: redis.Redis
) -> None:
    lasting.register(broker(), [])
    async with sweeping(redis_url):
        await until_listening(notifying)
        notifying.pexpire(lasting.keys.lease("broker-a", 0), 20)
        await until_ended(lasting, "broker-a")


async def test_without_events_a_deleted_lease_is_announced_at_its_deadline(
    sweeping: SweeperMaker, redis_url: str, lasting: RouteStore, admin: redis.Redis
) -> None:
    lasting.register(broker(), [])
    deadline_ms = clock_ms(admin) + 300
    async with sweeping(redis_url):
        await until_elected(lasting)
        with admin.pipeline(transaction=True) as at_once:
            at_once.zadd(lasting.keys.deadlines, {"broker-a:0": deadline_ms})
            at_once.delete(lasting.keys.lease("broker-a", 0))
            at_once.execute()
        await until_ended(lasting, "broker-a")
    (change,) = (one for one in lasting.changes_since().changes if one.reason == EXPIRED)
    assert int(change.change_id.partition("-")[0]) > deadline_ms


async def test_events_of_renewals_of_unregistering_and_of_the_sweep_itself_announce_nothing(
    sweeping: SweeperMaker, redis_url: str, table: RouteStore, lasting: RouteStore, notifying: redis.Redis
) -> None:
    async with sweeping(redis_url):
        await until_listening(notifying)
        held = lasting.register(broker(), [])
        lasting.heartbeat(held)
        lasting.unregister(held)
        table.register(broker("broker-b", address=OTHER_ADDRESS), [])
        await until_ended(table, "broker-b")
        lasting.register(broker("broker-c"), [])
        notifying.delete(lasting.keys.lease("broker-c", 0))
        await until_ended(table, "broker-b", "broker-c")


async def test_keys_that_only_look_like_leases_do_no_harm(
    sweeping: SweeperMaker, redis_url: str, lasting: RouteStore, notifying: redis.Redis
) -> None:
    async with sweeping(redis_url):
        await until_listening(notifying)
        for name in ("", ":", "x", "x:", "x:y", "x:" + "1" * 5_000, b"\xff\xfe:0", "x:y:0"):
            suffix = name if isinstance(name, bytes) else name.encode()
            key = lasting.keys.prefix.encode() + b":lease:" + suffix
            notifying.set(key, "1")
            notifying.delete(key)
        lasting.register(broker(), [])
        notifying.delete(lasting.keys.lease("broker-a", 0))
        await until_ended(lasting, "broker-a")


async def test_a_listener_that_was_cut_off_listens_again(
    sweeping: SweeperMaker, redis_url: str, lasting: RouteStore, notifying: redis.Redis
) -> None:
    numbers = itertools.count()

    def announced_one() -> bool:  # the first ones may fall into the gap: they are announced at their deadline
        name = f"broker-{next(numbers)}"
        lasting.register(broker(name), [])
        notifying.delete(lasting.keys.lease(name, 0))
        return bool(ended(lasting))

    async with sweeping(redis_url):
        await until_listening(notifying)
        notifying.client_kill_filter(_type="pubsub")
        await await_until(announced_one, description="a deletion is announced")


async def test_a_user_who_may_not_hear_events_says_so_once_and_sweeps(
    sweeping: SweeperMaker,
    redis_url: str,
    table: RouteStore,
    admin: redis.Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    admin.acl_setuser(
        "deaf",
        enabled=True,
        passwords=["+pw"],
        categories=["+@all"],
        keys=["*"],
        reset_channels=True,
        channels=[table.keys.changes],
    )
    try:
        async with sweeping(redis_url.replace("//", "//deaf:pw@")):
            for number in range(3):
                table.register(broker(), [])
                await until_ended(table, *["broker-a"] * (number + 1))
    finally:
        admin.acl_deluser("deaf")
    assert [record.levelname for record in caplog.records if "keyspace events" in record.getMessage()] == [
        "INFO"
    ]
