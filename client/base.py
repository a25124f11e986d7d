"""What both route clients share, all that never waits, and what they do when their process is copied."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING

from ..registry.checks import check_broker_name, check_name, check_names
from .attempts.log import AttemptLog
from .attempts.policy import RetryPolicy
from .config import ClientConfig
from .core import ClientCore
from .faults.broker import FaultState
from .health import Health


class _Base:
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
        self,
        broker_name: str,
        latency_s: float,
        *,
        failed: bool = False,
        reachable: bool | None = None,
        generation: int | None = None,
    ) -> None:
        """Tell how long a broker took to answer, or to fail; `attempts` does it by itself.

        `reachable`, `generation`: see FaultMemory.record. Raises InvalidInput for a latency that is none.
        """
        if broker_name not in self._core.known_brokers:
            check_broker_name(broker_name, "broker_name")
        self._core.brokers.record(
            broker_name,
            latency_s,
            monotonic(),
            failed=failed,
            reachable=reachable,
            generation=generation,
        )

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

    def health(self) -> Health:
        """Return how far the client's view can be trusted."""
        return self._core.health(monotonic())

    def has_taken_in(self, position: str) -> bool:
        """Whether the client knows all that happened up to a position in the change stream.

        Raises InvalidInput for what is no position.
        """
        return self._core.has_taken_in(position, monotonic())

    def accept(self) -> None:
        """Believe the store now, whatever it lost: for an operator who knows that a mass loss is true."""
        self._core.accept(monotonic())

    def _log(self, topic: str, retries: int | None, policy: RetryPolicy | None) -> AttemptLog:
        if topic not in self._views:
            check_name("topic", topic)
        return AttemptLog(
            topic,
            (policy or self.config.policy).with_retries(retries),
            self.record,
            generation=lambda: self._faults.generation,
            tell=self._core.tell_attempt,
            see=self._core.see,
        )

    def _begin_copy(self) -> None:
        self._core.begin_copy()
        self._faults = self._core.brokers.faults


class RouteClientBase(_Base):
    """What a client for threads does in a copy of its process: it begins anew at its first use there."""

    _starting: threading.Lock
    _closed: bool

    if TYPE_CHECKING:

        def start(self) -> None: ...  # noqa: D102 - of the subclass

        def _drop_background(self) -> bool: ...

    def before_fork(self) -> None:
        """Let nothing change while the process is copied."""
        self._starting.acquire()
        self._core.known.lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._core.known.lock.release()
        self._starting.release()

    def after_fork_in_child(self) -> None:
        """Leave it to the first use to begin anew: threads are not copied, and locks may be held by them."""
        had_begun = self._drop_background()
        self._is_copy = (self._is_copy or had_begun) and not self._closed
        self._begin_copy()
        self._starting.release()

    def _use_copy(self) -> None:
        self.start()


class AsyncRouteClientBase(_Base):
    """What a client for asyncio does in a copy of its process: nothing, as the loop does not run there."""

    def before_fork(self) -> None:
        """Let nothing change while the process is copied."""
        self._core.known.lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._core.known.lock.release()

    def after_fork_in_child(self) -> None:
        """Refuse every use from now on."""
        self._is_copy = True
        self._begin_copy()

    async def _use_copy(self) -> None:
        raise RuntimeError("the route client was made before a fork: make a new one in the child")
