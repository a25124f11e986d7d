"""Fixtures for tests of the route clients."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from sharedroutes.client.cache import RouteCache
from sharedroutes.registry import EmbeddedServer, RouteStore
from tests.client.attempting import Bench
from tests.client.caches import CONFIG, Rig
from tests.client.clients import ClientMaker, OwnStage, Stage, async_client, sync_client
from tests.client.fake_table import FakeTable
from tests.client.heard import Core
from tests.fix_redis import PATIENT

LASTING: Final = replace(PATIENT, lease_ttl_s=300.0)
"""Its leases, which nobody renews, outlive any test on the slowest machine."""


@pytest.fixture(params=["sync", "async"])
def make_client(request: pytest.FixtureRequest) -> ClientMaker:
    """Return a function (url, config, **settings) -> AnyClient; the test enters what it made."""
    return async_client if request.param == "async" else sync_client


@pytest.fixture
def agent(redis_url: str) -> Iterator[RouteStore]:
    """Return a store on the shared server that does what agents do."""
    with RouteStore.from_url(redis_url, LASTING) as store:
        yield store


@pytest.fixture
def own_agent(own_server: EmbeddedServer) -> Iterator[RouteStore]:
    """Return a store on the test's own server that does what agents do."""
    with RouteStore.from_url(own_server.url, LASTING) as store:
        yield store


@pytest.fixture
def stage(make_client: ClientMaker, redis_url: str, agent: RouteStore) -> Stage:
    """Return the shared server with clients of it of one kind."""
    return Stage(make_client, redis_url, agent)


@pytest.fixture
def own(make_client: ClientMaker, own_server: EmbeddedServer, own_agent: RouteStore) -> OwnStage:
    """Return the test's own server with clients of it of one kind."""
    return OwnStage(make_client, own_server.url, own_agent, own_server)


@pytest.fixture(params=["sync", "async"])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Return brokers to make attempts at, in this thread or in tasks."""
    return Bench(in_tasks=request.param == "async")


@pytest.fixture
def table() -> FakeTable:
    """Return an empty registry in memory."""
    return FakeTable()


@pytest.fixture
def rig() -> Rig:
    """Return a cache that knows nothing, over an empty registry."""
    return Rig(RouteCache(CONFIG, random.Random(1)))


@pytest.fixture
def core(table: FakeTable) -> Core:
    """Return a core that has its place."""
    return Core(table).begin()


@pytest.fixture
def known(core: Core) -> Core:
    """Return a core that knows topic t of broker a, and u of b, c and d."""
    core.table.register("a", "t")
    for name in ("b", "c", "d"):
        core.table.register(name, "u")
    core.ask("t", "u")
    core.look()
    core.heard.take()
    return core
