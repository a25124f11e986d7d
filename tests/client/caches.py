"""A cache that is asked and answered step by step, over a registry in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharedroutes.client import ClientConfig
from sharedroutes.client.cache import RouteCache
from tests.client.fake_table import FakeTable

TAIL_S: Final = 1.0
REFRESH_S: Final = 20.0
RETRY_S: Final = 2.0
HOLD_S: Final = 30.0
CONFIG: Final = ClientConfig(
    tail_s=TAIL_S, refresh_s=REFRESH_S, jitter_s=0.5, missing_retry_s=RETRY_S, guard_hold_s=HOLD_S
)
SETTLED: Final = 1.0
"""A time at which what the first looks brought is neither due nor old."""


def look(cache: RouteCache, table: FakeTable, now: float = 0.0) -> set[str]:
    """Answer what the cache asks for now; return the topics that changed."""
    changed: set[str] = set()
    while (request := cache.due(now)) is not None:
        changed |= cache.offer(request, table.answer(request), now)
    return changed


def ask(cache: RouteCache, table: FakeTable, *topics: str, now: float = 0.0) -> None:
    """Do what a caller does who needs topics that are not known."""
    request = cache.request(topics)
    cache.offer(request, table.answer(request), now)


def refresh(cache: RouteCache, table: FakeTable, now: float) -> None:
    """Read everything, whether or not it is time."""
    cache.refresh_at = now
    look(cache, table, now)


def brokers_of(cache: RouteCache, topic: str) -> dict[str, dict[int, str]]:
    """Return the addresses in the route of a topic by broker name."""
    route = cache.table.route(topic)
    return {} if route is None else {data.broker_name: dict(data.broker_addrs) for data in route.broker_datas}


def learn(cache: RouteCache, table: FakeTable, names: Sequence[str], topic: str = "t") -> None:
    """Let the brokers hold the topic, and the cache know all about it."""
    look(cache, table)
    for name in names:
        table.register(name, topic)
    ask(cache, table, topic)
