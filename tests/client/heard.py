"""What observers hear of route clients, and of the part of them that decides."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

from sharedroutes.client import AsyncRouteClient, ClientConfig, RouteClient
from sharedroutes.client.cache import Request
from sharedroutes.client.core import ClientCore
from sharedroutes.client.faults.broker import Result
from sharedroutes.client.observers.events import Event
from sharedroutes.registry import Change, ChangePage
from sharedroutes.registry.change_stream.stream import Do
from tests.client.clients import AnyClient
from tests.client.fake_table import FakeTable

PLACE: Final = "1700000000000-1"
TAIL_S: Final = 1.0
HOLD_S: Final = 30.0
DOWN: Final = ConnectionError("down")

E = TypeVar("E", bound=Event)


@dataclass(eq=False)
class Heard:
    """An observer that remembers."""

    events: list[Event] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        """Remember one event."""
        self.events.append(event)

    def all(self, kind: type[E]) -> list[E]:
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def take(self) -> list[Event]:
        """Return what was heard since the last time."""
        taken, self.events = self.events, []
        return taken


def plain(client: AnyClient) -> RouteClient | AsyncRouteClient:
    """Return the client itself, whose methods that wait for nothing are the same in both kinds."""
    inner: RouteClient | AsyncRouteClient = getattr(client, "blocking", client)
    return inner


# --- the part that decides ---------------------------------------------------------------------------------


class Core(ClientCore):
    """A core over a registry in memory, whose follower works when it is told to."""

    def __init__(
        self, table: FakeTable | None = None, *observers: Any, seed: int = 1, **settings: Any
    ) -> None:
        usual = {"tail_s": TAIL_S, "refresh_s": 100.0, "jitter_s": 0.5, "guard_hold_s": HOLD_S}
        self.heard = Heard()
        config = ClientConfig(**{**usual, **settings, "observers": (*observers, self.heard)})
        super().__init__(config, random.Random(seed))
        self.table = table or FakeTable()

    def begin(self) -> Self:
        """Find the place in the feed; what led there is not heard any more."""
        self.follower.found_place(PLACE, 0.0)
        self.follower.caught_up()
        self.heard.take()
        return self

    def answer(self, request: Request | None, now: float = 0.0, took_s: float = 0.0) -> None:
        """Answer what was asked: there has to be something."""
        assert request is not None
        self.known.offer(request, self.table.answer(request), now, took_s)

    def ask(self, *topics: str, now: float = 0.0) -> None:
        """Do what a caller does who needs topics that are not known."""
        self.answer(self.question(topics, now).request, now, 0.25)

    def look(self, now: float = 0.0) -> None:
        """Read the stream if it is to be read at once, and answer all that is due then."""
        if self.tail_due(now):
            position = self.known.stream.id or PLACE
            self.follower.found_page(ChangePage((), position, lost=False, complete=True), now)
        while (request := self.known.cache.due(now)) is not None:
            self.answer(request, now)

    def hear(self, *changes: Change, now: float = 0.0, lost: bool = False, complete: bool = True) -> None:
        """Let the tail of the feed hold these changes, or be lost."""
        self.follower.found_page(ChangePage(changes, PLACE, lost, complete), now)

    def tail_due(self, now: float) -> bool:
        """Whether the tail of the stream is read before anything else."""
        self.wait_s(now)
        return self.follower.next_step(now).do is Do.READ_TAIL

    def wait_s(self, now: float) -> float:
        """Return for how long the client listens before it reads again."""
        self.follower.begin_round()
        step = self.follower.next_step(now)
        assert step.do is Do.HEAR
        return step.wait_s

    def save_due(self, now: float) -> bool:
        """Whether the snapshot is written, once all that is due has been read."""
        self.wait_s(now)
        while (step := self.follower.next_step(now)).do not in (Do.SAVE, Do.HEAR):
            pass
        return step.do is Do.SAVE

    def pause_s(self, now: float = 0.0) -> float:
        """Let the store fail; return the seconds until the next try."""
        self.follower.failed(DOWN, now)
        step = self.follower.next_step(now)
        assert step.do is Do.PAUSE
        return step.wait_s

    def fail(self, name: str, now: float = 0.0) -> None:
        """Let an attempt at a broker fail."""
        self.brokers.record(name, Result(0.0, failed=True), now)
