"""The other process of the fan-out benchmark: `python -m benchmarks.receivers URL MODE KEY POSITION COUNT`.

COUNT connections in one loop over epoll: each subscribed to the channel KEY (MODE `subscribe`), or in a
blocking XREAD of the stream KEY after POSITION (MODE `xread`). For each line on standard input it answers
`ready`, and after the next message the monotonic clock (ns) when each connection had it whole.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import hiredis

SUBSCRIBE: Final = "subscribe"
XREAD: Final = "xread"

_DEADLINE_S: Final = 10.0
_AT_ONCE: Final = 65_536


class _Receiver:
    """One connection and what it still has to be told."""

    def __init__(self, address: tuple[str, int], request: Callable[[str], bytes], position: str) -> None:
        self.socket = socket.create_connection(address, _DEADLINE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()
        self._request = request
        self.socket.sendall(request(position))

    def messages(self) -> Iterator[Any]:
        """Read what is there and return what it completes."""
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


def main(url: str, mode: str, key: str, position: str, count: int) -> None:
    """Receive until the standard input ends; raises TimeoutError when a message does not reach all."""
    parts = urlsplit(url)
    address = (str(parts.hostname), int(parts.port or 0))
    poll = select.epoll()
    request = partial(_subscribe if mode == SUBSCRIBE else _xread, key)
    made = [_Receiver(address, request, position) for _ in range(count)]
    receivers = {one.socket.fileno(): one for one in made}
    for descriptor in receivers:
        poll.register(descriptor, select.EPOLLIN)
    if mode == SUBSCRIBE:
        _collect(poll, receivers, lambda reply: bool(reply[0] == b"subscribe"))
    for _ in sys.stdin:
        _say("ready")
        _say(" ".join(map(str, _collect(poll, receivers))))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


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


if __name__ == "__main__":
    _, *words, how_many = sys.argv
    main(words[0], words[1], words[2], words[3], int(how_many))
