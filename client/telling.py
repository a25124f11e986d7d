"""Telling observers what happened inside a lock: when it is free again, and in the order of events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from .observers import Event, Tell


class Telling:
    """What is to be told when a lock is free: an observer may ask for anything that takes it.

    `add` and `restarted` are called by who holds the lock, `go` by who does not. `restart` is called for a
    broker that was started anew, before the events are told.
    """

    def __init__(self, lock: threading.Lock, tell: Tell, restart: Callable[[str], None]) -> None:
        self._lock = lock
        self._tell = tell
        self._restart = restart
        self._restarted: list[str] = []
        self._events: list[Event] = []
        self._is_telling = False

    def add(self, event: Event) -> None:
        """Tell of an event later."""
        self._events.append(event)

    def restarted(self, broker_names: Iterable[str]) -> None:
        """These brokers were started anew."""
        self._restarted.extend(broker_names)

    def go(self) -> None:
        """Tell all: what an observer causes comes after what it is told just now."""
        while self._restarted or self._events:
            with self._lock:
                if self._is_telling or not (self._restarted or self._events):
                    return
                self._is_telling = True
                restarted, events = [*self._restarted], [*self._events]
                self._restarted.clear()
                self._events.clear()
            try:
                for broker_name in restarted:
                    self._restart(broker_name)
                for event in events:
                    self._tell(event)
            finally:
                self._is_telling = False

    def begin_copy(self) -> None:
        """This is a copy of the process: what happened in the original is told there."""
        self._events.clear()
        self._is_telling = False
