"""Fleet hints among running clients: who has not met a fault yet goes round it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

import pytest
import redis

from sharedroutes.client import AsyncRouteClient, HintConfig, RouteClient, brokers
from sharedroutes.client.brokers import Pace
from sharedroutes.client.observers.events import BrokersSuspected
from sharedroutes.registry import EmbeddedServer, RouteStore
from sharedroutes.registry.acl import Role, acl_rules
from sharedroutes.registry.keys import Keys
from tests.client.clients import QUICK, AnyClient, OwnStage, Stage, chosen, until_held_by, until_known
from tests.client.heard import Heard, plain
from tests.registry.builders import broker, topics
from tests.support import await_until

KEY: Final = Keys("sharedroutes").hints
NAMES: Final = ("broker-a", "broker-b", "broker-c", "broker-d")
HINTS: Final = HintConfig()
PACE: Final = Pace(failures_before_hint=2, min_interval_s=0.05, ttl_s=30.0)
"""Given at once, and until they are withdrawn: no test lasts so long that one ends by itself."""

PASSWORD: Final = "correct-horse"  # noqa: S105 - of a server that lives for one test


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "PACE", PACE)


@pytest.fixture
def four(agent: RouteStore) -> RouteStore:
    """Return a store on the shared server in which four brokers hold topic t0."""
    for name in NAMES:
        agent.register(broker(name), topics(1))
    return agent


def fail(client: AnyClient, name: str) -> None:
    """Let a client not reach a broker so often that it makes a hint."""
    for _ in range(PACE.failures_before_hint):
        plain(client).record(name, 0.01, failed=True)


def suspected(client: AnyClient) -> set[str]:
    return {name for name, state in plain(client).faults().items() if state.suspected}


async def until_suspected(client: AnyClient, *names: str) -> None:
    await await_until(lambda: suspected(client) == {*names}, description=f"{names} are suspected")


@contextlib.asynccontextmanager
async def several(stage: Stage, count: int) -> AsyncIterator[list[AnyClient]]:
    """Yield running clients that know the topic."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(stage.client(QUICK, hints=HINTS)) for _ in range(count)]
        for client in clients:
            await until_known(client, *NAMES)
        yield clients


# --- among honest clients -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("four")
async def test_whom_three_cannot_reach_a_fourth_avoids_before_its_own_first_failure(stage: Stage) -> None:
    heard = Heard()
    async with (
        several(stage, 3) as failing,
        stage.client(QUICK, hints=HINTS, observers=(heard,)) as fourth,
    ):
        await until_known(fourth, *NAMES)
        assert await chosen(fourth) == {*NAMES}
        for client in failing[:2]:
            fail(client, "broker-a")
        fail(failing[2], "broker-b")
        fail(failing[2], "broker-a")
        await until_suspected(fourth, "broker-a")
        assert await chosen(fourth) == {"broker-b", "broker-c", "broker-d"}
        state = plain(fourth).faults()["broker-a"]
        assert (state.consecutive_failures, state.isolated_for_s, state.reason) == (0, 0.0, "suspected")
        assert "broker-b" not in plain(fourth).faults()
    assert heard.all(BrokersSuspected) == [BrokersSuspected(("broker-a",))]


@pytest.mark.usefixtures("four")
async def test_a_client_of_either_kind_hears_those_of_the_other(redis_url: str) -> None:
    config = replace(QUICK, hints=HINTS)
    async with contextlib.AsyncExitStack() as stack:
        threads = [stack.enter_context(RouteClient.from_url(redis_url, config)) for _ in range(2)]
        tasks = [
            await stack.enter_async_context(AsyncRouteClient.from_url(redis_url, config)) for _ in range(2)
        ]
        for client in threads:
            client.prefetch(["t0"])
        for task in tasks:
            await until_known(task, *NAMES)
        for each in (*threads, tasks[0]):
            for _ in range(PACE.failures_before_hint):
                each.record("broker-a", 0.01, failed=True)
        await until_suspected(tasks[1], "broker-a")
        assert await chosen(tasks[1]) == {"broker-b", "broker-c", "broker-d"}


@pytest.mark.usefixtures("four")
async def test_a_success_withdraws_a_hint_and_without_enough_others_the_broker_is_used_again(
    stage: Stage, admin: redis.Redis
) -> None:
    heard = Heard()
    async with (
        several(stage, 3) as failing,
        stage.client(QUICK, hints=HINTS, observers=(heard,)) as fourth,
    ):
        await until_known(fourth, *NAMES)
        for client in failing:
            fail(client, "broker-a")
        await until_suspected(fourth, "broker-a")
        plain(failing[1]).record("broker-a", 0.01)
        await until_suspected(fourth)
        assert await chosen(fourth) == {*NAMES}
        assert admin.zcard(KEY) == 2
        for client in (failing[0], failing[2]):
            plain(client).record("broker-a", 0.01)
        await await_until(lambda: not admin.exists(KEY), description="all hints are withdrawn")
    assert heard.all(BrokersSuspected) == [BrokersSuspected(("broker-a",)), BrokersSuspected(())]


# --- among others -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("four")
async def test_a_single_client_that_lies_has_no_effect(stage: Stage) -> None:
    heard = Heard()
    async with stage.client(QUICK, hints=HINTS, observers=(heard,)) as client:
        await until_known(client, *NAMES)
        for _ in range(5):
            stage.agent.hint("liar", NAMES, ttl_s=60.0)
        for voice in ("x", "y", "z"):  # they come after it, so who hears them has heard the liar
            stage.agent.hint(voice, ["broker-c"], ttl_s=30.0)
        await until_suspected(client, "broker-c")
        assert await chosen(client) == {"broker-a", "broker-b", "broker-d"}
    assert heard.all(BrokersSuspected) == [BrokersSuspected(("broker-c",))]


async def user_of(server: EmbeddedServer, role: Role) -> str:
    """Make a user of this role; return the address with its name."""
    with redis.Redis.from_url(server.url) as admin:
        admin.execute_command(*acl_rules("sharedroutes", role, user="u", password=f">{PASSWORD}").split(" "))
    return server.url.replace("//", f"//u:{PASSWORD}@")


async def test_a_client_without_the_right_says_so_once_and_goes_on(
    own: OwnStage, caplog: pytest.LogCaptureFixture
) -> None:
    own.register(*NAMES)
    url = await user_of(own.server, Role.READER)
    async with own.make_client(url, QUICK, hints=HINTS) as client:
        await until_known(client, *NAMES)
        fail(client, "broker-a")
        await await_until(lambda: "takes no hints from this user" in caplog.text, description="it is said")
        fail(client, "broker-b")
        for voice in ("x", "y", "z"):
            own.agent.hint(voice, ["broker-d"], ttl_s=30.0)
        await until_suspected(client, "broker-d")
        own.agent.register(broker("broker-e"), topics(1))
        await until_held_by(client, "t0", *NAMES, "broker-e")
        health = client.health()
        assert (health.source, health.last_error) == ("live", None)
    assert caplog.text.count("takes no hints from this user") == 1
    assert {*own.agent.hints()} == {"broker-d"}


async def test_a_hinter_may_give_hints(own: OwnStage) -> None:
    own.register(*NAMES)
    url = await user_of(own.server, Role.HINTER)
    async with own.make_client(url, QUICK, hints=HINTS) as client:
        await until_known(client, *NAMES)
        fail(client, "broker-a")
        await await_until(lambda: {*own.agent.hints()} == {"broker-a"}, description="the hint is given")


@pytest.mark.usefixtures("four")
async def test_who_was_not_asked_to_gives_no_hints_and_hears_none(stage: Stage, admin: redis.Redis) -> None:
    async with stage.client() as silent:
        await until_known(silent, *NAMES)
        for _ in range(5):
            fail(silent, "broker-a")
        for number in range(3):  # each is heard of only after a chance to give hints
            stage.agent.register(broker(f"later-{number}"), topics(1, first=10 + number))
            await until_held_by(silent, f"t{10 + number}", f"later-{number}")
        assert not admin.exists(KEY)
        async with several(stage, 1) as (giving,):
            for voice in ("x", "y", "z"):
                stage.agent.hint(voice, ["broker-b"], ttl_s=30.0)
            fail(giving, "broker-a")
            await until_suspected(giving, "broker-b")
            await await_until(lambda: len(stage.agent.hints()) == 2, description="the hint is given")
            assert len(stage.agent.hints()["broker-a"]) == 1
            assert suspected(silent) == set()
            assert plain(silent)._core.brokers.hints is None
