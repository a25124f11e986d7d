"""What the blocking modules have in place of `concurrency_async`, by the same names (tools/unasync.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing as closing_fully
from threading import Condition, Lock
from time import sleep
from typing import Any, Final

__all__ = [
    "LONGEST_WAIT_S",
    "Background",
    "Condition",
    "Lock",
    "close_fully",
    "closing_fully",
    "learn_nodes",
    "run_blocking",
    "sleep",
]

LONGEST_WAIT_S: Final = 0.1
"""The longest wait that still lets `stop` be prompt: a thread is interrupted in none but `pause`."""


def close_fully(thing: Any) -> None:
    """Close something."""
    thing.close()


def learn_nodes(client: object) -> None:
    """Do nothing: the blocking client of a Cluster knows its nodes from its start."""


class Background:
    """Runs something on a daemon thread of its own, from start() to stop().

    What runs asks `is_stopping` and waits by `pause`.
    """

    def __init__(self, run: Callable[[], None], name: str, *, patience_s: float) -> None:
        self._run = run
        self._name = name
        self._patience_s = patience_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether to end: after stop()."""
        return self._stop.is_set()

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended; not so in a forked child."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin, unless that was done."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End pauses, and wait for the end of the thread, but no longer than for `patience_s`.

        A store that hangs lets go of the thread at its deadline, and a daemon thread outlives nobody.
        """
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self._patience_s)

    def pause(self, seconds: float) -> None:
        """Wait, until stop() at the longest."""
        self._stop.wait(seconds)


def run_blocking(work: Callable[[], None]) -> None:
    """Do what waits for the disk or the network: this thread may."""
    work()
