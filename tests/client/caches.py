"""A cache that is asked and answered step by step, over a registry in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sharedroutes.client import ClientConfig
from sharedroutes.client.cache import Request, RouteCache
from sharedroutes.registry import TopicRoute
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


@dataclass
class Rig:
    """A cache and the registry that answers it."""

    cache: RouteCache
    table: FakeTable = field(default_factory=FakeTable)

    @property
    def held(self) -> set[str]:
        """The brokers and topics that are held back."""
        return self.cache.losses.held

    def route(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic as the cache knows it."""
        return self.cache.table.route(topic)

    def brokers_of(self, topic: str) -> dict[str, dict[int, str]]:
        """Return the addresses in the route of a topic by broker name."""
        route = self.route(topic)
        return {data.broker_name: dict(data.broker_addrs) for data in route.broker_datas} if route else {}

    def due(self, now: float) -> Request:
        """Return what the cache asks for now: there has to be something."""
        request = self.cache.due(now)
        assert request is not None
        return request

    def answer(self, request: Request, now: float = 0.0) -> set[str]:
        """Answer a request; return the topics that changed."""
        return self.cache.offer(request, self.table.answer(request), now)

    def look(self, now: float = 0.0) -> set[str]:
        """Read the stream, and answer all that the cache asks for then; return the topics that changed."""
        self.read_stream(now)
        changed: set[str] = set()
        while (request := self.cache.due(now)) is not None:
            changed |= self.answer(request, now)
        return changed

    def read_stream(self, now: float = 0.0) -> None:
        """Find nothing lost in the stream."""
        self.cache.reads_stream()
        self.cache.stream_was_read(now)

    def full_look(self, now: float) -> None:
        """Read the stream, and answer one request for everything then."""
        self.read_stream(now)
        self.cache.refresh_at = now
        request = self.due(now)
        assert request.full
        self.answer(request, now)

    def ask(self, *topics: str, now: float = 0.0) -> None:
        """Do what a caller does who needs topics that are not known."""
        self.answer(self.cache.request(topics), now)

    def learn(self, names: Sequence[str], topic: str = "t") -> None:
        """Let the brokers hold the topic, and the cache know all about it."""
        self.look()
        for name in names:
            self.table.register(name, topic)
        self.ask(topic)
