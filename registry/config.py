"""The settings of a registry; units are in the names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, TypedDict

from .checks import check_int, check_seconds, check_text
from .errors import InvalidInput

_NAMESPACE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_MAX_CHUNK_TOPICS: Final = 2_000
_MAX_ACTOR_BYTES: Final = 256
_MIN_CONNECTIONS: Final = 3
"""For a doorbell, for lease events, and for calls."""


class Signature(TypedDict):
    """Who wrote a change: attributes of Change."""

    by: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """Where a registry lives in Redis and how it behaves; raises InvalidInput for values that do not fit."""

    namespace: str = "sharedroutes"
    """Which registry of the store. All keys carry it as their hash tag, so one registry lives in one slot of
    a Redis Cluster."""

    lease_ttl_s: float = 15.0
    """How long a broker may be silent before it is dead; at least twice its agent's heartbeat interval. Less
    = found sooner, and a slow agent is taken for a dead one."""

    sweeper_lease_s: float = 1.0
    """How long the process that announces the end of leases may be silent before another one takes over; less
    = sooner, for more small calls."""

    call_deadline_s: float = 3.0
    """The longest wait for one answer of the store (RocketMQ: mqClientApiTimeout); less = failures are told
    sooner, and a slow store seems to be away."""

    connect_deadline_s: float = 1.0
    """The longest wait for a connection to the store; less = the next server is asked sooner, and a far one
    seems to be away."""

    max_connections: int = 16
    """Connections of one store object, at least 3; a caller waits for a free one up to the call deadline.
    More = more lookups of unknown topics at once, for more connections of the store.

    Every subscription holds one: the doorbell of a client or a follower, the lease events of a sweeper.
    """

    chunk_topics: int = 300
    """Topics in one script call: 300 keep Redis busy for 1 ms, and for 3 ms when its tables grow. More =
    fewer round trips of a registration, and the store is busy for longer in one go."""

    feed_max_entries: int = 100_000
    """How many entries the change stream keeps; a follower further behind reads everything again. More takes
    more memory of the store."""

    feed_min_age_s: float = 600.0
    """Entries younger than this are kept even beyond `feed_max_entries`, which matters in times of many
    changes."""

    actor: str = ""
    """Who writes, as the records of the change stream say it; empty = they do not."""

    store_user: str = ""
    """By whose rights in the store, as the records say it; a store's URL that names a user decides."""

    def __post_init__(self) -> None:
        for name in ("actor", "store_user"):
            check_text(name, getattr(self, name), _MAX_ACTOR_BYTES, empty=True)
        namespace: object = self.namespace
        if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
            raise InvalidInput(f"namespace: {self.namespace!r} is not 1 to 64 letters, digits or _ . : -")
        for name in ("lease_ttl_s", "sweeper_lease_s", "call_deadline_s", "connect_deadline_s"):
            check_seconds(name, getattr(self, name), 0.05)
        check_seconds("feed_min_age_s", self.feed_min_age_s, 0)
        check_int("max_connections", self.max_connections, _MIN_CONNECTIONS, 10_000)
        check_int("feed_max_entries", self.feed_max_entries, 1, 10**9)
        check_int("chunk_topics", self.chunk_topics, 1, _MAX_CHUNK_TOPICS)  # Lua cannot unpack many more

    @classmethod
    def of(cls, config: RegistryConfig | None, namespace: str | None) -> RegistryConfig:
        """Return the given settings, or the defaults, with the given namespace unless that is None."""
        config = config or cls()
        return config if namespace is None else replace(config, namespace=namespace)

    @property
    def signature(self) -> Signature:
        """Who writes, as the records of changes say it."""
        return {"by": self.actor, "user": self.store_user}

    @property
    def lease_ttl_ms(self) -> int:
        """The lease TTL in the unit of Redis."""
        return round(self.lease_ttl_s * 1000)

    @property
    def feed_bounds(self) -> str:
        """The bounds of the change stream as the scripts take them: entries, minimum age in ms."""
        return f"{self.feed_max_entries} {round(self.feed_min_age_s * 1000)}"
