"""A line for each event and, on a terminal, a timeline that moves: what all demos that show one share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import ClassVar, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

LEVELS: Final = "▁▂▃▄▅▆▇█"
NOTHING: Final = "·"
FAILED: Final = "x"
_NAME_COLUMNS: Final = 10
_REFRESHES_PER_SLOT: Final = 4


class Timeline(ABC):
    """Prints the events, and draws a strip for each process of the demo."""

    SLOT_S: ClassVar[float]
    """The time that one column stands for."""

    LEGENDS: ClassVar[tuple[str, ...]]

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began_s = monotonic()
        self._store_is_up = [(0.0, True)]

    @contextmanager
    def on(self) -> Iterator[None]:
        """Keep the timeline moving during a `with` block; without a terminal, print it at the end."""
        if not self._console.is_terminal:
            yield
            self._console.print(self._picture())
            return
        per_second = _REFRESHES_PER_SLOT / self.SLOT_S
        with Live(console=self._console, get_renderable=self._picture, refresh_per_second=per_second):
            yield

    def say(self, text: str) -> None:
        """Print a line with the time since the start."""
        line = Text(f"{monotonic() - self._began_s:5.1f} s  {text}")
        self._console.print(line, soft_wrap=True, highlight=False)

    def seen(self, effect: str, after_s: float | None, bound_s: float) -> None:
        """Print how long it took until the effect of an event was there; None = longer than its bound."""
        if after_s is None:
            self.say(f"       NOT SEEN within {bound_s:g} s: {effect}")
        else:
            self.say(f"       {effect} after {after_s:.2f} s (at most {bound_s:g})")

    def store(self, *, up: bool) -> None:
        """Show from now on that Redis runs, or that it does not."""
        self._store_is_up.append((monotonic() - self._began_s, up))

    @abstractmethod
    def _rows(self, first: int, last: int) -> Iterator[tuple[str, RenderableType]]:
        """Yield names and strips, each with a character for each slot from `first` to `last`."""

    def _store_row(self, first: int, last: int) -> tuple[str, Text]:
        return "Redis", Text(store_cells(self._store_is_up, first, last, self.SLOT_S), style="cyan")

    def _picture(self) -> Group:
        """Return the picture of this moment; called by the thread that refreshes it."""
        last = int((monotonic() - self._began_s) / self.SLOT_S)
        first = max(0, last + 1 - max(1, self._console.width - _NAME_COLUMNS))
        table = Table.grid(padding=(0, 1))
        for name, strip in self._rows(first, last):
            table.add_row(name, strip)
        legends = (Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in self.LEGENDS)
        return Group(table, *legends)


def store_cells(changes: Iterable[tuple[float, bool]], first: int, last: int, slot_s: float) -> str:
    """Return the strip of Redis: full where it ran at the end of the slot, by (time, runs from then on)."""
    changes = tuple(changes)

    def runs(at_s: float) -> bool:
        return [up for since_s, up in changes if since_s <= at_s][-1]

    return "".join(LEVELS[-1] if runs((slot + 1) * slot_s) else NOTHING for slot in range(first, last + 1))


def coloured(strip: str) -> Text:
    """Return a strip with its failures in red."""
    text = Text(strip, style="green")
    text.highlight_regex(NOTHING, "dim")
    text.highlight_regex(FAILED, "bold red")
    return text
