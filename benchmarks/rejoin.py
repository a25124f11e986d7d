"""Do many agents that have to register anew come at once, and are they soon back?

The store comes back empty. The agents run in a few other processes, in one event loop each, with a store
and a listening port each. The change stream says when each of them is back, in the server's time; load is
what the server counts of itself, ten times a second. Peer: the period in which RocketMQ's brokers register
(computed).
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from sharedroutes.broker_agent import AgentConfig, BrokerAgent
from sharedroutes.registry import Broker, ChangeKind, EmbeddedServer, RegistryConfig, RouteStore

from .kit.figures import Figure, Outcome, at_most, percentile
from .kit.hosts import topics_json, write_topics
from .kit.processes import await_until, commands, running, say
from .kit.usage import Sample, Sampler, commands_of, mean_rate, worst_second
from .kit.workload import broker, spread, topic_names

_ALL_CHANGES: Final = 100_000
_POLL_S: Final = 0.1
_LOOPBACK: Final = "127.0.0.1"
_CALL_DEADLINE_S: Final = RegistryConfig().call_deadline_s
_ROCKETMQ_PERIOD_MS: Final = 30_000.0
"""BrokerConfig.registerNameServerPeriod: a broker that has just registered does it again so much later."""

_TENTH_MS: Final = 100
_SECOND_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    agents: int = 200
    processes: int = 4
    topics_per_broker: int = 100
    brokers_per_topic: int = 8
    heartbeat_s: float = 5.0
    lease_ttl_s: float = 15.0
    restarts: int = 5
    down_s: float = 2.0
    """For how long the store is away."""

    settle_s: float = 10.0
    """After all are there, before the steady load is taken."""

    steady_s: float = 10.0


QUICK: Final = Size(agents=60, restarts=1, heartbeat_s=2.0, lease_ttl_s=6.0, settle_s=3.0, steady_s=4.0)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and TimeoutError or RuntimeError when not all agents come back."""
    found: list[_Return] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sharedroutes-rejoin-")))
        server = stack.enter_context(EmbeddedServer())
        names = topic_names(size.agents * size.topics_per_broker // size.brokers_per_topic)
        for number, table in enumerate(spread(names, size.brokers_per_topic, size.agents)):
            write_topics(topics_path(folder, number), topics_json(table, queues=8))
        store = stack.enter_context(RouteStore.from_url(server.url, RegistryConfig(call_deadline_s=10)))
        for process in range(size.processes):
            first, end = (size.agents * number // size.processes for number in (process, process + 1))
            times = (size.heartbeat_s, size.lease_ttl_s)
            child = stack.enter_context(running(keep, server.url, str(folder), first, end - first, *times))
            child.await_ready()
        _await_all(store, size)
        time.sleep(size.settle_s)
        with Sampler(server.url) as steady:
            time.sleep(size.steady_s)
        for _ in range(size.restarts):
            found.append(_restart(server, store, names, size))
            time.sleep(size.heartbeat_s)  # all renew their leases once
    return Outcome([*_figures(size, steady.samples, found)], _notes(size))


@dataclass(frozen=True, slots=True)
class _Return:
    """One return of all agents."""

    at_ms: Sequence[float]
    """When each of them was registered, after the server was started."""

    samples: Sequence[Sample]


def _restart(server: EmbeddedServer, store: RouteStore, names: Sequence[str], size: Size) -> _Return:
    server.kill()
    time.sleep(size.down_s)
    begin, began_ms = time.monotonic(), time.time() * 1_000
    server.start()
    with Sampler(server.url, Sample(begin, 0, 0, 0.0)) as sampler:
        _await_all(store, size)
        time.sleep(max(0.0, begin + size.heartbeat_s + 1 - time.monotonic()))
    routes = store.routes(names)
    if any(len(routes[name].broker_datas) != size.brokers_per_topic for name in names):
        raise RuntimeError("a topic is not held by all its brokers again")
    changes = store.changes_since(limit=_ALL_CHANGES).changes
    ups = [change for change in changes if change.kind is ChangeKind.UP]
    first_ms = {change.broker_name: 0.0 for change in ups}
    for change in reversed(ups):
        first_ms[change.broker_name] = float(change.change_id.partition("-")[0]) - began_ms
    return _Return(sorted(first_ms.values()), sampler.samples)


def _figures(size: Size, steady: Sequence[Sample], found: Sequence[_Return]) -> Iterator[Figure]:
    limit_ms = size.heartbeat_s * 1_000 + 1_000
    yield Figure("half of the brokers are back", "ms", [percentile(one.at_ms, 0.5) for one in found])
    yield Figure("all brokers are back", "ms", [one.at_ms[-1] for one in found], at_most(limit_ms))
    yield Figure("RocketMQ at worst (computed)", "ms", [_ROCKETMQ_PERIOD_MS])
    for name, window_ms in (("100 ms", _TENTH_MS), ("second", _SECOND_MS)):
        peaks = [float(_most_in(one.at_ms, window_ms)) for one in found]
        yield Figure(f"registrations in the worst {name}", "brokers", peaks)
    yield Figure("commands, steady", "1/s", [mean_rate(steady, commands_of)])
    yield Figure("commands, worst second", "1/s", [worst_second(one.samples, commands_of) for one in found])
    tenths = [max(mean_rate(pair, commands_of) for pair in pairwise(one.samples)) for one in found]
    yield Figure("commands, worst 100 ms", "1/s", tenths)
    yield Figure("share of the server's core, steady", "%", [mean_rate(steady, _cpu_percent)])
    worst = [worst_second(one.samples, _cpu_percent) for one in found]
    yield Figure("share of the server's core, worst second", "%", worst, at_most(50))


def _most_in(at_ms: Sequence[float], window_ms: float) -> int:
    """Return how many fall into any window of that length at most; they are sorted."""
    return max(sum(first <= at < first + window_ms for at in at_ms) for first in at_ms)


def _cpu_percent(sample: Sample) -> float:
    return sample.cpu_s * 100


def _notes(size: Size) -> Sequence[str]:
    return [
        f"{size.agents} agents in {size.processes} processes, {size.topics_per_broker} topics each",
        f"a heartbeat every {size.heartbeat_s:g} s; the store is away for {size.down_s:g} s",
        f"RocketMQ: a broker registers with a name server again within {_ROCKETMQ_PERIOD_MS / 1_000:g} s",
    ]


def _await_all(store: RouteStore, size: Size) -> None:
    what = f"all {size.agents} brokers are registered"
    await_until(lambda: len(store.cluster_info().brokers) == size.agents, what, poll_s=_POLL_S)


def topics_path(folder: Path, number: int) -> Path:
    """Return where the topics of the broker with that number are."""
    return folder / broker(number).broker_name / "topics.json"


def keep(url: str, folder: str, first: int, count: int, heartbeat_s: float, lease_ttl_s: float) -> None:
    """In another process: run so many agents in one event loop, until the other side ends.

    Each has a store and a listening port of its own, as agents on hosts of their own have them. Raises
    ExceptionGroup when one of them fails.
    """
    registry = RegistryConfig(lease_ttl_s=lease_ttl_s, call_deadline_s=min(_CALL_DEADLINE_S, heartbeat_s))
    asyncio.run(_keep(url, Path(folder), range(first, first + count), heartbeat_s, registry))


async def _keep(
    url: str, folder: Path, numbers: Sequence[int], heartbeat_s: float, registry: RegistryConfig
) -> None:
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(asyncio.TaskGroup())
        agents = []
        for number in numbers:
            listener = await asyncio.start_server(_accept, _LOOPBACK, 0)
            stack.push_async_callback(listener.wait_closed)
            stack.callback(listener.close)
            address = f"{_LOOPBACK}:{listener.sockets[0].getsockname()[1]}"
            config = AgentConfig(
                broker=Broker(broker(number).broker_name, address),
                topics_path=topics_path(folder, number),
                redis_url=url,
                registry=registry,
                heartbeat_s=heartbeat_s,
            )
            agents.append(BrokerAgent(config))
            group.create_task(agents[-1].run())
        say()
        await asyncio.to_thread(list, commands())
        for agent in agents:
            agent.stop()


async def _accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Keep a connection open for as long as the other side does."""
    await reader.read()
    writer.close()
