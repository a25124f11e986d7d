"""Ports of the loopback interface for tests."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

_WORKER: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_WORKERS: Final = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

# Linux gives higher ones to outgoing connections, and EmbeddedServer takes higher ones too. The processes of
# pytest-xdist share none: where nobody listens now, the other would a moment later.
_WRITTEN_OUT: Final = range(10_900, 10_940)
"""Of brokers that tests only name: 10911 is RocketMQ's. Who listened there would be taken for one of them."""

_PORTS: Final = [port for port in range(10_000 + _WORKER, 16_000, _WORKERS) if port not in _WRITTEN_OUT]
# Not from the tests' own generator, which begins anew with each test.
_LEFT: Final = random.SystemRandom().sample(_PORTS, len(_PORTS))

# A broker also listens two below (RocketMQ: BrokerController, fastRemotingServer): they have blocks of four.
_OF_BROKERS: Final = range(7_002 + 4 * _WORKER, 10_000, 4 * _WORKERS)
_LEFT_FOR_BROKERS: Final = random.SystemRandom().sample(_OF_BROKERS, len(_OF_BROKERS))


def free_port() -> int:
    """Return a port that nobody listens at, that no outgoing connection will be given, and never again."""
    while not _is_free(port := _LEFT.pop()):
        pass
    return port


def free_broker_port() -> int:
    """Return such a port for a real broker, which fails to start when the one two below is taken."""
    while not (_is_free(port := _LEFT_FOR_BROKERS.pop()) and _is_free(port - 2)):
        pass
    return port


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe, suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


@contextmanager
def held_port() -> Iterator[int]:
    """Hold a port for those who come and go at it: no other socket is given it meanwhile."""
    with closing(socket.socket()) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port = free_port()
        holder.bind(("127.0.0.1", port))
        yield port
