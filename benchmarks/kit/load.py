"""What a server does in a second, by what it counts of itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

import redis

_SAMPLE_S: Final = 0.1
_WINDOW_S: Final = 1.0


class Sample(NamedTuple):
    """What the server had done when it was asked."""

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
    """Return what counts as load first of all."""
    return sample.commands


def commands_so_far(client: redis.Redis) -> int:
    """Return how many commands the server has run since its start."""
    told: Any = client.info("stats")
    return int(told["total_commands_processed"])


class Sampler:
    """Asks the server ten times a second what it has done, on a thread of its own."""

    def __init__(self, url: str, *first: Sample, aside: int = 0) -> None:
        """`aside` = commands that are another's and not counted."""
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
                told: Any = client.info()
                asked += 1
                self.samples.append(
                    Sample(
                        time.monotonic(),
                        told["total_commands_processed"] - asked - self._aside,
                        told["total_connections_received"],
                        told["used_cpu_user"] + told["used_cpu_sys"],
                    )
                )
