"""What does one more replica cost its primary, and what does a replica spend on what it is told?

The primary sweeps, and writes one thing after the other: a topic that changes, a broker that leaves and is
back, a heartbeat. Nobody reads. All that is written goes to each replica. Lines through the smaller numbers
are checked at the two largest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final, TypeAlias

import redis

from sharedroutes.registry import EmbeddedServer, RouteStore, Sweeper

from ..kit.figures import Figure, Outcome
from ..kit.processes import await_until
from ..kit.workload import LASTING, Leaver, Writer, fill, opened, tables, topic_names
from .costs import COMMANDS, RECEIVED, SENT, Meter, Spent, figures_of, spent_in

OF: Final = "replicas"
PULSES: Final = "pulses, to replicas"
CHANGE: Final = "a topic changes, to replicas"
BACK: Final = "a broker leaves and is back, to replicas"
HEARTBEAT: Final = "a heartbeat, to replicas"
APPLIED: Final = "heartbeats, at a replica"
HEARTBEATS: Final = "heartbeats"
_TOPICS: Final = 10
_BROKERS: Final = 20
"""More than are renewed in a millisecond: a deadline that stays the same is not told to replicas."""

_IN_STEP_MS: Final = 10_000
AT_ONCE: Final = ("--repl-diskless-sync-delay", "0")
"""Options of a primary that does not wait for more replicas."""

_Found: TypeAlias = defaultdict[str, defaultdict[int, list[Spent]]]
_Writes: TypeAlias = dict[str, Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    counts: Sequence[int] = (1, 2, 4, 8, 16, 32)
    """Of replicas; the line goes through all but the last two. Without any, a primary keeps no backlog."""

    heartbeats: Sequence[int] = (2_000, 4_000, 8_000, 16_000)
    """The same, of what one replica is told."""

    rounds: int = 5
    idle_s: float = 5.0
    writes: int = 500
    """Of each kind, in a round."""


QUICK: Final = Size(counts=(1, 2, 4, 8), heartbeats=(100, 200, 400, 800), rounds=2, idle_s=3.0, writes=200)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and TimeoutError when replicas do not follow."""
    found: _Found = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        server, store, client = stack.enter_context(opened(LASTING, *AT_ONCE))
        stack.enter_context(Sweeper(store))
        primary, writes = Meter(client, server.pid), _writes(store)
        for _ in range(size.rounds):
            _feed(found, size, server, primary, writes)
            _apply(found, size, server, primary, writes[HEARTBEAT])
    notes = [f"{_BROKERS} brokers, {_TOPICS} topics; {size.writes} of each kind in a round"]
    return Outcome([*_figures(found)], notes)


def _feed(found: _Found, size: Size, server: EmbeddedServer, primary: Meter, writes: _Writes) -> None:
    """Measure at the primary, with one number of replicas after the other."""
    with ExitStack() as stack:
        replicas = 0
        for count in size.counts:
            while replicas < count:
                start_replica(stack, server)
                replicas += 1
            found[PULSES][count] += spent_in(size.idle_s, primary)
            for what, write in writes.items():
                spent = _spent(write, size.writes, primary, of=primary)
                found[what][count].append(spent.times(1 / size.writes))


def _apply(
    found: _Found, size: Size, server: EmbeddedServer, primary: Meter, heartbeat: Callable[[], object]
) -> None:
    """Measure at a replica."""
    with ExitStack() as stack:
        _, replica = start_replica(stack, server)
        for count in size.heartbeats:
            found[APPLIED][count].append(_spent(heartbeat, count, primary, of=replica))


def _writes(store: RouteStore) -> _Writes:
    """Return what is written."""
    of_brokers = tables(topic_names(_TOPICS), _BROKERS)
    leases = cycle(fill(store, of_brokers)[2:])
    writer, leaver, queues = Writer(store, of_brokers[0]), Leaver(store, of_brokers[1]), cycle((3, 5))

    def back() -> None:
        leaver.leave()
        leaver.come_back()

    return {
        CHANGE: lambda: writer.write(next(queues)),
        BACK: back,
        HEARTBEAT: lambda: store.heartbeat(next(leases)),
    }


def _spent(write: Callable[[], object], times: int, primary: Meter, *, of: Meter) -> Spent:
    """Return what a server spends on so many, until all replicas have them."""
    before = of.so_far()
    for _ in range(times):
        write()
    await_in_step(primary.client)
    return of.since(before)


def _figures(found: Mapping[str, Mapping[int, Sequence[Spent]]]) -> Iterator[Figure]:
    yield from figures_of(PULSES, OF, found[PULSES], each="s")
    for what, each in ((CHANGE, "change"), (BACK, "return"), (HEARTBEAT, "heartbeat")):
        yield from figures_of(what, OF, found[what], each=each, but=(COMMANDS, RECEIVED))
    yield from figures_of(APPLIED, HEARTBEATS, found[APPLIED], each="run", but=(COMMANDS, SENT))


def start_replica(stack: ExitStack, primary: EmbeddedServer, *options: str) -> tuple[EmbeddedServer, Meter]:
    """Start one, and wait until it follows; raises EmbeddedServerError and TimeoutError."""
    server = stack.enter_context(EmbeddedServer("--replicaof", f"127.0.0.1 {primary.port}", *options))
    client = stack.enter_context(redis.Redis.from_url(server.url))
    await_until(lambda: _is_linked(client), "the replica follows its primary")
    return server, Meter(client, server.pid)


def _is_linked(client: redis.Redis) -> bool:
    found: Any = client.info("replication")
    return bool(found["master_link_status"] == "up")


def await_in_step(primary: redis.Redis) -> None:
    """Wait until all replicas have what was written up to now; raises TimeoutError."""
    info: Any = primary.info("replication")
    pipeline: Any = primary.pipeline(transaction=False)
    pipeline.ping()  # WAIT is about what was written before the last command of its own connection
    pipeline.execute_command("WAIT", info["connected_slaves"], _IN_STEP_MS)
    if pipeline.execute()[-1] < info["connected_slaves"]:
        raise TimeoutError("not all replicas came up to their primary")
