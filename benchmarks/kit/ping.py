"""A bare pub/sub message to another process: the least that a server takes to tell anybody of anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import redis

BARE: Final = "bare pub/sub ping, p50"
BARE_P99: Final = "bare pub/sub ping, p99"

_CHANNEL: Final = "ping"
_DEADLINE_S: Final = 10.0


def ping(client: redis.Redis) -> None:
    """Send one."""
    client.publish(_CHANNEL, b"")


@contextmanager
def hearing(url: str) -> Iterator[Callable[[], int]]:
    """Give a function that waits for the next one, and returns when (ns, monotonic) it was there."""
    with redis.Redis.from_url(url) as client:
        subscriber: Any = client.pubsub(ignore_subscribe_messages=True)
        subscriber.subscribe(_CHANNEL)
        subscriber.get_message(timeout=_DEADLINE_S)  # the confirmation: from here on nothing is missed

        def next_ns() -> int:
            if subscriber.get_message(timeout=_DEADLINE_S) is None:
                raise TimeoutError(f"no ping within {_DEADLINE_S} s")
            return time.monotonic_ns()

        yield next_ns
