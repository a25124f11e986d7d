"""`python -m demo`: makes the events happen, one after the other, and notes when each is seen."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Final, TextIO

import click

from sharedroutes.client import ClientConfig, RouteClient
from sharedroutes.registry import EmbeddedServer, RouteStore, StoreUnavailable

from .command import JSON_OPTION, console_beside, errors_in_one_line, publish
from .fleet import Fleet
from .processes import DemoFailed, Patience, ProcessGroup
from .results import Log, Observed, Report, measure, summary, to_json
from .scenario import SCENARIO, SETTINGS, Event
from .sender import Sender, routed
from .show import Show

_CALM_DEADLINE_S: Final = 10.0
_START_DEADLINE_S: Final = 60.0


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@JSON_OPTION
def demo(json_file: TextIO | None) -> None:
    """Kill brokers, a host and Redis under a client that keeps sending, and lose no message.

    Runs a server, three stand-in brokers and three real agents on this machine, for about 20 seconds.

    Exit status 0 when every event was seen and no message was lost, otherwise 1.
    """
    console, patience = console_beside(json_file), Patience()
    show = Show(console)
    with (
        errors_in_one_line(),
        patience.signals(),
        tempfile.TemporaryDirectory(prefix="sharedroutes-") as folder,
        ExitStack() as stack,
    ):
        stage = Stage(stack, Path(folder), patience, show)
        with show.on():
            report = stage.run()
        logs = stage.logs()
    publish(console, summary(report), json_file, to_json(report), ok=report.ok, logs=logs)


class Stage:
    """A server, the fleet and a sending client; `stack` ends all of them."""

    def __init__(self, stack: ExitStack, folder: Path, patience: Patience, show: Show) -> None:
        self._stack = stack
        self._patience = patience
        self._show = show
        # Nobody else can take a socket file while the server is away; a free port they can.
        self._server = stack.enter_context(EmbeddedServer(unix_socket=folder / "redis.sock"))
        self._fleet = Fleet(folder, self._server.url, stack.enter_context(ProcessGroup()))
        self._store = stack.enter_context(RouteStore.from_url(self._server.url))
        self._client = RouteClient.from_url(self._server.url, ClientConfig())
        self._sender = Sender(self._client, SETTINGS)
        self._live: frozenset[str] = frozenset()

    def run(self, scenario: Sequence[Event] = SCENARIO) -> Report:
        """Make the events happen; return the figures. Raises DemoFailed and Interrupted."""
        observed = []
        for event in scenario:
            observed.append(self._happen(event))
            self._calm_down(SETTINGS.outage_s if event.name == "store-stopped" else 0.0)
        self._stack.close()  # the sender has ended before the journals are read
        log = Log(self._sender.tries, self._sender.messages, self._fleet.stored(), monotonic())
        return measure(observed, log)

    def logs(self) -> str:
        """Return the last log lines of every process."""
        return self._fleet.logs()

    def _happen(self, event: Event) -> Observed:
        self._show.say(event.title)
        began_s = monotonic()
        live = self._live - set(event.brokers)
        at_s = self._act(event)
        noticed_s = self._patience.until(lambda: self._is_noticed(event, began_s), event.deadline_s)
        self._live = live if event.kind == "death" else live | set(event.brokers)
        observed = Observed(event, began_s, at_s, noticed_s, live)
        self._show.seen(event.effect, observed.noticed_after_s, event.deadline_s)
        return observed

    def _act(self, event: Event) -> float:
        """Carry out the event; return the time from which it is measured."""
        at_s = monotonic()
        match event.name:
            case "all-start":
                return self._start_all(event.brokers)
            case "broker-killed":
                for name in event.brokers:
                    self._fleet.kill_broker(name)
            case "host-lost":
                for name in event.brokers:
                    self._fleet.silence_host(name)
            case "store-stopped":
                self._server.stop()
                self._show.store(up=False)
            case "store-empty":
                self._server.start()
                self._show.store(up=True)
                return monotonic()
            case "broker-back":
                return self._started(event.brokers, self._fleet.start_broker)
            case "host-back":
                return self._started(event.brokers, self._fleet.start_host)
        return at_s

    def _start_all(self, names: Sequence[str]) -> float:
        at_s = self._started(names, self._fleet.start_host)
        if self._patience.until(lambda: self._are_registered(frozenset(names)), _START_DEADLINE_S) is None:
            raise DemoFailed(f"not all brokers were registered within {_START_DEADLINE_S} s:\n{self.logs()}")
        self._stack.enter_context(self._client)
        self._stack.enter_context(self._sender)
        self._show.follow(self._sender, self._client)
        return at_s

    def _started(self, names: Sequence[str], start: Callable[[str], None]) -> float:
        """Start what belongs to these brokers; return when they listen."""
        for name in names:
            start(name)
        at_s = self._patience.until(lambda: all(map(self._fleet.listens, names)), _START_DEADLINE_S)
        if at_s is None:
            problem = f"{', '.join(names)}: no connection within {_START_DEADLINE_S} s"
            raise DemoFailed(f"{problem}:\n{self.logs()}")
        return at_s

    def _is_noticed(self, event: Event, since_s: float) -> bool:
        self._sender.check()
        if event.kind == "death":
            return routed(self._client).isdisjoint(event.brokers)
        if event.kind == "birth":
            return all(self._sender.has_used(name, since_s) for name in event.brokers)
        if event.name == "store-stopped":
            return self._client.health().source == "memory"
        return self._client.health().source == "live" and self._are_registered(self._live)

    def _are_registered(self, names: frozenset[str]) -> bool:
        try:
            return names <= {broker.broker_name for broker in self._store.brokers()}
        except StoreUnavailable:
            return False

    def _calm_down(self, rest_s: float) -> None:
        """Let some messages go by, and at least some time, so that one event ends before the next."""
        wanted = len(self._sender.messages) + SETTINGS.calm_messages
        until_s = monotonic() + rest_s

        def calm() -> bool:
            self._sender.check()
            return len(self._sender.messages) >= wanted and monotonic() >= until_s

        self._patience.until(calm, _CALM_DEADLINE_S)


if __name__ == "__main__":
    demo(prog_name="python -m demo")
