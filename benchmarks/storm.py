"""Do many clients that come back after a restart of the store come at once?

The clients run in a few other processes, in one event loop each: a thread for each client would measure
this machine's scheduler. They have the default settings. Load is what the server counts of itself, ten
times a second: commands, connections and its CPU; the worst second is the worst window of one second,
wherever it begins. The store comes back empty, and its brokers register at once, so that all clients read
everything again; or with all it had. Peer: clients by hand, which read a hash a topic every second. Ratio:
the worst second of the return to the steady load.

Where clients share a few cores, those cores spread their return by themselves: what clients on machines of
their own would do is nearer to what the smaller number of them does here, compared with its own steady
load.
"""

from __future__ import annotations

import asyncio
import math
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import redis
import redis.asyncio

from sharedroutes.client import AsyncRouteClient, ClientConfig
from sharedroutes.registry import EmbeddedServer, RegistryConfig, RouteStore

from .kit.figures import Figure, Outcome, Target, at_most, ratio
from .kit.processes import Child, await_until, commands, running, say
from .kit.usage import Sample, Sampler, by_second, commands_of, commands_so_far, mean_rate, worst_second
from .kit.workload import LASTING, fill, fill_hashes, hash_key, tables, topic_names

ROUTES: Final = "routes"
_POLLING: Final = "polling"
EMPTY: Final = "back empty"
KEPT: Final = "back with its data"
SOON: Final = "soon back with its data"
BY_HAND: Final = "by hand: HGETALL pipeline every second"
_POLL_S: Final = 0.1
_BY_HAND_S: Final = 1.0
_TOPICS_OF_CLIENT: Final = 10
_TARGET: Final = at_most(2)
_MOST_COMMON: Final = 9
_BEGIN_AT_ONCE: Final = 16
_AS_USUAL: Final[Mapping[str, float]] = {}


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    storms: Sequence[tuple[int, str]] = (
        (200, EMPTY),
        (1_000, EMPTY),
        (1_000, KEPT),
        (1_000, SOON),
        (1_000, BY_HAND),
    )
    """Numbers of clients and kinds of restart: one measurement each."""

    processes: int = 4
    topics: int = 100
    brokers: int = 8
    reconnect_s: float = ClientConfig().reconnect_s
    settle_s: float = 3.0
    """After the last client is there, before the steady load is taken."""

    steady_s: float = 6.0
    down_s: float = 3.0
    """For how long the store is away after all clients know."""

    soon_s: float = 0.2
    """The same, of a store that is soon back: clients have failed together only just before."""

    return_s: float = 10.0
    """From the restart on: the worst second in it is the return's. Longer than `reconnect_s`."""

    later_s: float = 25.0
    """After that, when the store came back empty: topics that were read at once may be read at once again."""


QUICK: Final = Size(
    storms=((500, EMPTY), (500, BY_HAND)), settle_s=1, steady_s=3, down_s=1, return_s=7, later_s=5
)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and RuntimeError when not all clients come back."""
    figures: list[Figure] = []
    restarts = _restarts(size)
    notes = [
        f"asyncio clients in {size.processes} processes, 10 topics of {size.brokers} brokers each",
        "what the brokers' registration costs is not counted",
        f"return: the first {size.return_s:g} s after the restart; later: the {size.later_s:g} s after that",
    ]
    for clients, what in size.storms:
        name = f"{clients:,} clients, {what}"
        restart = restarts[what]
        found = _Storm(size, clients, restart).measure()
        figures += _figures(name, found, size.return_s if restart.later_s else math.inf, restart.target)
        notes += [
            f"{name}: commands a client until all were live: {found.most_called}",
            f"{name}: commands a second: {' '.join(f'{rate:.0f}' for rate in by_second(found.after))}",
        ]
    return Outcome(figures, notes)


def _restarts(size: Size) -> dict[str, _Restart]:
    return {
        EMPTY: _Restart(ROUTES, keeps=False, down_s=size.down_s, later_s=size.later_s),
        KEPT: _Restart(ROUTES, keeps=True, down_s=size.down_s),
        SOON: _Restart(ROUTES, keeps=True, down_s=size.soon_s),
        BY_HAND: _Restart(_POLLING, keeps=True, down_s=size.down_s, target=None),
    }


@dataclass(frozen=True, slots=True)
class _Restart:
    """One kind of restart."""

    kind: str
    keeps: bool
    down_s: float
    later_s: float = 0.0
    target: Target | None = _TARGET


@dataclass(frozen=True, slots=True)
class _Found:
    steady: Sequence[Sample]
    after: Sequence[Sample]
    live_s: float
    most_called: str


def _figures(what: str, found: _Found, return_s: float, target: Target | None) -> Iterator[Figure]:
    """Return the figures of one restart; the ratios are to the mean of the steady load."""
    split_s = found.after[0].at_s + return_s
    parts = {
        "return": [sample for sample in found.after if sample.at_s <= split_s],
        "later": [sample for sample in found.after if sample.at_s > split_s],
    }
    steady = Figure(f"{what}: commands, steady", "1/s", [mean_rate(found.steady, commands_of)])
    yield steady
    for part, samples in parts.items():
        if len(samples) > 1:
            worst = [worst_second(samples, commands_of)]
            yield (figure := Figure(f"{what}: commands, worst second, {part}", "1/s", worst))
            yield _times(f"{what}: commands, {part} / steady", figure, steady, target)
    cpu = Figure("", "", [mean_rate(found.steady, _cpu_ms)])
    cpu_worst = Figure("", "", [worst_second(found.after, _cpu_ms)])
    yield _times(f"{what}: server CPU, worst second / steady", cpu_worst, cpu, None)
    connections = worst_second(found.after, lambda sample: sample.connections)
    yield Figure(f"{what}: connections, worst second", "1/s", [connections])
    yield Figure(f"{what}: until all are live", "s", [found.live_s])


def _times(name: str, of: Figure, to: Figure, target: Target | None) -> Figure:
    return replace(ratio(of, to, target), name=name)


def _cpu_ms(sample: Sample) -> float:
    return sample.cpu_s * 1_000


class _Storm:
    """One restart of one store under one kind of client."""

    def __init__(self, size: Size, clients: int, restart: _Restart) -> None:
        self._size = size
        self._clients = clients
        self._restart = restart
        self._names = topic_names(size.topics)
        self._of_brokers = tables(self._names, size.brokers)

    def measure(self) -> _Found:
        size = self._size
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sharedroutes-storm-"))
            options = ("--appendonly", "yes", "--dir", folder) if self._restart.keeps else ()
            server = stack.enter_context(EmbeddedServer(*options))
            written = self._write(server.url)
            crowd = self._crowd(stack, server.url)
            time.sleep(size.settle_s)
            with Sampler(server.url) as steady:
                time.sleep(size.steady_s)
            server.kill()
            crowd.await_in_touch(0)
            time.sleep(self._restart.down_s)
            server.start()
            begin = time.monotonic()
            if not self._restart.keeps:
                self._write(server.url)
            aside = 0 if self._restart.keeps else written
            with Sampler(server.url, Sample(begin, 0, 0, 0.0), aside=aside) as after:
                crowd.await_in_touch(self._clients)
                live_s = time.monotonic() - begin
                most_called = _most_called(server.url, self._clients)
                time.sleep(max(0.0, size.return_s + self._restart.later_s - live_s))
        return _Found(steady.samples, after.samples, live_s, most_called)

    def _crowd(self, stack: ExitStack, url: str) -> _Crowd:
        """Start the clients, and wait until all of them know their topics."""
        processes = self._size.processes
        shares = [(self._clients + number) // processes for number in range(processes)]
        settings = {"reconnect_s": self._size.reconnect_s}
        arguments = (self._restart.kind, self._names, settings)
        children = [
            stack.enter_context(running(be_clients, url, share, *arguments, _AS_USUAL)) for share in shares
        ]
        for child in children:
            child.await_ready()
        return _Crowd(children)

    def _write(self, url: str) -> int:
        """Fill the server; return how many commands that took, those of scripts too."""
        with redis.Redis.from_url(url) as client:
            before = commands_so_far(client)
            if self._restart.kind == ROUTES:
                with RouteStore.from_url(url, LASTING) as store:
                    fill(store, self._of_brokers)
            else:
                fill_hashes(client, self._of_brokers)
            return commands_so_far(client) - before


def _most_called(url: str, clients: int) -> str:
    """Return the most frequent commands since the start of the server, for each client."""
    with redis.Redis.from_url(url) as client:
        stats: Any = client.info("commandstats")
    calls = Counter({name.removeprefix("cmdstat_"): entry["calls"] for name, entry in stats.items()})
    del calls["info"]
    return ", ".join(f"{count / clients:.1f} {name}" for name, count in calls.most_common(_MOST_COMMON))


class _Crowd:
    """The other processes."""

    def __init__(self, children: Sequence[Child]) -> None:
        self._children = children

    def await_in_touch(self, wanted: int) -> None:
        """Wait until so many clients are in touch with the store; raises TimeoutError."""
        await_until(lambda: self._in_touch() == wanted, f"{wanted} clients are in touch", poll_s=_POLL_S)

    def _in_touch(self) -> int:
        for child in self._children:
            child.send("how many")
        return sum(child.answer() for child in self._children)


class _Client(Protocol):
    def in_touch(self) -> bool: ...


class _Routes:
    """A route client, whose settings are the default ones but for what the benchmark says."""

    def __init__(self, client: AsyncRouteClient) -> None:
        self._client = client

    def in_touch(self) -> bool:
        return self._client.health().source == "live"


class _Polling:
    """Reads a hash a topic every second, and tries again after a second."""

    def __init__(self, url: str, topics: Sequence[str]) -> None:
        self._client: Any = redis.asyncio.Redis.from_url(url)
        self._topics = topics
        self._table: dict[str, dict[bytes, bytes]] = {}
        self._in_touch = False
        self._task = asyncio.create_task(self._follow())

    def in_touch(self) -> bool:
        return self._in_touch

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))
        await self._client.aclose()

    async def _follow(self) -> None:
        await asyncio.sleep(random.uniform(0, _BY_HAND_S))
        while True:
            try:
                pipeline = self._client.pipeline(transaction=False)
                for topic in self._topics:
                    pipeline.hgetall(hash_key(topic))
                self._table.update(zip(self._topics, await pipeline.execute(), strict=True))
                self._in_touch = True
            except (redis.RedisError, OSError):
                self._in_touch = False
            await asyncio.sleep(_BY_HAND_S)


def be_clients(
    url: str,
    count: int,
    kind: str,
    topics: Sequence[str],
    settings: Mapping[str, Any],
    store: Mapping[str, Any],
) -> None:
    """In another process: run so many clients in one event loop, each with some of the topics.

    They are AsyncRouteClients with these settings, or clients as one would write them first. For each command
    this says how many are in touch with the store.
    """
    asyncio.run(
        _be_clients(url, count, kind, topics, ClientConfig(**settings, registry=RegistryConfig(**store)))
    )


async def _be_clients(url: str, count: int, kind: str, topics: Sequence[str], config: ClientConfig) -> None:
    async with AsyncExitStack() as stack:
        some_at_once = asyncio.Semaphore(_BEGIN_AT_ONCE)

        async def begun() -> _Client:
            own = random.sample(topics, min(_TOPICS_OF_CLIENT, len(topics)))
            async with some_at_once:
                return await (_routes if kind == ROUTES else _polling)(stack, url, own, config)

        clients = await asyncio.gather(*(begun() for _ in range(count)))
        while _in_touch(clients) < count:  # noqa: ASYNC110 - a client has no event for it
            await asyncio.sleep(0.05)
        say()
        asked = commands()
        while await asyncio.to_thread(next, asked, None):
            say(_in_touch(clients))


async def _routes(stack: AsyncExitStack, url: str, topics: Sequence[str], config: ClientConfig) -> _Client:
    client = await stack.enter_async_context(AsyncRouteClient.from_url(url, config))
    if len(await client.get(topics)) != len(topics):
        raise RuntimeError("a topic of the benchmark has no route")
    return _Routes(client)


async def _polling(stack: AsyncExitStack, url: str, topics: Sequence[str], _: ClientConfig) -> _Client:
    client = _Polling(url, topics)
    stack.push_async_callback(client.aclose)
    return client


def _in_touch(clients: Sequence[_Client]) -> int:
    return sum(client.in_touch() for client in clients)
