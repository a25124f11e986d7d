"""How soon is a change with 200 followers, and what does that cost?

The receivers are raw connections in one other process: 200 followers in Python would measure the
interpreter, not the server. They wait for what a follower takes a change from: the doorbell with its
record. Peers: a bare PUBLISH of the same bytes, and blocked XREADs, which ask again at once: that is part
of their price. Ratio: the server's CPU for a delivery to that of each.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import Any, Final
from urllib.parse import urlsplit

import hiredis
import redis

from sharedroutes.registry import RouteStore
from sharedroutes.registry.plans import ORIGIN

from .kit.figures import Figure, Outcome, at_most, interleave, percentile, ratio
from .kit.processes import Child, commands, running, say
from .kit.workload import Writer, opened, tables, topic_names

_SUBSCRIBE: Final = "subscribe"
_XREAD: Final = "xread"
_DOORBELL: Final = "doorbell"
_PUBLISH: Final = "bare PUBLISH of the same bytes"
_BLOCKED: Final = "blocked XREADs"
_CHANNEL: Final = "bare"
_DEADLINE_S: Final = 10.0
_AT_ONCE: Final = 65_536
_TARGET_MS: Final = 15.0
_TOPICS: Final = 10


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 15
    changes: int = 40
    """In one round of one contestant."""

    followers: int = 200


QUICK: Final = Size(rounds=5, changes=20)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and RuntimeError when the other process ends early."""
    with opened() as (server, store, client):
        (table,) = tables(topic_names(_TOPICS), 1)
        writer, numbers = Writer(store, table), cycle((3, 5))

        def change() -> None:
            writer.write(next(numbers))

        bell = _a_doorbell(store, change)
        rings = _FanOut(server.url, client, _SUBSCRIBE, store.keys.changes, change, size)
        bare = _FanOut(
            server.url, client, _SUBSCRIBE, _CHANNEL, partial(client.publish, _CHANNEL, bell), size
        )
        blocked = _FanOut(server.url, client, _XREAD, store.keys.changes, change, size)
        contestants = {_DOORBELL: rings, _PUBLISH: bare, _BLOCKED: blocked}
        p99 = interleave(size.rounds, {name: one.round for name, one in contestants.items()})
    figures = []
    costs = {}
    for name, one in contestants.items():
        target = at_most(_TARGET_MS) if name == _DOORBELL else None
        costs[name] = Figure(f"{name}, server CPU", "us a delivery", one.cpu_us[1:])
        figures += [
            Figure(f"{name}, p50", "ms", one.p50_ms[1:]),
            Figure(f"{name}, p99", "ms", p99[name], target),
            costs[name],
        ]
    ratios = [ratio(costs[_DOORBELL], costs[other]) for other in (_PUBLISH, _BLOCKED)]
    note = f"{size.followers} receivers; {size.changes} changes a round; a doorbell has {len(bell)} bytes"
    return Outcome([*figures, *ratios], [note])


def _a_doorbell(store: RouteStore, change: Callable[[], None]) -> bytes:
    """Return the message that a change rings with."""
    doorbell = store.doorbell()
    try:
        while doorbell.wait(_DEADLINE_S) != b"":
            pass  # until it is subscribed
        change()
        message = doorbell.wait(_DEADLINE_S)
    finally:
        doorbell.close()
    if not message:
        raise RuntimeError("a change did not ring")
    return message


@dataclass
class _FanOut:
    """One way to notify many followers of a change."""

    url: str
    client: redis.Redis
    mode: str
    key: str
    act: Callable[[], object]
    size: Size
    p50_ms: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def round(self) -> float:
        """Return the p99 (ms) of one round; keep its p50 and the server's CPU a delivery."""
        found: list[float] = []
        arguments = (self.url, self.mode, self.key, self._position(), self.size.followers)
        with running(receive, *arguments) as receivers:
            self._send(receivers)  # the first one is slower, whatever is sent
            before = self._server_us()
            for _ in range(self.size.changes):
                found += self._send(receivers)
            cpu_us = self._server_us() - before
        self.p50_ms.append(percentile(found, 0.5))
        self.cpu_us.append(cpu_us / len(found))
        return percentile(found, 0.99)

    def _send(self, receivers: Child) -> list[float]:
        receivers.tell("next")
        begin = time.monotonic_ns()
        self.act()
        return [(arrival - begin) / 1e6 for arrival in receivers.answer()]

    def _position(self) -> str:
        last: Any = self.client.xrevrange(self.key, count=1) if self.mode == _XREAD else ()
        return last[0][0].decode() if last else ORIGIN

    def _server_us(self) -> float:
        used = self.client.info("cpu")
        return (float(used["used_cpu_user"]) + float(used["used_cpu_sys"])) * 1e6


class _Receiver:
    """One connection, which waits for messages."""

    def __init__(self, address: tuple[str, int], request: Callable[[str], bytes], position: str) -> None:
        self.socket = socket.create_connection(address, _DEADLINE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()
        self._request = request
        self.socket.sendall(request(position))

    def messages(self) -> Iterator[Any]:
        """Read from the socket; yield the replies that are complete."""
        self._reader.feed(self.socket.recv(_AT_ONCE))
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, Exception):
                raise reply
            yield reply

    def has_got(self, reply: Any) -> bool:
        """Whether a reply is a message; a reader of the stream asks for the next one."""
        if reply[0] == b"message":
            return True
        if reply[0] == b"subscribe":
            return False
        ((_, entries),) = reply
        self.socket.sendall(self._request(entries[-1][0].decode()))
        return True


def receive(url: str, mode: str, key: str, position: str, count: int) -> None:
    """In the other process: receive on so many connections, in one loop over epoll.

    They are subscribed to a channel, or in a blocking XREAD of a stream. For each command this says when each
    of them had the next message (ns); raises TimeoutError when it does not reach all.
    """
    parts = urlsplit(url)
    address = (str(parts.hostname), int(parts.port or 0))
    poll = select.epoll()
    request = partial(_subscribe if mode == _SUBSCRIBE else _xread, key)
    made = [_Receiver(address, request, position) for _ in range(count)]
    receivers = {one.socket.fileno(): one for one in made}
    for descriptor in receivers:
        poll.register(descriptor, select.EPOLLIN)
    if mode == _SUBSCRIBE:
        _collect(poll, receivers, lambda reply: bool(reply[0] == b"subscribe"))
    for _ in commands():
        say()
        say(_collect(poll, receivers))


def _collect(
    poll: select.epoll, receivers: dict[int, _Receiver], wanted: Callable[[Any], bool] | None = None
) -> list[int]:
    """Wait until every connection has got one reply that is wanted; return when each had it (ns)."""
    arrivals: dict[int, int] = {}
    while len(arrivals) < len(receivers):
        ready = poll.poll(_DEADLINE_S)
        if not ready:
            raise TimeoutError(f"only {len(arrivals)} of {len(receivers)} got it within {_DEADLINE_S} s")
        for descriptor, _ in ready:
            one = receivers[descriptor]
            for reply in one.messages():
                if (wanted or one.has_got)(reply):
                    arrivals[descriptor] = time.monotonic_ns()
    return list(arrivals.values())


def _subscribe(key: str, _: str) -> bytes:
    return _packed("SUBSCRIBE", key)


def _xread(key: str, position: str) -> bytes:
    return _packed("XREAD", "BLOCK", "0", "STREAMS", key, position)


def _packed(*words: str) -> bytes:
    pack: Any = hiredis.pack_command  # its stub knows commands of one word only
    command: bytes = pack(words)
    return command
