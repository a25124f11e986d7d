"""What several threads do together, held against what one does alone.

All threads share one core, one thread alone too: the interpreter lets one run at a time anyway, and where the
next one has to be woken on another core, that decides how fast they are. Start and end of the threads do not
count: each begins when all are there, and tells by itself when it began and ended.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

from .kit.figures import Figure

Work: TypeAlias = Callable[[int], object]
"""Does something so many times."""

_THREADS: Final = 8

_PIN: Final = hasattr(os, "sched_setaffinity")


class _Pace(NamedTuple):
    """How much is done: a second of the clock on the wall, and a second of CPU."""

    wall: float
    cpu: float


class Speedup(NamedTuple):
    """How many times the pace of one thread that of several is."""

    wall: Figure
    cpu: Figure


class Together:
    """The rounds of one kind of work: by one thread, then by eight, which share `count` times of it."""

    def __init__(self, name: str, work: Work, count: int) -> None:
        self._name = name
        self._work = work
        self._count = count
        self._rounds: list[tuple[_Pace, _Pace]] = []

    def round(self) -> float:
        """Run both; return how many millions a second eight threads do."""
        one, many = (_pace(self._work, threads, self._count) for threads in (1, _THREADS))
        self._rounds.append((one, many))
        return many.wall / 1e6

    def figures(self) -> Speedup:
        """Return eight threads' pace over one thread's, without the first round."""
        rounds = self._rounds[1:]
        name = f"{self._name}, {_THREADS} threads / 1 thread"
        return Speedup(
            Figure(name, "x", [many.wall / one.wall for one, many in rounds]),
            Figure(f"{name}, by CPU", "x", [many.cpu / one.cpu for one, many in rounds]),
        )


def _pace(work: Work, threads: int, count: int) -> _Pace:
    share = max(1, count // threads)
    start = threading.Barrier(threads)
    began_s, ended_s, cpu_s = [], [], []

    def run() -> None:
        start.wait()
        began_s.append(time.perf_counter())
        begin_s = time.thread_time()
        work(share)
        cpu_s.append(time.thread_time() - begin_s)
        ended_s.append(time.perf_counter())

    with _on_one_core():
        workers = [threading.Thread(target=run) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    done = share * threads
    return _Pace(done / (max(ended_s) - min(began_s)), done / sum(cpu_s))


@contextmanager
def _on_one_core() -> Iterator[None]:
    """Let threads that are started here run on one core, where the system lets us say so."""
    if not _PIN:
        yield
        return
    usual = os.sched_getaffinity(0)  # of this thread, and of those that it starts; others stay where they are
    os.sched_setaffinity(0, {max(usual)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)
