"""Who watches, while everything else breaks, that no lookup names a broker whose lease has ended."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final, NamedTuple, Self

import redis

from sharedroutes.registry import RegistryConfig, RegistryError, RouteStore
from sharedroutes.registry.keys import Keys

BROKER: Final = "broker-a"
TOPIC: Final = "orders"

_ANSWER_S: Final = 0.5
_IMPATIENT: Final = RegistryConfig(call_deadline_s=_ANSWER_S, connect_deadline_s=_ANSWER_S)
_KEYS: Final = Keys(_IMPATIENT.namespace)
_LEASE: Final = _KEYS.lease(BROKER, 0)
_EVERY_S: Final = 0.01


class Look(NamedTuple):
    """What the server itself says of the broker's lease, at one moment."""

    at_ms: float
    left_ms: float | None
    """Until the lease ends; None = there is none."""

    epoch: str | None
    """Of whoever holds the lease; None = nobody does."""

    change_id: str
    """Of the last change."""

    @property
    def ends_at_ms(self) -> float:
        """When the lease ends, by the server's clock."""
        assert self.left_ms is not None
        return self.at_ms + self.left_ms


class Auditor:
    """Looks the broker up again and again, and holds every answer against the lease that the server has.

    A lookup is wrong that names an address while, before and after it, there is no lease, and nothing
    happened in between: whoever registers says so in the change stream.
    """

    def __init__(self, url: str, lookups_at: str = "") -> None:
        """`lookups_at`: another server than that of the leases, so that the answers are wrong."""
        self.lookups = 0
        self._url = url
        self._lookups_at = lookups_at or url
        self._wrong: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="auditor")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Check that no lookup was wrong so far, and that the auditor still looks."""
        assert not self._wrong, "\n".join(self._wrong)
        assert self._thread.is_alive()

    def _work(self) -> None:
        try:
            with (
                RouteStore.from_url(self._lookups_at, _IMPATIENT) as store,
                plain_client(self._url, _ANSWER_S) as admin,
            ):
                while not self._over.wait(_EVERY_S):
                    with suppress(RegistryError, redis.RedisError):  # the server is paused or dead
                        self._look(store, admin)
        except Exception as error:
            self._wrong.append(f"the auditor ended with {error!r}")
            raise

    def _look(self, store: RouteStore, admin: redis.Redis) -> None:
        before = look(admin)
        route = store.routes([TOPIC]).get(TOPIC)
        after = look(admin)
        self.lookups += 1
        if (
            route is not None
            and before.left_ms is after.left_ms is None
            and before.change_id == after.change_id
        ):
            self._wrong.append(f"no lease, and yet {route}; before {before}, after {after}")


def look(admin: redis.Redis) -> Look:
    """Ask the server for the broker's lease; raises what redis-py raises."""
    with admin.pipeline(transaction=True) as pipeline:
        pipeline.time()
        pipeline.pttl(_LEASE)
        pipeline.get(_LEASE)
        pipeline.xrevrange(_KEYS.changes, count=1)
        (seconds, us), left_ms, lease, changes = pipeline.execute()
    return Look(
        at_ms=seconds * 1_000 + us / 1_000,
        left_ms=left_ms if left_ms >= 0 else None,
        epoch=lease.decode().partition(" ")[0] if lease else None,
        change_id=changes[0][0].decode() if changes else "",
    )


def plain_client(url: str, deadline_s: float) -> redis.Redis:
    """Return a client of redis-py's own that waits so long for an answer."""
    return redis.Redis.from_url(url, socket_timeout=deadline_s, socket_connect_timeout=deadline_s)
