"""What a person sees while the demo runs: a line for each event and, on a terminal, a moving timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sharedroutes.client import RouteClient

from .results import Observed
from .scenario import BROKERS, Happening, Settings
from .sender import Sender, Try

SLOT_S: Final = 0.5
"""The time that one column of the timeline stands for."""

_NAME_COLUMNS: Final = 12
_REFRESHES_PER_S: Final = 8
LEVELS: Final = "▁▂▃▄▅▆▇█"
NOTHING: Final = "·"
FAILED: Final = "x"
_LEGEND: Final = (
    f"{LEVELS} acknowledged in {SLOT_S:g} s  {FAILED} failed only  {NOTHING} nothing sent, or Redis down"
)


class Show:
    """Prints the events, and draws the timeline of the brokers, of Redis and of the client's routes."""

    def __init__(self, console: Console, settings: Settings) -> None:
        self._console = console
        self._full = settings.messages_per_s * SLOT_S
        self._began_s = monotonic()
        self._sender: Sender | None = None
        self._client: RouteClient | None = None
        self._store_is_up = [(0.0, True)]

    @contextmanager
    def on(self) -> Iterator[None]:
        """Keep the timeline moving during a `with` block; without a terminal, print it at the end."""
        if not self._console.is_terminal:
            yield
            self._console.print(self._timeline())
            return
        with Live(console=self._console, get_renderable=self._timeline, refresh_per_second=_REFRESHES_PER_S):
            yield

    def say(self, text: str) -> None:
        """Print a line with the time since the start."""
        line = Text(f"{monotonic() - self._began_s:5.1f} s  {text}")
        self._console.print(line, soft_wrap=True, highlight=False)

    def seen(self, observed: Observed) -> None:
        """Print the effect of an event."""
        self.say(f"       {noticed(observed)}")

    def follow(self, sender: Sender, client: RouteClient) -> None:
        """Show this client from now on."""
        self._sender, self._client = sender, client

    def store(self, *, up: bool) -> None:
        """Show from now on that Redis runs, or that it does not."""
        self._store_is_up.append((monotonic() - self._began_s, up))

    def _timeline(self) -> Group:
        """Return the picture of this moment; called by the thread that refreshes it."""
        now_s = monotonic() - self._began_s
        columns = max(1, self._console.width - _NAME_COLUMNS)
        first = max(0, int(now_s / SLOT_S) + 1 - columns)
        last = int(now_s / SLOT_S)
        table = Table.grid(padding=(0, 1))
        strips = cells(self._sender.tries if self._sender else (), self._began_s, self._full, first, last)
        for name in BROKERS:
            table.add_row(name, coloured(strips[name]))
        table.add_row("Redis", Text(store_cells(self._store_is_up, first, last), style="cyan"))
        source = self._client.health().source if self._client else "none"
        table.add_row("routes", f"from {'the store' if source == 'live' else source}")
        return Group(table, Text(_LEGEND, style="dim", no_wrap=True, overflow="ellipsis"))


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


def store_cells(changes: Iterable[tuple[float, bool]], first: int, last: int, slot_s: float = SLOT_S) -> str:
    """Return the strip of Redis: full where it ran at the end of the slot, by (time, runs from then on)."""
    changes = tuple(changes)

    def runs(at_s: float) -> bool:
        return [up for since_s, up in changes if since_s <= at_s][-1]

    return "".join(LEVELS[-1] if runs((slot + 1) * slot_s) else NOTHING for slot in range(first, last + 1))


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


def coloured(strip: str) -> Text:
    """Return a strip with its failures in red."""
    text = Text(strip, style="green")
    text.highlight_regex(NOTHING, "dim")
    text.highlight_regex(FAILED, "bold red")
    return text
