"""Writes down for how long the machine did not run the processes of a run, and the harness itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from sharedroutes.registry import EmbeddedServerError
from tests.faults.checker.history import LEAST_LATE_MS, Late, Writer
from tests.faults.matrix.fleet import Fleet

EVERY_S: Final = 0.1
_PROC: Final = Path("/proc")


def waited_ns(pid: int) -> dict[str, int]:
    """Return for how long each thread of a process was ready and did not run; empty = nobody knows.

    The time in which a signal stops it is none of that.
    """
    found: dict[str, int] = {}
    with suppress(OSError, ValueError, IndexError):
        for task in (_PROC / str(pid) / "task").iterdir():
            found[task.name] = int((task / "schedstat").read_text(encoding="ascii").split()[1])
    return found


class Stalls:
    """Looks at all processes of a fleet, and at its own timer, which is late when the harness is."""

    def __init__(self, fleet: Fleet, history: Writer) -> None:
        self._fleet = fleet
        self._history = history
        self._waited: dict[int, dict[str, int]] = {}
        self._looked_s, self._worked_s = time.monotonic(), 0.0

    def look(self) -> None:
        """Write down what has waited for the machine since the last look."""
        now_s, worked_s = time.monotonic(), time.thread_time()
        since_ms, self._looked_s = 1_000 * (now_s - self._looked_s), now_s
        if self._worked_s:
            self._say("", since_ms - 1_000 * (EVERY_S + worked_s - self._worked_s))
        self._worked_s = worked_s
        before, self._waited = self._waited, {}
        for name, pid in self._processes():
            threads = self._waited[pid] = waited_ns(pid)
            known = before.get(pid, {})
            more_ns = sum(waited - known.get(thread, 0) for thread, waited in threads.items())
            self._say(name, min(since_ms, more_ns / 1e6))

    def _processes(self) -> Iterator[tuple[str, int]]:
        for program in tuple(self._fleet):
            if program.pid is not None:
                yield program.name, program.pid
        store = self._fleet.store
        for server in (*store.servers, *store.helpers):
            with suppress(EmbeddedServerError):
                yield "", server.pid

    def _say(self, process: str, late_ms: float) -> None:
        if late_ms >= LEAST_LATE_MS:
            self._history.write(Late(process=process, late_ms=round(late_ms)))
