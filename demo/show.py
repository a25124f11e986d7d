"""What a person sees while the demo runs: the strips of the brokers, of Redis and of the client's routes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Console, RenderableType

from sharedroutes.client import RouteClient

from .scenario import BROKERS, SETTINGS
from .sender import Sender, Try
from .timeline import FAILED, LEVELS, NOTHING, Timeline, coloured

SLOT_S: Final = 0.5
_FULL: Final = SETTINGS.messages_per_s * SLOT_S


class Show(Timeline):
    """The timeline of the brokers, of Redis and of the client's routes."""

    SLOT_S = SLOT_S
    LEGENDS = (
        f"{LEVELS} acknowledged in {SLOT_S:g} s  {FAILED} failed only  {NOTHING} nothing sent, or Redis down",
    )

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._sender: Sender | None = None
        self._client: RouteClient | None = None

    def follow(self, sender: Sender, client: RouteClient) -> None:
        """Show this client from now on."""
        self._sender, self._client = sender, client

    def _rows(self, first: int, last: int) -> Iterator[tuple[str, RenderableType]]:
        tries = self._sender.tries if self._sender else ()
        for name, strip in cells(tries, self._began_s, _FULL, first, last).items():
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
