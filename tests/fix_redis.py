"""Fixtures around real servers, and the guard that no test leaves a key the design does not know."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import pytest
import redis

from sharedroutes.registry import AsyncRouteStore, EmbeddedServer, RegistryConfig, RouteStore
from tests.cluster.servers import ClusterServers

_DESIGN: Final = Path(__file__).parents[1] / "docs" / "design" / "table.md"
_NO_TTL: Final = -1

PATIENT: Final = RegistryConfig(call_deadline_s=15.0, connect_deadline_s=15.0)
"""Waits for servers that are well for as long as a busy machine takes; who is to fail in time says when."""

_SHORT_TTL_S: Final = 0.06
_PLACEHOLDERS: Final = {
    "{ns}": r"\{[A-Za-z0-9_.:-]+\}",
    "<topic>": r".+",
    "<broker>": r"[^:]+",
    "<id>": r"\d+",
    "<namespace>": r".+",
}

Store: TypeAlias = AsyncRouteStore
"""What contract tests see: the asyncio store, or the blocking one in the same form."""

StoreMaker: TypeAlias = Callable[..., Store]


class AsyncFromSync:
    """A RouteStore whose methods are coroutines: each runs in a thread, as a blocking caller would."""

    def __init__(self, blocking: Any) -> None:
        self._blocking = blocking

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._blocking, name)
        if name in ("admin", "kv"):
            return AsyncFromSync(member)
        return functools.partial(asyncio.to_thread, member) if callable(member) else member

    def doorbell(self) -> AsyncFromSync:
        return AsyncFromSync(self._blocking.doorbell())

    def lease_events(self) -> AsyncFromSync:
        return AsyncFromSync(self._blocking.lease_events())

    async def aclose(self) -> None:
        self._blocking.close()


@pytest.fixture(scope="session")
def shared_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer | ClusterServers]:
    """Return the one server, or with `--topology cluster` the Cluster, of all tests that do not break it."""
    clustered = request.config.getoption("--topology") == "cluster"
    with ClusterServers() if clustered else EmbeddedServer() as server:
        yield server


@pytest.fixture(scope="session")
def shared_admin(shared_server: EmbeddedServer | ClusterServers) -> Iterator[redis.Redis]:
    """Return the plain client of the shared server, or of the default registry's node of the Cluster."""
    if isinstance(shared_server, ClusterServers):
        server = shared_server.owner(RegistryConfig().namespace)
    else:
        server = shared_server
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def foreign_keys() -> list[str]:
    """Return the list to which a test adds the keys that it plants on purpose."""
    return []


Plant: TypeAlias = Callable[..., None]


@pytest.fixture
def plant(admin: redis.Redis, foreign_keys: list[str]) -> Plant:
    """Return a function (key, kind="list") that puts something foreign into a key: a list, or garbage."""

    def plant(key: str, kind: str = "list") -> None:
        admin.delete(key)
        if kind == "list":
            admin.rpush(key, "foreign")
        else:
            admin.set(key, "garbage")
        foreign_keys.append(key)

    return plant


@pytest.fixture
def admin(
    shared_server: EmbeddedServer | ClusterServers, shared_admin: redis.Redis, foreign_keys: list[str]
) -> Iterator[redis.Redis]:
    """Return a plain client of the emptied shared server; fail a test that leaves a key of no known kind."""
    if isinstance(shared_server, ClusterServers):
        shared_server.flush()  # some tests have registries on other nodes too
    shared_admin.flushall()
    yield shared_admin
    found = offences(shared_admin, foreign_keys)
    assert not found, "\n".join(found)


@pytest.fixture
def redis_url(shared_server: EmbeddedServer | ClusterServers, admin: redis.Redis) -> str:
    """Return the address of the emptied shared server, which is under the guard of `admin`."""
    return shared_server.url


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """Return a fresh server that the test may pause, kill and start again."""
    server = EmbeddedServer().start()
    yield server
    server.kill()  # faster than to stop it


@pytest.fixture(params=["sync", "async"])
def make_store(request: pytest.FixtureRequest, runner: asyncio.Runner) -> Iterator[StoreMaker]:
    """Return a function (url, **settings) -> Store that closes what it made when the test ends."""
    made: list[Store] = []

    def make(url: str, config: RegistryConfig | None = None, **settings: Any) -> Store:
        usual = RegistryConfig() if "call_deadline_s" in settings else PATIENT
        config = replace(config or usual, **settings)
        if request.param == "async":
            store = AsyncRouteStore.from_url(url, config)
        else:
            store = cast("Store", AsyncFromSync(RouteStore.from_url(url, config)))
        made.append(store)
        return store

    yield make
    for store in made:
        runner.run(store.aclose())


@pytest.fixture
def store(make_store: StoreMaker, redis_url: str) -> Store:
    """Return a store on the shared server, with the default settings."""
    return make_store(redis_url)


@pytest.fixture
def short_lived(make_store: StoreMaker, redis_url: str) -> Store:
    """Return a store on the shared server whose leases end soon."""
    return make_store(redis_url, lease_ttl_s=_SHORT_TTL_S)


@dataclass(frozen=True, slots=True)
class _KeyKind:
    """One row of the key table in docs/design/table.md."""

    pattern: re.Pattern[str]
    type_name: str
    expires: bool


def _key_kinds() -> list[_KeyKind]:
    """Read the key table out of docs/design/table.md, so that the guard and the design cannot drift apart."""
    kinds = []
    for line in _DESIGN.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `{ns}:"):
            _, keys, types, *_ = line.split("|")
            names = [name.strip() for name in types.split(",")]
            expires = "PX" in names
            for key, type_name in zip(re.findall("`([^`]+)`", keys), names, strict=not expires):
                kinds.append(_KeyKind(_pattern(key), type_name, expires))
    return kinds


def _pattern(key: str) -> re.Pattern[str]:
    text = re.escape(key)
    for placeholder, pattern in _PLACEHOLDERS.items():
        text = text.replace(re.escape(placeholder), pattern)
    return re.compile(text, re.DOTALL)  # a name may hold line feeds


KINDS: Final = _key_kinds()


def offences(admin: redis.Redis, foreign_keys: Iterable[str] = ()) -> list[str]:
    """Return what is wrong with the keys of a server, a sentence a key; `foreign_keys` are passed over."""
    names = sorted({name.decode() for name in admin.scan_iter(count=1_000)} - {*foreign_keys})
    with admin.pipeline(transaction=False) as pipeline:
        for name in names:
            pipeline.type(name)
            pipeline.pttl(name)
        replies = pipeline.execute()
    found = map(_offence, names, replies[::2], replies[1::2])
    return [sentence for sentence in found if sentence]


def _offence(name: str, type_name: bytes, ttl_ms: int) -> str:
    kind = next((kind for kind in KINDS if kind.pattern.fullmatch(name)), None)
    if kind is None:
        return f"{name}: docs/design/table.md knows no such key"
    if type_name.decode() not in (kind.type_name, "none"):  # none: a lease that has ended since the scan
        return f"{name}: is a {type_name.decode()}, docs/design/table.md says {kind.type_name}"
    if kind.expires and ttl_ms == _NO_TTL:
        return f"{name}: never expires, docs/design/table.md says it does"
    if not kind.expires and ttl_ms != _NO_TTL:
        return f"{name}: expires in {ttl_ms} ms, docs/design/table.md says never"
    return ""
