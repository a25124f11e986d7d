"""A registry in memory for the unit tests of services: the real clients and scripts, without a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self

from ..client import AsyncRouteClient, ClientConfig, RouteClient
from ..registry import (
    MASTER_ID,
    AsyncRouteStore,
    Broker,
    NotFound,
    Registration,
    RegistryConfig,
    RouteStore,
    TopicConfig,
)
from ..registry.checks import check_seconds
from ..registry.plans import last_change_id
from ..registry.plans.expiry import lease_of

try:
    import fakeredis
except ModuleNotFoundError:
    from ..extras import check

    check("sharedroutes.testing", "testing")
    raise

__all__ = ["InMemoryRegistry"]

_POLL_S: Final = 0.001

_PROMPT: Final = ClientConfig(reconnect_s=0.1, jitter_s=0.0, missing_retry_s=0.0)


class InMemoryRegistry:
    """A registry in this process, and the events that a test makes happen to it; thread-safe.

    Brokers live until the test ends them: a lease lasts a day by default, and `expire` or `advance` ends it.
    Stores and clients are the real ones. Clients use the real clock: a test that waits for them gives them
    short times in their ClientConfig.
    """

    def __init__(self, config: RegistryConfig | None = None) -> None:
        self.config = config or RegistryConfig(lease_ttl_s=86_400.0)
        self._server = fakeredis.FakeServer()
        self._redis: Any = fakeredis.FakeRedis(
            server=self._server, retry=None
        )  # a store that is away fails at once
        self.store = RouteStore.from_client(self._redis, self.config)
        """The store, for all that agents and operators do; see RouteStore."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Make the registry unreachable for good: clients that still run serve what they know."""
        self._server.connected = False
        self._redis.close()

    # --- what the code under test gets ----------------------------------------------------------------------

    def client(self, config: ClientConfig = _PROMPT) -> RouteClient:
        """Return a client of this registry that is not started yet, as RouteClient.from_url does.

        Its default configuration has short pauses, so that the client is back as soon as the store is.
        """
        redis = fakeredis.FakeRedis(server=self._server, retry=None)
        return RouteClient.from_client(redis, config, namespace=self.config.namespace)

    def async_client(self, config: ClientConfig = _PROMPT) -> AsyncRouteClient:
        """Return a client for asyncio that is not started yet; see `client`."""
        redis = fakeredis.FakeAsyncRedis(server=self._server, retry=None)
        return AsyncRouteClient.from_client(redis, config, namespace=self.config.namespace)

    def async_store(self) -> AsyncRouteStore:
        """Return a store for asyncio over this registry, for one event loop."""
        return AsyncRouteStore.from_client(
            fakeredis.FakeAsyncRedis(server=self._server, retry=None), self.config
        )

    # --- what happens to brokers ----------------------------------------------------------------------------

    def register(
        self, broker: Broker, topics: Iterable[TopicConfig] | Mapping[str, TopicConfig]
    ) -> Registration:
        """Register a broker with exactly these topics; see RouteStore.register."""
        return self.store.register(broker, topics)

    def unregister(self, broker_name: str, broker_id: int = MASTER_ID) -> None:
        """Shut a broker down in order: clients believe that at once. Raises NotFound."""
        owner = self.store.owner(broker_name, broker_id)
        if owner is None:
            raise NotFound(f"broker {broker_name}:{broker_id} is not alive in this registry")
        self.store.unregister(owner)

    def expire(self, broker_name: str, broker_id: int = MASTER_ID) -> None:
        """Let a broker die: its lease ends now, and its end is announced. Raises NotFound.

        Whether a client believes that depends on what else it knows: see "What a loss needs to be believed"
        in docs/client/freshness.md.
        """
        left_ms = self._redis.pttl(self.store.keys.lease(broker_name, broker_id))
        if left_ms < 0:
            raise NotFound(f"broker {broker_name}:{broker_id} is not alive in this registry")
        self._age(broker_name, broker_id, left_ms)

    def advance(self, seconds: float) -> None:
        """Let time pass for the store: leases and hints come nearer to their end, or end."""
        check_seconds("seconds", seconds, 0)
        ms, keys = round(seconds * 1000), self.store.keys
        for hint in self._redis.zrange(keys.hints, 0, -1):
            self._redis.zincrby(keys.hints, -ms, hint)
        for member in self._redis.zrange(keys.deadlines, 0, -1):
            lease = lease_of(member.decode())
            if lease is not None:
                self._age(*lease, ms)

    def _age(self, broker_name: str, broker_id: int, ms: int) -> None:
        """Bring the end of a lease nearer, and announce it once it is reached."""
        keys = self.store.keys
        key = keys.lease(broker_name, broker_id)
        self._redis.zincrby(keys.deadlines, -ms, keys.lease_member(broker_name, broker_id))
        left_ms = self._redis.pttl(key) - ms
        if left_ms > 0:
            self._redis.pexpire(key, left_ms)
        else:
            self._redis.delete(key)
            self.store.expire(broker_name, broker_id)

    # --- what happens to the store --------------------------------------------------------------------------

    @contextmanager
    def unavailable(self) -> Iterator[None]:
        """Make the store unreachable within a `with` block: every call raises StoreUnavailable."""
        self._server.connected = False
        try:
            yield
        finally:
            self._server.connected = True

    def lose_everything(self) -> None:
        """Delete all data of the store, as a restart without persistence does."""
        self._redis.flushall()

    # --- waiting for clients --------------------------------------------------------------------------------

    def settle(self, client: RouteClient, timeout_s: float = 5.0) -> None:
        """Wait until a client knows all that happened so far; raises TimeoutError, StoreUnavailable."""
        for _ in self._tries(client, timeout_s):
            time.sleep(_POLL_S)

    async def settle_async(self, client: AsyncRouteClient, timeout_s: float = 5.0) -> None:
        """Wait as `settle` does, for a client for asyncio."""
        for _ in self._tries(client, timeout_s):
            await asyncio.sleep(_POLL_S)

    def _tries(self, client: RouteClient | AsyncRouteClient, timeout_s: float) -> Iterator[None]:
        until = time.monotonic() + timeout_s
        newest = self.store.run(last_change_id(self.store.keys))
        while not client.has_taken_in(newest):
            if time.monotonic() > until:
                raise TimeoutError(f"the client has not taken in all changes within {timeout_s} s")
            yield
