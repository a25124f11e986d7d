"""Who asks the primary itself, all the time: for each lease, for the stream, and for what a lookup finds."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Self, TypeAlias

import msgspec
import redis
from msgspec.structs import replace

from sharedroutes.registry import MASTER_ID, EmbeddedServer, RegistryError, RouteStore
from sharedroutes.registry.keys import Keys
from tests.faults.checker.history import FAILOVER, STORE, Change, Fault, Lease, Record, Route, Writer, now_us
from tests.faults.matrix.sender import queues_of, replicas_of
from tests.faults.matrix.settings import NEWCOMER, ON, REGISTRY, SLAVE, TOPICS
from tests.faults.matrix.stores import NAMESPACE, Store
from tests.faults.matrix.watcher import Watcher

KEYS: Final = Keys(NAMESPACE)
_EVERY_S: Final = 0.05
_SAID_AGAIN_S: Final = 0.5
_ORIGIN: Final = "0-0"
_MOST: Final = 10_000
_OF_A_LEASE: Final = 3
"""Replies to what is asked of one."""

_REPLICAS: Final = tuple(sorted({*((broker, MASTER_ID) for broker in ON), SLAVE, NEWCOMER}))
"""Whose leases there may be."""

_Of: TypeAlias = tuple[str, int]
"""Broker and id."""


class Auditor:
    """Writes down what the primary says of leases and stream, and looks topics up as anybody can."""

    def __init__(self, store: Store, history: Writer) -> None:
        self.leases: dict[_Of, tuple[int, str]] = {}
        """Broker and id to epoch and address, as the primary said last."""

        self._store = store
        self._history = history
        self._lock = threading.Lock()
        self._primary: tuple[EmbeddedServer | None, int] = None, 0
        """Whom we asked last, and when."""

        self.position = _ORIGIN
        """The id of the newest change that was seen."""

        self._said_at_s: dict[_Of, float] = {}
        self._seen_us: dict[_Of, int] = {}
        """When a lease was there last."""

        self._found: dict[str, tuple[object, float]] = {}
        self._lookups = RouteStore.from_url(store.url, REGISTRY)
        self._watchers = Watcher("auditor", _EVERY_S, self.look), Watcher("lookups", _EVERY_S, self._look_up)

    def __enter__(self) -> Self:
        for watcher in self._watchers:
            watcher.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for watcher in self._watchers:
            watcher.__exit__(*error)
        self._lookups.close()

    def lease(self, broker: str, broker_id: int = MASTER_ID) -> tuple[int, str] | None:
        """Return epoch and address of a lease, as the primary said last; None = there is none."""
        return self.leases.get((broker, broker_id))

    def is_leased(self, address: str) -> bool:
        """Whether an address has a lease, under whichever id, as the primary said last."""
        return any(at == address for _, at in [*self.leases.values()])

    def check(self) -> None:
        """Raise what ended the auditor, if something has."""
        for watcher in self._watchers:
            watcher.check()

    def look(self) -> None:
        """Write down what the primary says now, if there is one."""
        self.at_primary()

    def at_primary(self, *commands: Sequence[str | bytes | int]) -> list[Any] | None:
        """Look, and run commands in the same step: the stream is read before they change it.

        Return their replies; None = there is no primary that answers.
        """
        with self._lock, suppress(redis.RedisError, OSError):
            server = self._store.primary()
            if server is not None:
                return self._look(server, commands)
        return None

    def _look_up(self) -> None:
        with suppress(RegistryError):
            began_us = now_us()
            found = self._lookups.routes(TOPICS)
            leases, now_s = dict(self.leases), time.monotonic()
            for topic in TOPICS:
                brokers, queues = replicas_of(found.get(topic)), queues_of(found.get(topic))
                before, said_at_s = self._found.get(topic, (None, 0.0))
                if (brokers, queues, leases) != before or now_s - said_at_s >= _SAID_AGAIN_S:
                    self._found[topic] = (brokers, queues, leases), now_s
                    said = Route(topic=topic, brokers=brokers, queues=queues, fresh=True, began_us=began_us)
                    self._history.write(said)

    def _look(self, server: EmbeddedServer, commands: Sequence[Sequence[str | bytes | int]]) -> list[Any]:
        began_us = now_us()
        # A server that is full refuses every MULTI, and so all looks, if there is nothing to change.
        with self._store.admin(server).pipeline(transaction=bool(commands)) as pipeline:
            for broker, broker_id in _REPLICAS:
                pipeline.hget(KEYS.broker(broker), f"vouched:{broker_id}")
                pipeline.pttl(KEYS.lease(broker, broker_id))
                pipeline.get(KEYS.lease(broker, broker_id))
            pipeline.time()
            pipeline.execute_command(b"XRANGE", KEYS.changes, "-", "+", "COUNT", 1)
            pipeline.execute_command(b"XREVRANGE", KEYS.changes, "+", "-", "COUNT", 1)
            pipeline.execute_command(b"XRANGE", KEYS.changes, self.position, "+", "COUNT", _MOST)
            for command in commands:
                pipeline.execute_command(*command)
            replies = pipeline.execute(raise_on_error=False)
        self._say_failover(server)
        of_leases = _OF_A_LEASE * len(_REPLICAS)
        now, first, last, entries, *rest = replies[of_leases:]
        for place, of in enumerate(_REPLICAS):
            vouched, *lease = replies[_OF_A_LEASE * place : _OF_A_LEASE * (place + 1)]
            self._say_lease(server, of, began_us, _left_ms(vouched, now), *lease)
        if not isinstance(entries, Exception):
            self._say_changes(first, last, entries)
        return list(rest)

    def _say_failover(self, server: EmbeddedServer) -> None:
        """Write down that another server has become the primary, asked for or because it stood still."""
        before, seen_us = self._primary
        now = now_us()
        self._primary = server, now
        if before not in (None, server):
            failover = Fault(name=FAILOVER, target="the store", phase="begin", disturbs=(STORE,), loses=True)
            self._history.write(replace(failover, at_us=seen_us))
            self._history.write(replace(failover, phase="end"))

    def _say_lease(
        self, server: EmbeddedServer, of: _Of, began_us: int, vouched_ms: int, left_ms: Any, value: Any
    ) -> None:
        """Write down a lease as of the begin of the look that saw it, and its absence as of the end."""
        before, seen_us = self.leases.get(of), self._seen_us.get(of, 0)
        found: tuple[int, str] | None = None
        if isinstance(value, bytes) and value.partition(b" ")[0].isdigit():
            epoch, _, address = value.decode(errors="replace").partition(" ")
            found = int(epoch), address
        if found is None:
            self.leases.pop(of, None)
        else:
            self.leases[of], self._seen_us[of] = found, began_us
        said_again = time.monotonic() - self._said_at_s.get(of, 0.0) >= _SAID_AGAIN_S
        if found != before and before is not None:
            self._write_lease(server, of, before, seen_us, 0, 0)
        if found != before or said_again:
            self._said_at_s[of] = time.monotonic()
            at_us = began_us if found else now_us()
            self._write_lease(server, of, found, at_us, left_ms, vouched_ms if found else 0)

    def _write_lease(
        self,
        server: EmbeddedServer,
        of: _Of,
        found: tuple[int, str] | None,
        at_us: int,
        left_ms: Any,
        vouched_ms: int,
    ) -> None:
        epoch, address = found or (None, "")
        left = max(0, left_ms) if found and isinstance(left_ms, int) else 0
        lease = Lease(at_us=at_us, broker=of[0], id=of[1], epoch=epoch, address=address, left_ms=left)
        self._history.write(replace(lease, server=str(server.port), vouched_ms=vouched_ms))

    def _say_changes(self, first: Any, last: Any, entries: Any) -> None:
        newest = last[0][0].decode() if last else _ORIGIN
        if _order(newest) < _order(self.position):  # the store lost what was written
            self.position = _ORIGIN
            return
        previous: str | None = self.position if entries and _id(entries[0]) == self.position else None
        if entries and previous is None and _id(entries[0]) == _id(first[0]):
            previous = _ORIGIN
        for entry in entries[1:] if previous == self.position and previous != _ORIGIN else entries:
            self._history.write(Change(id=_id(entry), previous=previous, record=_record(entry)))
            previous = self.position = _id(entry)


def _left_ms(vouched: Any, now: Any) -> int:
    """Return for how long fronts vouch from now on, by the field of a group and the server's clock."""
    until_ms = vouched.partition(b" ")[0] if isinstance(vouched, bytes) else b""
    if not until_ms.isdigit() or isinstance(now, Exception):
        return 0
    return max(0, int(until_ms) - int(now[0]) * 1_000 - int(now[1]) // 1_000)


def _id(entry: Any) -> str:
    return str(entry[0].decode())


def _order(change_id: str) -> tuple[int, int]:
    ms, _, number = change_id.partition("-")
    return int(ms), int(number)


def _record(entry: Any) -> Record | None:
    fields = entry[1] or []
    given = dict(zip(fields[::2], fields[1::2], strict=True))
    try:
        return msgspec.json.decode(given.get(b"c", b""), type=Record)
    except msgspec.DecodeError:
        return None
