"""What observers hear of route clients, and of the part of them that decides."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from sharedroutes.client import AsyncRouteClient, ClientConfig, RouteClient
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


def make_core(*observers: Any, **settings: Any) -> ClientCore:
    """Return a core that these observers hear."""
    config = ClientConfig(
        tail_s=TAIL_S, refresh_s=100.0, jitter_s=0.5, guard_hold_s=HOLD_S, observers=observers, **settings
    )
    return ClientCore(config, random.Random(1))


def begun(*observers: Any, **settings: Any) -> ClientCore:
    """Return a core that has its place in the feed."""
    core = make_core(*observers, **settings)
    core.follower.found_place(PLACE, 0.0)
    core.follower.caught_up()
    return core


def ask(core: ClientCore, table: FakeTable, *topics: str, now: float = 0.0) -> None:
    """Do what a caller does who needs topics that are not known."""
    request = core.question(topics, now).request
    assert request is not None
    core.known.offer(request, table.answer(request), now, 0.25)


def look(core: ClientCore, table: FakeTable, now: float = 0.0) -> None:
    """Answer all that is due."""
    while (request := core.known.cache.due(now)) is not None:
        core.known.offer(request, table.answer(request), now)


def hear(core: ClientCore, *changes: Change, now: float = 0.0, lost: bool = False) -> None:
    """Let the tail of the feed hold these changes, or be lost."""
    core.follower.found_page(ChangePage(changes, PLACE, lost, complete=True), now)


def tail_due(core: ClientCore, now: float) -> bool:
    """Whether the tail of the stream is read before anything else."""
    wait_s(core, now)
    return core.follower.next_step(now).do is Do.READ_TAIL


def wait_s(core: ClientCore, now: float) -> float:
    """Return for how long the client listens before it reads again."""
    core.follower.begin_round()
    step = core.follower.next_step(now)
    assert step.do is Do.HEAR
    return step.wait_s


def save_due(core: ClientCore, now: float) -> bool:
    """Whether the snapshot is written, once all that is due has been read."""
    wait_s(core, now)
    while (step := core.follower.next_step(now)).do not in (Do.SAVE, Do.HEAR):
        pass
    return step.do is Do.SAVE


def pause_s(core: ClientCore, now: float = 0.0) -> float:
    """Let the store fail; return the seconds until the next try."""
    core.follower.failed(DOWN, now)
    step = core.follower.next_step(now)
    assert step.do is Do.PAUSE
    return step.wait_s


def fail(core: ClientCore, name: str, now: float = 0.0) -> None:
    """Let an attempt at a broker fail."""
    core.brokers.record(name, Result(0.0, failed=True), now)
