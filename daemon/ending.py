"""Ends a process by signals, and in time whatever hangs in it."""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Final, NamedTuple, Self

_STOPS: Final = (signal.SIGTERM, signal.SIGINT)


class Work(NamedTuple):
    """What has to be ended."""

    stop: Callable[[], object]
    """Asks it to end; called in the main thread, between any two of its steps."""

    allowed_s: Callable[[int], float]
    """Returns how long it may take to end, after so many signals."""

    last: Callable[[], object]
    """Called just before the process is ended because that took too long."""


class Ending:
    """Obeys SIGTERM and SIGINT while it is entered, and ends the process in time whatever hangs in it.

    asyncio and the interpreter wait at their end for every thread, and one that reads from a lost disk, or
    looks up a name, may never return. Until there is `work` to end, a signal ends the process at once, with
    the exit code that `early_code` returns for its number.
    """

    def __init__(self, log: logging.Logger, early_code: Callable[[int], int] = lambda _: 0) -> None:
        self.work: Work | None = None
        self._log = log
        self._early_code = early_code
        self._limits: SimpleQueue[tuple[int, float] | None] = SimpleQueue()
        """Exit codes, and the latest end by the steady clock; None = the process has ended by itself."""

        self._signals = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        # It is started here since a signal may come where threads cannot be started.
        threading.Thread(target=self._enforce, name="sharedroutes end", daemon=True).start()
        self._before = {number: signal.signal(number, self._obey) for number in _STOPS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._limits.put(None)

    def limit(self, code: int, allowed_s: float) -> None:
        """End the process with this exit code if it does not end by itself within so many seconds.

        The code of the first call counts, and the earliest time.
        """
        self._limits.put((code, time.monotonic() + allowed_s))

    def _obey(self, number: int, _: FrameType | None) -> None:
        if self.work is None:
            os._exit(self._early_code(number))
        self._signals += 1
        self.limit(0, self.work.allowed_s(self._signals))
        self.work.stop()

    def _enforce(self) -> None:
        limit = self._limits.get()
        if limit is None:
            return
        code, began_s, end_s = limit[0], time.monotonic(), math.inf
        while limit is not None:
            end_s = min(end_s, limit[1])
            try:
                limit = self._limits.get(timeout=max(0.0, end_s - time.monotonic()))
            except Empty:
                self._give_up(code, time.monotonic() - began_s)

    def _give_up(self, code: int, passed_s: float) -> None:
        threads = ", ".join(one.name for one in threading.enumerate() if not one.daemon)
        self._log.warning("not ended within %.1f s, exiting without waiting for %s", passed_s, threads)
        if self.work is not None:
            self.work.last()
        os._exit(code)
