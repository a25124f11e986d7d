"""Does a heartbeat cost the same for 10 topics and for 100,000?

Peer: a bare PEXPIRE. Ratios: many topics to few, few topics to the PEXPIRE.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Final

import redis

from sharedroutes.registry import LeaseStatus, Registration, RouteStore

from .kit.figures import Contestant, Figure, Outcome, at_most, interleave, ratio, seconds
from .kit.workload import broker, opened, tables, topic_names

_BARE: Final = "bare PEXPIRE"
_TTL_MS: Final = 3_600_000
"""As of the leases: none ends while a busy machine registers 100,000 topics."""
_SETTLE: Final = 50
"""Calls before the clock starts: the first ones after a pause are slower, whatever is called."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 15
    beats: int = 2_000
    few_topics: int = 10
    many_topics: int = 100_000


QUICK: Final = Size(rounds=5, beats=500, many_topics=20_000)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError."""
    with opened() as (_, store, client):
        few, many = (f"heartbeat, {count:,} topics" for count in (size.few_topics, size.many_topics))
        client.set(_BARE, "", px=_TTL_MS)
        contestants: dict[str, Contestant] = {
            few: partial(_beat, store, _register(store, 0, size.few_topics), size.beats),
            many: partial(_beat, store, _register(store, 1, size.many_topics), size.beats),
            _BARE: partial(_expire, client, size.beats),
        }
        values = interleave(size.rounds, contestants)
    found = {name: Figure(name, "us", rounds) for name, rounds in values.items()}
    ratios = [ratio(found[many], found[few], at_most(1.2)), ratio(found[few], found[_BARE])]
    return Outcome([*found.values(), *ratios])


def _register(store: RouteStore, number: int, topics: int) -> Registration:
    (table,) = tables(topic_names(topics), 1)
    return store.register(broker(number), table)


def _beat(store: RouteStore, held: Registration, count: int) -> float:
    """Return us a heartbeat; raises RuntimeError for one that did not renew the lease."""

    def beat(times: int) -> None:
        for _ in repeat(None, times):
            status = store.heartbeat(held)
            if status is not LeaseStatus.OK:
                raise RuntimeError(f"the heartbeat of {held.broker.broker_name} answered {status}")

    beat(_SETTLE)
    return seconds(partial(beat, count)) / count * 1e6


def _expire(client: redis.Redis, count: int) -> float:
    """Return us a PEXPIRE; raises RuntimeError when the key is gone."""

    def expire(times: int) -> None:
        for _ in repeat(None, times):
            if not client.pexpire(_BARE, _TTL_MS):
                raise RuntimeError("the key of the bare PEXPIRE has expired")

    expire(_SETTLE)
    return seconds(partial(expire, count)) / count * 1e6
