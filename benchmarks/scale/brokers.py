"""What does one more broker cost the server, while nothing happens?

Each has an agent with a store, a listening port and ten topics of its own, as on a host of its own; several
agents share a process. They renew their leases by default settings, and one of them sweeps.
Lines through the smaller sizes are checked at the two largest.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from sharedroutes.registry import RegistryConfig, RouteStore

from ..kit.figures import Outcome
from ..kit.hosts import topics_json, write_topics
from ..kit.processes import await_until, running
from ..kit.workload import opened, spread, topic_names
from ..rejoin import keep, topics_path
from .costs import MEMORY, Meter, Spent, figures_of, series, spent_in

OF: Final = "brokers"
IDLE: Final = "heartbeats"
SERVER: Final = "server, by brokers"
_BROKERS_PER_TOPIC: Final = 4


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    counts: Sequence[int] = (100, 200, 400, 600, 800)
    """Of brokers; the line goes through all but the last two."""

    processes: int = 2
    topics_per_broker: int = 10
    heartbeat_s: float = 5.0
    lease_ttl_s: float = 15.0
    settle_s: float = 8.0
    rounds: int = 3
    round_s: float = 10.0


QUICK: Final = Size(
    counts=(10, 20, 40, 80), heartbeat_s=1.0, lease_ttl_s=4.0, settle_s=2.0, rounds=1, round_s=4.0
)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and TimeoutError when not all brokers are registered."""
    found: dict[int, list[Spent]] = {}
    server_mb: dict[int, list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sharedroutes-scale-")))
        server, store, client = stack.enter_context(opened(RegistryConfig(call_deadline_s=10)))
        meter = Meter(client, server.pid)
        most = max(size.counts)
        names = topic_names(most * size.topics_per_broker // _BROKERS_PER_TOPIC)
        for number, table in enumerate(spread(names, _BROKERS_PER_TOPIC, most)):
            write_topics(topics_path(folder, number), topics_json(table, queues=8))
        first = 0
        for count in size.counts:
            _add(stack, size, server.url, folder, first, count - first)
            first = count
            await_until(partial(_are_registered, store, count), f"{count} brokers are registered")
            time.sleep(size.settle_s)
            server_mb[count] = [meter.memory_mb()]
            found[count] = [spent_in(size.round_s, meter)[0] for _ in range(size.rounds)]
    figures = [
        *figures_of(IDLE, OF, found, each="s"),
        *series(SERVER, MEMORY, OF, server_mb, "MB"),
    ]
    notes = [
        f"an agent for each, {size.topics_per_broker} topics, a heartbeat every {size.heartbeat_s:g} s",
        f"{size.processes} processes more for each size; CPU is that of all threads of the server",
    ]
    return Outcome(figures, notes)


def _are_registered(store: RouteStore, count: int) -> bool:
    return len(store.cluster_info().brokers) == count


def _add(stack: ExitStack, size: Size, url: str, folder: Path, first: int, count: int) -> None:
    """Run so many agents more."""
    for process in range(size.processes):
        begin, end = (first + count * number // size.processes for number in (process, process + 1))
        times = (size.heartbeat_s, size.lease_ttl_s)
        stack.enter_context(running(keep, url, str(folder), begin, end - begin, *times)).await_ready()
