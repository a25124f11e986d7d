"""Does a lookup cost more when the table is large?

Two servers run at the same time, with a small and a large table of the same brokers and the same shapes of
topics. One client looks random topics up, with all groups known, as RouteClient does. A lookup is one round
trip: the topics, and the leases of all brokers. Ratio: large to small; the peer is a bare MGET of the same
keys.

Caches are part of it, as in a service that has run for a while. The client remembers decoded rows and whole
indexes (`registry/codec.py`): all of the small table's, a part of the large one's. And the small table lies
in the CPU's caches, the large one does not: a lookup of many topics waits for memory at every topic. So
does a bare MGET of the same keys, which is measured beside it. In the rounds called *busy* each server
walks through 64 MB of something else before each lookup, so that neither finds its table in the CPU's
caches.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Final

import redis

from sharedroutes.registry import EmbeddedServer, RouteStore

from .kit.figures import Contestant, Figure, Outcome, at_most, interleave, ratio, seconds
from .kit.workload import LASTING, fill, long_topic_names, mget, spread

_BALLAST: Final = "ballast"
_SETTLE: Final = 5
"""Lookups before the clock starts: after a pause the first ones are slower, whatever is measured."""

_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 9
    few_entries: int = 10_000
    many_entries: int = 1_000_000
    brokers: int = 100
    brokers_per_topic: int = 8
    topics: Sequence[int] = (1, 100, 1_000)
    """Looked up at once; one figure each."""

    lookups: int = 40
    """In one round; ten times as many of less than 1,000 topics."""

    busy_lookups: int = 20
    ballast_bytes: int = 64 << 20


QUICK: Final = Size(rounds=3, many_entries=200_000, lookups=10, busy_lookups=10)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and RuntimeError when a lookup does not find every topic."""
    with ExitStack() as stack:
        few, many = (_Table(stack, size, entries) for entries in (size.few_entries, size.many_entries))
        contestants: dict[str, Contestant] = {}
        pairs: list[tuple[str, str, bool]] = []
        for what, measure, held_to_target in _measurements(size):
            small, large = f"{what}, small", f"{what}, large"
            contestants[small], contestants[large] = partial(measure, few), partial(measure, many)
            pairs.append((large, small, held_to_target))
        values = interleave(size.rounds, contestants)
    found = {name: Figure(name, "us", rounds) for name, rounds in values.items()}
    ratios = [
        ratio(found[large], found[small], at_most(1.3) if held else None) for large, small, held in pairs
    ]
    return Outcome(
        [*found.values(), *ratios],
        [
            f"small: {few.entries:,} (topic, broker) pairs, large: {many.entries:,}, {size.brokers} brokers",
            "random topics, all groups known; bare MGET: the same keys, undecoded",
            "busy: the server comes from other work, neither table is in the CPU's caches",
        ],
    )


class _Table:
    """A server with that many entries; `stack` ends it."""

    def __init__(self, stack: ExitStack, size: Size, entries: int) -> None:
        server = stack.enter_context(EmbeddedServer())
        self.store = stack.enter_context(RouteStore.from_url(server.url, LASTING))
        self._client = stack.enter_context(redis.Redis.from_url(server.url))
        self._names = long_topic_names(entries // size.brokers_per_topic)
        self._rng = random.Random(_SEED)
        self.entries = len(self._names) * size.brokers_per_topic
        fill(self.store, spread(self._names, size.brokers_per_topic, size.brokers))
        self.groups = self.store.lookup(self._names[: size.brokers]).groups
        if len(self.groups) != size.brokers:
            raise RuntimeError(f"the first topics name {len(self.groups)} brokers of {size.brokers}")
        self._client.setrange(_BALLAST, size.ballast_bytes - 1, b"x")

    def picks(self, lookups: int, topics: int) -> Iterator[list[str]]:
        """Return other topics for each lookup, as strings of their own, which no cache has seen."""
        for _ in repeat(None, lookups):
            yield [name[:1] + name[1:] for name in self._rng.sample(self._names, topics)]

    def walk(self) -> None:
        """Let the server come from other work."""
        self._client.bitcount(_BALLAST)


def _measurements(size: Size) -> Iterator[tuple[str, Callable[[_Table], float], bool]]:
    """Return what is measured of each table, how, and whether it is held to the target."""
    for topics in size.topics:
        lookups = size.lookups * (10 if topics < 1_000 else 1)
        yield _called(topics), partial(_mean_us, _look, lookups, topics), True
        yield f"{_called(topics)}, bare MGET", partial(_mean_us, _mget, lookups, topics), False
        yield (
            f"{_called(topics)}, busy",
            partial(_mean_us, _look, size.busy_lookups, topics, busy=True),
            False,
        )


def _called(topics: int) -> str:
    return f"{topics:,} topics" if topics > 1 else "1 topic"


def _mean_us(
    look: Callable[[_Table, list[str]], None], lookups: int, topics: int, table: _Table, *, busy: bool = False
) -> float:
    """Return us a lookup."""
    picks = list(table.picks(_SETTLE + lookups, topics))
    for pick in picks[:_SETTLE]:
        look(table, pick)
    total_s = 0.0
    for pick in picks[_SETTLE:]:
        if busy:
            table.walk()
        total_s += seconds(partial(look, table, pick))
    return total_s / lookups * 1e6


def _look(table: _Table, topics: list[str]) -> None:
    found = table.store.lookup(topics, table.groups)
    if len(found.rows) != len(topics):
        raise RuntimeError(f"{len(found.rows)} of {len(topics)} topics were found")


def _mget(table: _Table, topics: list[str]) -> None:
    keys = table.store.keys
    leases = [
        keys.lease(name, broker_id) for name, group in table.groups.items() for broker_id in group.broker_ids
    ]
    table.store.run(mget([*map(keys.topic, topics), *leases]))
