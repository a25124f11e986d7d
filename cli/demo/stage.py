"""Makes the events of the demo happen, one after the other, and notes when each is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Final, Self

from ...client import ClientConfig, NoRoute, RouteClient
from ...registry import EmbeddedServer, RouteStore, StoreUnavailable
from .fleet import Fleet
from .measure import Log, Observed, Report, measure
from .patience import DemoFailed, Patience
from .scenario import BROKERS, SCENARIO, TOPIC, Event, Happening, Settings
from .sender import Sender
from .show import Show

_CALM_DEADLINE_S: Final = 10.0
_START_DEADLINE_S: Final = 15.0


class Stage:
    """A server, the fleet and a sending client; to be used in a `with` block, which ends all of them."""

    def __init__(self, folder: Path, settings: Settings, patience: Patience, show: Show) -> None:
        self._settings = settings
        self._patience = patience
        self._show = show
        # A socket file cannot be taken by anybody while the server is away; a free port can.
        self._server = EmbeddedServer(unix_socket=folder / "redis.sock")
        self._fleet = Fleet(BROKERS, folder, self._server.url, settings)
        self._store = RouteStore.from_url(self._server.url)
        self._client = RouteClient.from_url(self._server.url, ClientConfig())
        self._sender = Sender(self._client, settings)
        self._live: frozenset[str] = frozenset()
        self._stack = ExitStack()
        self._acts: dict[Happening, Callable[[Sequence[str]], float]] = {
            Happening.ALL_START: self._start_all,
            Happening.BROKER_KILLED: self._kill_brokers,
            Happening.HOST_LOST: self._lose_hosts,
            Happening.STORE_STOPPED: self._stop_store,
            Happening.STORE_EMPTY: self._start_store,
            Happening.BROKER_BACK: self._start_brokers,
            Happening.HOST_BACK: self._start_hosts,
        }

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._server)
            stack.enter_context(self._fleet)
            stack.enter_context(self._store)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, scenario: Sequence[Event] = SCENARIO) -> Report:
        """Make the events happen; return what they came to. Raises DemoFailed and Interrupted."""
        observed = []
        for event in scenario:
            observed.append(self._happen(event))
            self._calm_down(event.happening)
        self._stack.close()  # the sender has ended before the journals are read
        log = Log(self._sender.tries, self._sender.messages, self._fleet.stored(), monotonic())
        return measure(observed, log, pause_limit_s=self._settings.pause_limit_s)

    def logs(self) -> str:
        """Return the last lines of what every process wrote."""
        return self._fleet.logs()

    def _happen(self, event: Event) -> Observed:
        self._show.say(event.title)
        began_s = monotonic()
        live = self._live - set(event.brokers)
        at_s = self._acts[event.happening](event.brokers)
        noticed_s = self._patience.until(lambda: self._is_noticed(event, began_s), event.deadline_s)
        self._live = live if event.happening.is_death else live | set(event.brokers)
        observed = Observed(event, began_s, at_s, noticed_s, live)
        self._show.seen(observed)
        return observed

    # --- the acts; each returns the time from which its event is measured -----------------------------------

    def _start_all(self, names: Sequence[str]) -> float:
        at_s = self._start_hosts(names)
        if self._patience.until(lambda: self._are_registered(frozenset(names)), _START_DEADLINE_S) is None:
            raise DemoFailed(f"not all brokers were registered within {_START_DEADLINE_S} s:\n{self.logs()}")
        self._stack.enter_context(self._client)
        self._stack.enter_context(self._sender)
        self._show.follow(self._sender, self._client)
        return at_s

    def _start_hosts(self, names: Sequence[str]) -> float:
        for name in names:
            self._fleet.kill_host(name)
            self._fleet.start_agent(name)
        return self._start_brokers(names)

    def _start_brokers(self, names: Sequence[str]) -> float:
        for name in names:
            self._fleet.start_broker(name)
        at_s = self._patience.until(lambda: all(map(self._fleet.listens, names)), _START_DEADLINE_S)
        if at_s is None:
            raise DemoFailed(
                f"{', '.join(names)}: no connection within {_START_DEADLINE_S} s:\n{self.logs()}"
            )
        return at_s

    def _kill_brokers(self, names: Sequence[str]) -> float:
        at_s = monotonic()
        for name in names:
            self._fleet.kill_broker(name)
        return at_s

    def _lose_hosts(self, names: Sequence[str]) -> float:
        at_s = monotonic()
        for name in names:
            self._fleet.silence_host(name)
        return at_s

    def _stop_store(self, _: Sequence[str]) -> float:
        at_s = monotonic()
        self._server.stop()
        self._show.store(up=False)
        return at_s

    def _start_store(self, _: Sequence[str]) -> float:
        self._server.start()
        self._show.store(up=True)
        return monotonic()

    # --- what is awaited ------------------------------------------------------------------------------------

    def _is_noticed(self, event: Event, since_s: float) -> bool:
        self._sender.check()
        if event.happening.is_death:
            return self._routes_lack(event.brokers)
        if event.happening.is_birth:
            return all(self._sender.has_used(name, since_s) for name in event.brokers)
        if event.happening is Happening.STORE_STOPPED:
            return self._client.health().source == "memory"
        return self._client.health().source == "live" and self._are_registered(self._live)

    def _routes_lack(self, names: Sequence[str]) -> bool:
        try:
            route = self._client.route(TOPIC)
        except NoRoute:
            return True
        return not {row.broker_name for row in route.queue_datas} & set(names)

    def _are_registered(self, names: frozenset[str]) -> bool:
        try:
            return names <= {broker.broker_name for broker in self._store.brokers()}
        except StoreUnavailable:
            return False

    def _calm_down(self, happening: Happening) -> None:
        """Let some messages go by, so that one event ends before the next; an outage lasts its time."""
        wanted = len(self._sender.messages) + self._settings.calm_messages
        until_s = monotonic() + (self._settings.outage_s if happening is Happening.STORE_STOPPED else 0.0)

        def calm() -> bool:
            self._sender.check()
            return len(self._sender.messages) >= wanted and monotonic() >= until_s

        self._patience.until(calm, _CALM_DEADLINE_S)
