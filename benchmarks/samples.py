"""What does it cost an attempt that a share of the attempts is recorded?

Peers: no observer, and one that does nothing. Printed is the difference to an attempt without an observer.
"""

from __future__ import annotations

import random
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Final

from sharedroutes.client import ClientConfig, RouteClient
from sharedroutes.client.observers import Event, Observer
from sharedroutes.client.observers.samples import SampleRecorder
from sharedroutes.registry import EmbeddedServer, RouteStore, TopicConfig

from .kit.figures import Figure, Outcome, at_most, interleave
from .kit.workload import LASTING, fill

_TOPIC: Final = "orders"
_NOBODY: Final = "an attempt, no observer"
_IDLE: Final = "an attempt, an observer that does nothing"
_SOME: Final = "an attempt, one in 100 recorded"
_ALL: Final = "an attempt, all recorded"
_LESS_THAN_A_MICROSECOND: Final = at_most(1_000)


class _Idle:
    """An observer that does nothing."""

    def on_event(self, event: Event) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 25
    attempts: int = 30_000
    brokers: int = 8


QUICK: Final = Size(rounds=9, attempts=10_000)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedServer())
        store = stack.enter_context(RouteStore.from_url(server.url, LASTING))
        fill(store, [{_TOPIC: TopicConfig(_TOPIC, 4, 4)}] * size.brokers)
        some, every = (
            stack.enter_context(SampleRecorder(folder / str(share), share=share, rng=random.Random(1)))
            for share in (0.01, 1.0)
        )
        observers: dict[str, tuple[Observer, ...]] = {
            _NOBODY: (),
            _IDLE: (_Idle(),),
            _SOME: (some,),
            _ALL: (every,),
        }
        values = interleave(
            size.rounds,
            {
                name: partial(_nanoseconds, _client(stack, server.url, of), size.attempts)
                for name, of in observers.items()
            },
        )
        dropped = some.dropped + every.dropped
    return Outcome(_figures(values), [f"{dropped} samples were dropped"])


def _client(stack: ExitStack, url: str, observers: tuple[Observer, ...]) -> RouteClient:
    config = replace(ClientConfig(registry=LASTING), observers=observers)
    return stack.enter_context(RouteClient.from_url(url, config))


def _nanoseconds(client: RouteClient, count: int) -> float:
    """Return ns an attempt whose operation takes no time: of this thread's processor time.

    By the clock, what other processes took would be more than what is measured.
    """
    client.route(_TOPIC)  # what is read once for a topic is not part of it
    begin = thread_time()
    _attempt(client, count)
    return (thread_time() - begin) / count * 1e9


def _attempt(client: RouteClient, count: int) -> None:
    for _ in range(count):
        for attempt in client.attempts(_TOPIC):
            with attempt:
                pass


def _figures(values: dict[str, list[float]]) -> list[Figure]:
    figures = [Figure(name, "ns", rounds) for name, rounds in values.items()]
    # Of the quickest rounds: what disturbs a round only makes it longer, by more than what is measured.
    more = {name: [min(values[name]) - min(values[_NOBODY])] for name in (_IDLE, _SOME, _ALL)}
    targets = {_SOME: _LESS_THAN_A_MICROSECOND}
    figures += [
        Figure(f"{name}: more than without", "ns", rounds, targets.get(name)) for name, rounds in more.items()
    ]
    return figures
