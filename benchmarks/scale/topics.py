"""What does one more topic cost the server: to keep it, and to register it once?

Ten brokers register so many topics, each of which is on three of them. A topic costs nothing while it does
not change: heartbeats are the same for any number. Lines through the smaller sizes are checked at
the two largest.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..kit.figures import Outcome
from ..kit.workload import fill, long_topic_names, opened, spread
from ..memory import used_bytes
from .costs import MEMORY, Meter, Spent, figures_of, series

OF: Final = "topics"
REGISTERED: Final = "all topics registered"
SERVER: Final = "server, by topics"
_BROKERS: Final = 10
_BROKERS_PER_TOPIC: Final = 3
_MB: Final = 1_000_000
_REST_S: Final = 1.0
"""After the writers are done, so that buffers are given back."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    counts: Sequence[int] = (10_000, 50_000, 200_000, 400_000)
    """Of topics; the line goes through all but the last two."""


QUICK: Final = Size(counts=(1_000, 5_000, 20_000, 40_000))


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError."""
    found: dict[int, list[Spent]] = {}
    server_mb: dict[int, list[float]] = {}
    for count in size.counts:
        of_brokers = spread(long_topic_names(count), _BROKERS_PER_TOPIC, _BROKERS)
        with opened() as (server, store, client):
            meter = Meter(client, server.pid)
            empty_b, before = used_bytes(client), meter.so_far()
            fill(store, of_brokers)
            found[count] = [meter.since(before)]
            time.sleep(_REST_S)
            server_mb[count] = [(used_bytes(client) - empty_b) / _MB]
    figures = [
        *figures_of(REGISTERED, OF, found, each="run"),
        *series(SERVER, MEMORY, OF, server_mb, "MB"),
    ]
    return Outcome(
        figures,
        [
            f"{_BROKERS} brokers, each topic on {_BROKERS_PER_TOPIC}, names of 26 bytes",
            "memory: what the server counts, with the change stream",
        ],
    )
