"""Ports of the loopback interface for tests."""

from __future__ import annotations

import random
import socket
from contextlib import closing, suppress
from typing import Final

__all__ = ["free_port"]

# Linux gives higher ones to outgoing connections, and EmbeddedServer takes higher ones too.
_PORTS: Final = range(10_000, 16_000)
# Not from the tests' own generator, which begins anew with each test.
_LEFT: Final = random.SystemRandom().sample(_PORTS, len(_PORTS))


def free_port() -> int:
    """Return a port that nobody listens at, that no outgoing connection will be given, and never again."""
    while True:
        port = _LEFT.pop()
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
