"""What the blocking modules have in place of `concurrency_async`, by the same names (tools/unasync.py)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing as closing_fully
from threading import Condition, Lock
from time import sleep
from typing import Any, Final

__all__ = ["Condition", "Lock", "closing_fully", "sleep"]  # imported to be imported from here

_log: Final = logging.getLogger("sharedroutes.registry")

LONGEST_WAIT_S: Final = 0.1
"""The longest wait in one go, so that `stop` is prompt: it interrupts a thread only in `pause`."""


def close_fully(thing: Any) -> None:
    """Close something, to the end."""
    thing.close()


def learn_nodes(client: object) -> None:
    """Do nothing: the blocking client of a Cluster learns its nodes when it is made."""


class Background:
    """Runs a function on a daemon thread, from start() to stop().

    The function checks `is_stopping` and waits by `pause`.
    """

    def __init__(self, run: Callable[[], None], name: str, *, patience_s: float) -> None:
        self._run = run
        self._name = name
        self._patience_s = patience_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether the function should return: stop() was called."""
        return self._stop.is_set()

    @property
    def is_running(self) -> bool:
        """Whether the thread runs; it does not in a forked child."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, unless that was done."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End pauses, and wait for the end of the thread, for at most `patience_s`.

        A call to a store that hangs ends at its deadline; a daemon thread does not keep the process alive.
        """
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self._patience_s)

    def pause(self, seconds: float) -> None:
        """Wait, or return early when stop() is called."""
        self._stop.wait(seconds)


def run_blocking(work: Callable[[], None]) -> None:
    """Call a function that waits for the disk or the network: a thread may do so."""
    work()


class DiskThread:
    """Does work that waits for the disk in a daemon thread, one at a time; a process may end without it."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        """The one that was begun last."""

    @property
    def is_busy(self) -> bool:
        """Whether what was begun goes on."""
        return self.thread is not None and self.thread.is_alive()

    def begin(self, work: Callable[[], None]) -> None:
        """Begin work while nothing else is under way; it is left out if the system has no thread for it."""
        thread = threading.Thread(target=work, name="sharedroutes-disk", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            _log.warning("nothing is written: %s", error)
        else:
            self.thread = thread


class Aside(DiskThread):
    """What is done aside for a reader in a thread."""

    def finish(self, patience_s: float) -> None:
        """Wait for the end of what was begun, for at most so long: a disk may hang."""
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(patience_s)
