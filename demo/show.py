"""What a person sees while the demo runs: the strips of the brokers, of Redis and of the client's routes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Console, RenderableType

from sharedroutes.client import RouteClient

from .results import Observed
from .scenario import BROKERS, Happening, Settings
from .sender import Sender, Try
from .timeline import FAILED, LEVELS, NOTHING, Timeline, coloured

SLOT_S: Final = 0.5


class Show(Timeline):
    """The timeline of the brokers, of Redis and of the client's routes."""

    SLOT_S = SLOT_S
    LEGENDS = (
        f"{LEVELS} acknowledged in {SLOT_S:g} s  {FAILED} failed only  {NOTHING} nothing sent, or Redis down",
    )

    def __init__(self, console: Console, settings: Settings) -> None:
        super().__init__(console)
        self._full = settings.messages_per_s * SLOT_S
        self._sender: Sender | None = None
        self._client: RouteClient | None = None

    def seen(self, observed: Observed) -> None:
        """Print the effect of an event."""
        self.say(f"       {noticed(observed)}")

    def follow(self, sender: Sender, client: RouteClient) -> None:
        """Show this client from now on."""
        self._sender, self._client = sender, client

    def _rows(self, first: int, last: int) -> Iterator[tuple[str, RenderableType]]:
        tries = self._sender.tries if self._sender else ()
        for name, strip in cells(tries, self._began_s, self._full, first, last).items():
            yield name, coloured(strip)
        yield self._store_row(first, last)
        source = self._client.health().source if self._client else "none"
        yield "routes", f"from {'the store' if source == 'live' else source}"


def cells(tries: Iterable[Try], began_s: float, full: float, first: int, last: int) -> dict[str, str]:
    """Return a strip for each broker: a character for each slot from `first` to `last`.

    Its height is the number of acknowledged messages, up to `full`; x = only failures; a dot = nothing.
    """
    good: Counter[tuple[str, int]] = Counter()
    bad: Counter[tuple[str, int]] = Counter()
    for one in tries:
        (bad if one.failed else good)[one.broker_name, int((one.ended_s - began_s) / SLOT_S)] += 1

    def cell(key: tuple[str, int]) -> str:
        if good[key]:
            return LEVELS[min(len(LEVELS) - 1, int(good[key] / full * len(LEVELS)))]
        return FAILED if bad[key] else NOTHING

    return {name: "".join(cell((name, slot)) for slot in range(first, last + 1)) for name in BROKERS}


def noticed(observed: Observed) -> str:
    """Return the effect of an event in words."""
    event, after_s = observed.event, observed.noticed_after_s
    if after_s is None:
        return f"NOT SEEN within {event.deadline_s:g} s"
    if event.happening.is_death:
        effect = "gone from the client's routes"
    elif event.happening.is_birth:
        effect = f"the client sends to {', '.join(event.brokers)}"
    elif event.happening is Happening.STORE_STOPPED:
        effect = "the client serves its routes from memory"
    else:
        effect = "all live brokers are registered again"
    return f"{effect} after {after_s:.2f} s"
