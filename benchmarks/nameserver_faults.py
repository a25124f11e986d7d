"""A broker dies, or hangs: what do RocketMQ's producers notice, with a front and with RocketMQ's name server?

Two real brokers, which register at both name servers. Two producers, each with several threads, which send to
the same topic at the same time; one knows RocketMQ's name server alone, the other the front. All timers are
RocketMQ's own. A broker is killed (kill -9), comes back, and is stopped (SIGSTOP).
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Final, NamedTuple

from sharedroutes.registry import EmbeddedServer

from .kit.figures import Figure, Outcome, Target, at_most
from .kit.name_servers import Front, Link, brokers_of, route_request
from .kit.processes import await_until
from .kit.rocketmq import Broker, JavaAbsent, broker, name_server, sender
from .kit.server_process import await_listening

_TOPIC: Final = "orders"
_VICTIM: Final = "broker-a"
_SURVIVOR: Final = "broker-b"
_REAL: Final = "RocketMQ"
_FRONT: Final = "front"
_KILLED: Final = "kill -9"
_STOPPED: Final = "SIGSTOP"
_CONTINUED: Final = "SIGCONT"
_POLL_S: Final = 0.02
_STARTS_S: Final = 120.0
_NOTICED_S: Final = 200.0
"""RocketMQ's name server waits 120 s for a broker, and clients ask it every 30 s."""

_SLOW_S: Final = 1.0
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    threads: int = 8
    """Of each producer."""

    pause_ms: int = 50
    before_s: float = 15.0
    """Sends before a fault, with which those after it are compared."""

    after_s: float = 10.0
    """Sends after both producers have noticed."""

    kills: int = 3
    stops: int = 1
    """How often a broker is stopped: each time RocketMQ's name server takes two minutes to notice."""


QUICK: Final = Size(before_s=5.0, after_s=3.0, kills=1, stops=0)


def run(size: Size) -> Outcome:
    """Measure; where Java is absent, say so; raises RegistryError, RuntimeError, OSError and TimeoutError."""
    try:
        with _cluster(size) as cluster:
            return Outcome([*_kills(size, cluster), *_stops(size, cluster)], _notes(size))
    except JavaAbsent as error:
        return Outcome([], [f"nothing was measured: {error}"])


def _notes(size: Size) -> Sequence[str]:
    return [
        "two brokers, name server and producers of RocketMQ 5.3.3, with default timers; one front",
        f"each producer: {size.threads} threads, {size.pause_ms} ms between two messages",
        f"sends count from the fault until both producers' routes have changed, and {size.after_s:g} s more",
        f"slow: more than {_SLOW_S:g} s; throughput: messages sent, in percent of those before the fault",
    ]


class _Send(NamedTuple):
    """One message, or the attempt."""

    begin_s: float
    end_s: float
    is_sent: bool


@dataclass(slots=True)
class _Side:
    """A name server, and the producer that asks it; times are of the monotonic clock."""

    name: str
    port: int
    sends: list[_Send] = field(default_factory=list)
    own_routes: list[tuple[float, Sequence[str]]] = field(default_factory=lambda: [(0.0, ())])
    """The brokers in the producer's own route, and since when."""

    routes: list[tuple[float, Sequence[str]]] = field(default_factory=lambda: [(0.0, ())])
    """The same for what the name server answers."""

    def __str__(self) -> str:
        """Return what it knows now."""
        answer, own = self.routes[-1][1], self.own_routes[-1][1]
        return f"{self.name} answers {answer}, the producer has {own} and {len(self.sends)} sends"

    def follow(self, lines: IO[str]) -> None:
        """Note what the producer says, until it ends."""
        for line in lines:
            match line.split():
                case ["route", at_ns, names]:
                    self.own_routes.append((int(at_ns) / _NS, names.split(",")))
                case ["sent" | "failed" as how, begin_ns, end_ns]:
                    self.sends.append(_Send(int(begin_ns) / _NS, int(end_ns) / _NS, how == "sent"))

    def poll(self, over: threading.Event) -> None:
        """Note what the name server answers, until it is over."""
        with Link(self.port) as link:
            while not over.wait(_POLL_S):
                names = sorted(brokers_of(link.ask(route_request(_TOPIC))))
                if names != self.routes[-1][1]:
                    self.routes.append((time.monotonic(), names))

    def has(self, names: Sequence[str]) -> bool:
        """Whether these are the brokers in both routes."""
        return [*names] == self.routes[-1][1] == self.own_routes[-1][1]


@dataclass(slots=True)
class _Cluster:
    """All of it."""

    victim: Broker
    sides: Sequence[_Side]

    def await_brokers(self, names: Sequence[str], within_s: float = _STARTS_S) -> None:
        """Wait until all routes have these brokers."""
        try:
            await_until(
                lambda: all(side.has(names) for side in self.sides),
                f"all routes have {' and '.join(names)}",
                deadline_s=within_s,
                poll_s=_POLL_S,
            )
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {'; '.join(map(str, self.sides))}") from None


@contextmanager
def _cluster(size: Size) -> Iterator[_Cluster]:
    """Run two brokers, two name servers and two producers, until all know each other and a moment longer."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sharedroutes-fronts-"))
        redis = stack.enter_context(EmbeddedServer())
        real = stack.enter_context(name_server())
        front = stack.enter_context(Front(redis.url, Path(folder) / "front.log"))
        sides = [_Side(_REAL, real.port), _Side(_FRONT, front.port)]
        for side, process in zip(sides, (real, front), strict=True):
            await_listening(side.port, process)
        addresses = ";".join(f"127.0.0.1:{side.port}" for side in sides)
        victim, _ = (stack.enter_context(broker(name, [_TOPIC], addresses)) for name in (_VICTIM, _SURVIVOR))
        over = threading.Event()
        threads = [threading.Thread(target=side.poll, args=(over,)) for side in sides]
        for thread in threads:
            stack.callback(thread.join)
            thread.start()
        stack.callback(over.set)
        await_until(
            lambda: all(len(side.routes[-1][1]) > 1 for side in sides),
            "both name servers have both brokers",
            deadline_s=_STARTS_S,
        )
        for side in sides:
            address = f"127.0.0.1:{side.port}"
            lines = stack.enter_context(sender(address, _TOPIC, threads=size.threads, pause_ms=size.pause_ms))
            threading.Thread(target=side.follow, args=(lines,), daemon=True).start()
        cluster = _Cluster(victim, sides)
        cluster.await_brokers((_VICTIM, _SURVIVOR))
        yield cluster


def _kills(size: Size, cluster: _Cluster) -> Iterator[Figure]:
    rounds = []
    for left in reversed(range(size.kills)):
        rounds.append(_fault(size, cluster, cluster.victim.kill))
        if left or size.stops:
            cluster.victim.start()
            cluster.await_brokers((_VICTIM, _SURVIVOR))
    if rounds:
        yield from _figures(_KILLED, rounds, _KILL_TARGETS)


def _stops(size: Size, cluster: _Cluster) -> Iterator[Figure]:
    stops, returns = [], []
    for _ in range(size.stops):
        stops.append(_fault(size, cluster, partial(cluster.victim.send, signal.SIGSTOP)))
        begin_s = time.monotonic()
        cluster.victim.send(signal.SIGCONT)
        cluster.await_brokers((_VICTIM, _SURVIVOR))
        returns.append([_until(side.routes, begin_s, has_victim=True) for side in cluster.sides])
    if stops:
        yield from _figures(_STOPPED, stops, _STOP_TARGETS)
        for side, values in zip(cluster.sides, zip(*returns, strict=True), strict=True):
            yield Figure(f"{_CONTINUED}, {side.name}: until its answers have the broker", "s", values)


def _fault(size: Size, cluster: _Cluster, happen: Callable[[], None]) -> list[_Noticed]:
    """Let something happen to a broker; return what each side noticed, once both have."""
    time.sleep(size.before_s)
    begin_s = time.monotonic()
    happen()
    cluster.await_brokers((_SURVIVOR,), _NOTICED_S)
    time.sleep(size.after_s)
    return [_noticed(side, size, begin_s, time.monotonic()) for side in cluster.sides]


class _Noticed(NamedTuple):
    """What one side noticed of a fault."""

    dropped_s: float
    route_s: float
    failed: int
    slow: int
    slowest_s: float
    throughput: float


_MEANINGS: Final = (
    ("until its answers lack the broker", "s"),
    ("until the producer's own route lacks it", "s"),
    ("failed sends", ""),
    ("slow sends", ""),
    ("slowest send", "s"),
    ("throughput", "%"),
)
"""Of each field: what it is called, and its unit."""

_KILL_TARGETS: Final = {"dropped_s": at_most(1), "failed": at_most(0)}
_STOP_TARGETS: Final = {"dropped_s": at_most(10)}
"""Of the front."""


def _noticed(side: _Side, size: Size, begin_s: float, end_s: float) -> _Noticed:
    sends = [*side.sends]
    after = [send for send in sends if begin_s <= send.end_s <= end_s]
    before = [send for send in sends if begin_s - size.before_s <= send.end_s < begin_s and send.is_sent]
    usual = len(before) / size.before_s * (end_s - begin_s)
    taken_s = [send.end_s - send.begin_s for send in after]
    sent = sum(send.is_sent for send in after)
    return _Noticed(
        dropped_s=_until(side.routes, begin_s, has_victim=False),
        route_s=_until(side.own_routes, begin_s, has_victim=False),
        failed=len(after) - sent,
        slow=sum(one > _SLOW_S for one in taken_s),
        slowest_s=max(taken_s),
        throughput=100 * sent / usual,
    )


def _until(routes: Sequence[tuple[float, Sequence[str]]], begin_s: float, *, has_victim: bool) -> float:
    """Return how long it took from then on until a route had the broker, or lacked it."""
    return next(
        at_s - begin_s for at_s, names in routes if at_s > begin_s and (_VICTIM in names) is has_victim
    )


def _figures(
    what: str, rounds: Sequence[Sequence[_Noticed]], targets: Mapping[str, Target]
) -> Iterator[Figure]:
    """Yield the fields of both sides, one beside the other."""
    for place, (name, (meaning, unit)) in enumerate(zip(_Noticed._fields, _MEANINGS, strict=True)):
        for side, title in enumerate((_REAL, _FRONT)):
            target = targets.get(name) if title == _FRONT else None
            yield Figure(f"{what}, {title}: {meaning}", unit, [one[side][place] for one in rounds], target)
