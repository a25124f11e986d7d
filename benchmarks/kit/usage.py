"""What a server does in a second, by its own counters, and what processes take of the machine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import redis

_SAMPLE_S: Final = 0.1
_WINDOW_S: Final = 1.0
_PROC: Final = Path("/proc")
_MB: Final = 1_000_000
_KB: Final = 1_024
_PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")


class Sample(NamedTuple):
    """The counters of a server at a moment."""

    at_s: float
    commands: int
    connections: int
    cpu_s: float


def worst_second(samples: Sequence[Sample], of: Callable[[Sample], float]) -> float:
    """Return the highest rate, a second, over any window of a second (or over all, if that is shorter)."""
    rates = []
    for first in samples:
        last = next((later for later in samples if later.at_s >= first.at_s + _WINDOW_S), None)
        if last is not None:
            rates.append(mean_rate((first, last), of))
    return max(rates, default=mean_rate(samples, of))


def mean_rate(samples: Sequence[Sample], of: Callable[[Sample], float]) -> float:
    """Return the rate, a second, from the first sample to the last."""
    first, last = samples[0], samples[-1]
    return (of(last) - of(first)) / (last.at_s - first.at_s)


def by_second(samples: Sequence[Sample]) -> Iterator[float]:
    """Return the rate of commands in each second in turn."""
    first = samples[0]
    for sample in samples:
        if sample.at_s >= first.at_s + _WINDOW_S:
            yield mean_rate((first, sample), commands_of)
            first = sample


def commands_of(sample: Sample) -> float:
    """Return the measure of load: commands."""
    return sample.commands


def commands_so_far(client: redis.Redis) -> int:
    """Return how many commands the server has run since its start."""
    counters: Any = client.info("stats")
    return int(counters["total_commands_processed"])


class Sampler:
    """Reads the counters of a server ten times a second, on a thread of its own."""

    def __init__(self, url: str, *first: Sample, aside: int = 0) -> None:
        """`aside`: so many commands of others are not counted."""
        self.samples = [*first]
        self._aside = aside
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        asked = 0
        with redis.Redis.from_url(self._url) as client:
            while not self._over.wait(_SAMPLE_S):
                counters: Any = client.info()
                asked += 1
                self.samples.append(
                    Sample(
                        time.monotonic(),
                        counters["total_commands_processed"] - asked - self._aside,
                        counters["total_connections_received"],
                        counters["used_cpu_user"] + counters["used_cpu_sys"],
                    )
                )


def processes_are_seen() -> bool:
    """Whether this system shows memory and CPU of other processes in /proc."""
    return (_PROC / "self" / "task" / str(os.getpid()) / "schedstat").exists()


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in MB of 10^6 bytes; 0 where it is not seen."""
    if not processes_are_seen():
        return 0.0
    return int((_PROC / str(pid) / "statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES / _MB


def cpu_s(pid: int) -> float:
    """Return the CPU time of the threads of a process; 0 where it is not seen."""
    if not processes_are_seen():
        return 0.0
    threads = (_PROC / str(pid) / "task").glob("*/schedstat")
    return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


@contextmanager
def peak_memory(own_mb: Callable[[int], float], every_s: float) -> Iterator[list[float]]:
    """Watch the memory (MB) of this process and of all that it has started; one number, when the block ends.

    `own_mb` returns the memory of one process, shared_mb or private_mb. A process counts from the second look
    on: until it runs a program of its own, a child of Java's is the same memory under a second number.
    """
    found: list[float] = []
    done = threading.Event()

    def watch() -> None:
        peak, seen = 0.0, _family(os.getpid())
        while not done.wait(every_s):
            there = _family(os.getpid())
            peak = max(peak, sum(own_mb(pid) for pid in there if pid in seen))
            seen = there
        found.append(peak)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def shared_mb(pid: int) -> float:
    """Return the memory of a process with its part of what it shares; 0 = it has ended."""
    with suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * _KB / _MB
    return 0.0


def private_mb(pid: int) -> float:
    """Return the memory of a process that it shares with no other; 0 = it has ended."""
    with suppress(OSError):
        _, resident, shared, *_ = (_PROC / str(pid) / "statm").read_text(encoding="ascii").split()
        return (int(resident) - int(shared)) * _PAGE_BYTES / _MB
    return 0.0


def _family(pid: int) -> list[int]:
    """Return a process and those that it has started, and they in turn."""
    found = [pid]
    with suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                found += _family(int(child))
    return found
