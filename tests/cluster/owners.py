"""Brokers' agents, a reader and a follower, each in a thread: what goes on while a store fails over."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import Final, Self

from sharedroutes.registry import (
    Broker,
    LeaseStatus,
    Registration,
    RegistryConfig,
    RouteStore,
    StaleEpoch,
    StoreUnavailable,
    TopicConfig,
    topic_table,
)
from sharedroutes.registry.plans import ORIGIN
from tests.fix_redis import PATIENT
from tests.support import wait_until

BEAT_S: Final = 0.2
FAILED_OVER_WITHIN_S: Final = 75.0
"""A Sentinel that could not run for 2 s does nothing for 30 s (TILT)."""

CONFIG: Final = RegistryConfig(lease_ttl_s=1.5, call_deadline_s=1.0, connect_deadline_s=0.5)


class Worker(ABC):
    """Takes turns in a thread until the end of a `with` block; only an absent store is no fault."""

    pause_s: float = BEAT_S

    def __init__(self, url: str) -> None:
        self.store = RouteStore.from_url(url, CONFIG)
        self.turns = 0
        self.began_s = 0.0
        """When the last turn that succeeded began, on the monotonic clock."""

        self.outages = 0
        self.fault: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the thread; raise what it could not deal with."""
        self._stopping.set()
        self._thread.join(10)
        self.store.close()
        if self.fault is not None:
            raise self.fault

    @abstractmethod
    def turn(self) -> None:
        """Do what this worker does again and again."""

    def _run(self) -> None:
        while not self._stopping.wait(self.pause_s):
            began_s = time.monotonic()
            try:
                self.turn()
                self.turns, self.began_s = self.turns + 1, began_s
            except StoreUnavailable:
                self.outages += 1
            except BaseException as fault:  # noqa: BLE001 - told by stop()
                self.fault = fault
                return


class Owner(Worker):
    """An agent: registers, then beats, or, when `changing`, registers a changed table each time."""

    def __init__(self, url: str, broker: Broker, *, changing: bool) -> None:
        super().__init__(url)
        self.broker = broker
        self.pause_s = 0.05 if changing else BEAT_S
        self.written: Mapping[str, TopicConfig] = {}
        self.registrations = 0
        self._changing = changing
        self._held: Registration | None = None
        self._table = self._next(0)

    def settle(self) -> None:
        """Change nothing any more, and beat on; wait until the store has the last table."""
        self._changing = False
        wait_until(beaten_since([self]), timeout_s=FAILED_OVER_WITHIN_S, description="the table is written")

    def turn(self) -> None:
        try:
            if self._held is None or self._changing:
                self._register(self._next(self.turns))
            elif self.store.heartbeat(self._held) is not LeaseStatus.OK:
                self._register(self._table)
        except StaleEpoch as error:
            if error.current_epoch > error.epoch:
                raise
            self._held = None  # the store has lost it: nobody took the broker over
            self._register(self._table)

    def _register(self, table: Mapping[str, TopicConfig]) -> None:
        self._table = table
        self._held = self.store.register(self.broker, table, held=self._held)
        self.written = table
        self.registrations += 1

    def _next(self, number: int) -> Mapping[str, TopicConfig]:
        """Return a table that adds, removes and changes a topic of the one before."""
        name = self.broker.broker_name
        queues = number % 8 + 1
        return topic_table(
            [TopicConfig(f"{name}-always", queues, queues)]
            + [TopicConfig(f"{name}-{i}") for i in range(number, number + 3)]
        )


def beaten_since(owners: Sequence[Owner]) -> Callable[[], bool]:
    """Return a predicate: every owner has had a whole turn since now."""
    marks = [owner.turns for owner in owners]
    return lambda: all(owner.turns >= mark + 2 for owner, mark in zip(owners, marks, strict=True))


class Reader(Worker):
    """Looks up topics and notes the addresses that it was given."""

    pause_s = 0.005

    def __init__(self, url: str, *topics: str) -> None:
        super().__init__(url)
        self._topics = topics
        self.addresses: set[str] = set()

    def turn(self) -> None:
        for route in self.store.routes(self._topics).values():
            for data in route.broker_datas:
                self.addresses |= {*data.broker_addrs.values()}


class Follower(Worker):
    """Follows the feed from its beginning; after `lost`, from there again."""

    pause_s = 0.02

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.seen: list[str] = []
        self.lost = 0
        self._position = ORIGIN

    def turn(self) -> None:
        page = self.store.changes_since(self._position)
        if page.lost:
            self.lost += 1
            self.seen.clear()
            self._position = ORIGIN
            return
        self.seen += [change.change_id for change in page.changes]
        self._position = page.position


def stream_of(url: str) -> list[str]:
    """Return the ids of all changes."""
    with closing(RouteStore.from_url(url, PATIENT)) as store:
        return [change.change_id for change in store.changes_since(ORIGIN, 100_000).changes]
