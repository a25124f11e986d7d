"""A fleet on this machine, and what is done to it on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

import orjson

from sharedroutes.client import ClientConfig, RouteClient
from sharedroutes.client.observers.samples import SampleRecorder
from sharedroutes.registry import EmbeddedServer, RouteStore
from sharedroutes.registry.plans import ErrorReply, server_time

from .fleet import Fleet
from .processes import DemoFailed, Patience, ProcessGroup
from .scenario import BROKERS, SETTINGS
from .sender import Sender, routed

_GIVE_UP_S: Final = 60.0
"""A machine that takes longer to start a process, or to notice that one has ended, is no place for a demo."""

_WATCHED_S: Final = 120.0
"""Spark's first query can take so long to begin on a busy machine."""

_CALM_S: Final = 1.5
_CLIENT: Final = "demo"


@dataclass(frozen=True, slots=True)
class Fault:
    """What was done to a broker, and when by the store's clock, ms since 1970."""

    registry: str
    broker: str
    at_ms: int
    what: str
    seen_ms: int
    """When the client was seen to have noticed: the registry knew by then, however busy the machine is."""


class Drill:
    """A server, three brokers with agents, and a sending client; `stack` ends all of them."""

    def __init__(
        self, stack: ExitStack, out: Path, folder: Path, patience: Patience, say: Callable[[str], None]
    ) -> None:
        self.faults: list[Fault] = []
        self.faults_file = out / "faults.jsonl"
        """What was done, a line of JSON each."""

        self.samples = out / "samples"
        """What the client records."""

        self._patience = patience
        self._say = say
        self._server = stack.enter_context(EmbeddedServer())
        self._fleet = Fleet(folder, self.url, stack.enter_context(ProcessGroup()))
        self._store = stack.enter_context(RouteStore.from_url(self.url))

    @property
    def url(self) -> str:
        """Of the store."""
        return self._server.url

    def begin(self) -> None:
        """Let the brokers start; nobody waits for them yet."""
        self._say("three brokers start")
        for name in BROKERS:
            self._fleet.start_host(name)

    def run(self, is_watched: Callable[[], bool]) -> None:
        """Let everything happen, once somebody looks on; raises DemoFailed and Interrupted."""
        wanted = {*BROKERS}
        self._await(
            lambda: wanted <= {broker.broker_name for broker in self._store.brokers()},
            _GIVE_UP_S,
            "not all brokers were registered",
        )
        self._await(is_watched, _WATCHED_S, "the ingest has written nothing")
        recorder = SampleRecorder(self.samples, client=_CLIENT, share=1.0)
        client = RouteClient.from_url(self.url, ClientConfig(observers=(recorder,)))
        with recorder, client, Sender(client, SETTINGS) as sender:
            self._play(client, sender)
        self.faults_file.write_bytes(b"".join(orjson.dumps(fault) + b"\n" for fault in self.faults))

    def _play(self, client: RouteClient, sender: Sender) -> None:
        self._calm(sender)
        self._end_of("broker-b", "killed", self._fleet.kill_broker, client)
        self._calm(sender)
        self._return_of("broker-b", self._fleet.start_broker, sender)
        self._calm(sender)
        self._end_of("broker-c", "frozen", self._fleet.silence_host, client)
        self._calm(sender)
        self._return_of("broker-c", self._fleet.start_host, sender)
        self._calm(sender)

    def _end_of(self, name: str, what: str, act: Callable[[str], None], client: RouteClient) -> None:
        with self._noted(name, what):
            act(name)
            self._await(lambda: name not in routed(client), _GIVE_UP_S, f"{name} is still in the routes")

    def _return_of(self, name: str, act: Callable[[str], None], sender: Sender) -> None:
        since_s = monotonic()
        with self._noted(name, "back"):
            act(name)
            self._await(lambda: sender.has_used(name, since_s), _GIVE_UP_S, f"{name} is not used again")

    @contextmanager
    def _noted(self, name: str, what: str) -> Iterator[None]:
        """Note what is done in a block, and when it was seen to have been noticed."""
        self._say(f"{name}: {what}")
        at_ms = self._now_ms()
        yield
        self.faults.append(Fault(self._store.config.namespace, name, at_ms, what, self._now_ms()))

    def _now_ms(self) -> int:
        now_us = self._store.run(server_time())
        if isinstance(now_us, ErrorReply):
            raise DemoFailed(f"the store does not tell the time: {now_us.reason}")
        return now_us // 1000

    def _calm(self, sender: Sender) -> None:
        until_s = monotonic() + _CALM_S

        def calm() -> bool:
            sender.check()
            return monotonic() >= until_s

        self._patience.until(calm, _CALM_S + _GIVE_UP_S)

    def _await(self, condition: Callable[[], bool], deadline_s: float, problem: str) -> None:
        if self._patience.until(condition, deadline_s) is None:
            raise DemoFailed(f"{problem}, after {deadline_s:g} s:\n{self._fleet.logs()}")
