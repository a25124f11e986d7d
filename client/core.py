"""All that a route client decides, for threads and for asyncio; the clients only do the I/O."""

from __future__ import annotations

import random
import threading
from collections.abc import Collection, Container, Iterable
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from ..registry.checks import check_broker_name, check_name, check_names
from ..registry.errors import InvalidInput
from ..registry.plans.changes import order
from .attempts.log import AttemptLog
from .attempts.policy import RetryPolicy
from .brokers import Brokers
from .cache import Request
from .cache_follower import CacheFollower
from .config import ClientConfig
from .faults.broker import Result
from .flights import Flight
from .locked_cache import Feed, LockedCache
from .observers import LogObserver, tell_all
from .observers.events import ClockReading
from .observers.state import FaultState, Health
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

        self.brokers = Brokers(config.faults, config.hints, self.known_brokers, self._rng, tell)
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
        reading = self.follower.reading
        at = None if reading is None else reading.read_at(now)
        with self.known.lock:
            freshness = self.known.freshness
            return Health(
                freshness.source,
                None if freshness.answered_at is None else now - freshness.answered_at,
                freshness.error,
                self.known.stream.id,
                self.known.cache.held_losses(now),
                len(self.known.table.rows),
                *(() if at is None else (at.server, at.role, at.lag_s)),
            )

    def place(self) -> str | None:
        """Return the id of the last change that was taken in; None = there is no place in the stream."""
        return self.known.stream.id

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
            self.known.routes.close()

    def begin_copy(self) -> None:
        """Begin anew in a copy of the process, which was made while `known.lock` was held: let go of it.

        What is known stays, what others do does not, and chance is another one.
        """
        self._rng.seed()
        self.brokers.begin_copy()
        self.known.begin_copy()
        self.follower.begin_round()
        self.known.lock.release()

    def _restart(self, broker_name: str, now: float) -> None:
        self.brokers.restarted(broker_name, now)


class _ClientBase:
    """A client's decisions, and what callers may ask or tell without waiting for anybody."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._core = ClientCore(config)
        self._views = self._core.views
        self._routes = self._core.routes
        self._faults = self._core.brokers.faults
        self._is_copy = False
        """Whether this process is a fork of the one that started the client."""

    def record(
        self, broker_name: str, latency_s: float, *, failed: bool = False, reachable: bool | None = None
    ) -> None:
        """Tell how long a broker took to answer, or to fail; `attempts` does it by itself.

        `reachable` None: a success means yes, and a failure means no if there is a detector to find out when
        that ends. Raises InvalidInput for a latency that is none.
        """
        if broker_name not in self._core.known_brokers:
            check_broker_name(broker_name, "broker_name")
        self._core.brokers.record(broker_name, Result(latency_s, failed, reachable), monotonic())

    def faults(self) -> dict[str, FaultState]:
        """Return what is known of how brokers did, by name."""
        return self._faults.states(monotonic())

    def forget(self, topics: Iterable[str]) -> None:
        """Keep these topics fresh no more; the next use of one reads it anew."""
        self._core.forget(check_names("topics", topics))

    def find_address(
        self, broker_name: str, broker_id: int = 0, *, only_this: bool = False
    ) -> tuple[str, int] | None:
        """Return where to pull from a broker of a known topic, and the id of that replica; None = nowhere.

        Source: MQClientInstance.findBrokerAddressInSubscribe, see selection.find_address.
        """
        found = self._core.find_address(broker_name, broker_id, only_this=only_this)
        if found is None:
            check_broker_name(broker_name, "broker_name")
        return found

    def known_route(self, topic: str) -> Route | None:
        """Return the route of a topic if it is known, without asking anybody; None = it is not."""
        return self._routes.get(topic) or self._core.route(topic)

    def health(self) -> Health:
        """Return how far the client's view can be trusted."""
        return self._core.health(monotonic())

    def has_taken_in(self, position: str) -> bool:
        """Whether the client knows all that happened up to a position in the change stream.

        Raises InvalidInput for what is no position.
        """
        return self._core.has_taken_in(position, monotonic())

    def on_feed(self, listener: Feed) -> None:
        """Give the changes of the registry to a listener as they are taken in; None = some may be missed.

        It is called where they are read, so it has to be quick. From `start` on; there is one listener.
        """
        self._core.known.feed = listener

    def accept(self) -> None:
        """Believe the store now, whatever it lost: for an operator who knows that a mass loss is true."""
        self._core.accept(monotonic())

    def _log(self, topic: str, retries: int | None, policy: RetryPolicy | None) -> AttemptLog:
        if topic not in self._views:
            check_name("topic", topic)
        return AttemptLog(
            topic,
            (policy or self.config.policy).with_retries(retries),
            self._core.brokers.record,
            tell=self._core.tell_attempt,
            see=self._core.see,
        )

    # --- forks ----------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Let nothing change while the process is copied."""
        self._core.known.lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._core.known.lock.release()

    def after_fork_in_child(self) -> None:
        """Know that this is a copy: threads and tasks are not copied, and locks may be held by them."""
        self._is_copy = True
        self._core.begin_copy()
        self._faults = self._core.brokers.faults


class RouteClientBase(_ClientBase):
    """What a client for threads does in a copy of its process: it begins anew at its first use there."""

    _starting: threading.Lock
    _closed: bool

    if TYPE_CHECKING:

        def start(self) -> None: ...  # noqa: D102 - of the subclass

        def _drop_background(self) -> bool: ...

    def before_fork(self) -> None:
        """Let nobody start or close it besides."""
        self._starting.acquire()
        super().before_fork()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        super().after_fork_in_parent()
        self._starting.release()

    def after_fork_in_child(self) -> None:
        """Leave it to the first use to begin anew, if it had begun before."""
        begins = (self._drop_background() or self._is_copy) and not self._closed
        super().after_fork_in_child()
        self._is_copy = begins
        self._starting.release()

    def _use_copy(self) -> None:
        self.start()


class AsyncRouteClientBase(_ClientBase):
    """What a client for asyncio does in a copy of its process: nothing, as the loop does not run there."""

    async def _use_copy(self) -> None:
        raise RuntimeError("the route client was made before a fork: make a new one in the child")
