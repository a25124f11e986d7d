"""All that a route client decides, for threads and for asyncio; the clients only do the I/O."""

from __future__ import annotations

import random
from collections.abc import Collection, Container, Iterable
from typing import NamedTuple

from ..registry.change_stream.stream import order
from ..registry.errors import InvalidInput
from .brokers import Brokers
from .cache import Request
from .cache_follower import CacheFollower
from .config import ClientConfig
from .flights import Flight
from .health import Health
from .locked_cache import LockedCache
from .observers import LogObserver, tell_all
from .observers.events import ClockReading
from .routes import Route
from .selection import PublishView, find_address


class Question(NamedTuple):
    """What a caller has to do to learn about topics."""

    request: Request | None
    """To ask the store, and to hand in as an answer or as unanswered; None = nothing."""

    flights: list[Flight]
    """To wait for: others are asking already."""


class ClientCore:
    """What callers of one client are told; every `now` is monotonic seconds.

    `known` is what it tells of, `follower` keeps that fresh, `brokers` chooses among those who have a topic.
    """

    def __init__(self, config: ClientConfig, rng: random.Random | None = None) -> None:
        self.config = config
        self._rng = rng or random.Random()
        tell = tell_all((LogObserver(), *config.observers))
        self.tell_attempt = tell_all(config.observers) if config.observers else None
        """For what happens with each message, which the log does not want to know."""

        self.known = LockedCache(config, self._rng, tell, self._restart)
        self.known_brokers: Container[str] = self.known.table.groups
        """The names of brokers in use, to be looked up without the lock."""

        self.brokers = Brokers(config, self.known_brokers, self._rng, tell)
        clock = ClockReading(config.observers, tell)
        self.follower = CacheFollower(config, self.known, self.brokers, clock, self._rng)
        self.views = self.known.routes.views
        self.routes = self.known.routes.routes
        """Ready views and routes by topic; a change of the route removes them. Read without the lock."""

    def view(self, topic: str) -> PublishView | None:
        """Return the view of a topic by what is known, if it is known."""
        with self.known.lock:
            return self.known.routes.view(topic)

    def route(self, topic: str) -> Route | None:
        """Return the route of a topic by what is known."""
        with self.known.lock:
            return self.known.route(topic)

    def find_address(self, broker_name: str, broker_id: int, *, only_this: bool) -> tuple[str, int] | None:
        """Return the address of a replica of a broker in use, and its id; see selection.find_address."""
        with self.known.lock:
            broker = self.known.table.alive.get(broker_name)
        return None if broker is None else find_address(broker, broker_id, only_this=only_this)

    def question(self, topics: Iterable[str], now: float) -> Question:
        """Return what to do to learn about topics that are not known and were not asked for just now."""
        with self.known.lock:
            cache, route = self.known.cache, self.known.table.route
            wanted = [topic for topic in topics if route(topic) is None]
            if wanted and self.config.default_topic:  # it may have to stand in for them
                wanted.append(self.config.default_topic)
            unknown = [
                topic
                for topic in dict.fromkeys(wanted)
                if route(topic) is None and not cache.was_asked(topic, now)
            ]
            own, flights = self.known.flights.board(unknown)
            if not own:
                return Question(None, flights)
            request = cache.request(own)
            self.known.flights.take_off(request.number, own)
            return Question(request, flights)

    def unanswered(self, request: Request, error: BaseException) -> None:
        """A caller's request failed: who waits for the same topics gets the same error."""
        with self.known.lock:
            self.known.flights.land(request.number, request.topics, error)

    def health(self, now: float) -> Health:
        """Return how far the view can be trusted."""
        with self.known.lock:
            freshness = self.known.freshness
            return Health(
                freshness.source,
                None if freshness.answered_at is None else now - freshness.answered_at,
                freshness.error,
                self.known.stream.id,
                self.known.cache.held_losses(now),
                len(self.known.table.rows),
            )

    def has_taken_in(self, position: str, now: float) -> bool:
        """Whether changes up to this position were heard, and what they are about was read."""
        wanted = order(position)
        if wanted is None:
            raise InvalidInput(f"position: {position!r} is no id of the stream, such as '0-0'")
        with self.known.lock:
            heard = order(self.known.stream.id or "")
            return (
                heard is not None
                and heard >= wanted
                and self.known.freshness.error is None
                and self.known.cache.next_due() > now
            )

    def see(self, broker_name: str, now: float) -> tuple[str, bool]:
        """Return the position in the change stream, and whether a broker is to be left alone."""
        return self.known.stream.id or "", self.brokers.is_left_alone(broker_name, now)

    def accept(self, now: float) -> None:
        """Believe the store's next answers, whatever they lack: an operator says so."""
        with self.known.lock:
            self.known.cache.accept(now)

    def forget(self, topics: Collection[str]) -> None:
        """Keep these topics fresh no more."""
        kept = self.config.default_topic
        with self.known.changing():
            self.known.cache.forget([topic for topic in topics if topic != kept])
            self.known.routes.forget(topics)

    def close(self) -> None:
        """Let go of who waits for changes, and keep nothing ready: from now on nothing would be true."""
        self.known.watches.close()
        with self.known.lock:
            self.known.routes.start_anew()

    def begin_copy(self) -> None:
        """Begin anew in a copy of the process, which was made while `known.lock` was held: let go of it.

        What is known stays, what others do does not, and chance is another one.
        """
        self._rng.seed()
        self.brokers.begin_copy()
        self.known.begin_copy()
        self.follower.begin_round()
        self.known.lock.release()

    def _restart(self, broker_name: str) -> None:
        self.brokers.restarted(broker_name)
