"""Who waits for routes to change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from weakref import WeakSet


class Watch:
    """The topics that changed since somebody last looked: each once, however often it did; thread-safe.

    `topics` None = all that the client knows.
    """

    def __init__(self, topics: Collection[str] | None, wake: Callable[[], None]) -> None:
        self._topics = None if topics is None else frozenset(topics)
        self._wake = wake
        self._lock = threading.Lock()
        self._changed: OrderedDict[str, None] = OrderedDict()
        self.over = False
        """Whether nobody wants to know any more."""

    def close(self) -> None:
        """Want to know no more, and wake who waits."""
        self.over = True
        self._wake()

    def tell(self, topics: Collection[str]) -> None:
        """Take in changes and wake who waits for them."""
        concerned = [topic for topic in topics if self._topics is None or topic in self._topics]
        if concerned:
            with self._lock:
                self._changed.update(dict.fromkeys(concerned))
            self._wake()

    def take(self) -> str | None:
        """Return the topic that changed first of those not taken yet; None = no other has."""
        with self._lock:
            return self._changed.popitem(last=False)[0] if self._changed else None


class Watches:
    """All who wait, for as long as anybody holds them; thread-safe."""

    def __init__(self) -> None:
        self._all: WeakSet[Watch] = WeakSet()
        self._lock = threading.Lock()
        self._over = False

    def add(self, watch: Watch) -> None:
        """Tell somebody of every change from now on; nobody any more after close()."""
        with self._lock:
            self._all.add(watch)
            if self._over:
                watch.close()

    def remove(self, watch: Watch) -> None:
        """Tell somebody no more."""
        with self._lock:
            self._all.discard(watch)

    def tell(self, topics: Collection[str]) -> None:
        """Tell all whom it concerns."""
        with self._lock:
            watches = list(self._all)
        for watch in watches:
            watch.tell(topics)

    def close(self) -> None:
        """Let everybody go: nothing will come any more."""
        with self._lock:
            self._over = True
            watches = list(self._all)
        for watch in watches:
            watch.close()

    def abandon(self) -> None:
        """Let everybody go in a copy of the process, where nobody waits and locks may be held."""
        for watch in list(self._all):
            watch.over = True
