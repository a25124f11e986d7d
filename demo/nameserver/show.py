"""What a person sees while the demo runs: a line for each event and, on a terminal, a moving timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from time import monotonic
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..show import LEVELS, NOTHING, coloured, store_cells
from .front_watch import Answer, FrontWatch
from .results import Observed
from .scenario import BROKERS, MESSAGES_PER_S
from .traffic import Said, Traffic

_NAME_COLUMNS: Final = 10
_REFRESHES_PER_S: Final = 4
_SLOT_S: Final = 1.0
"""The time that one column of the timeline stands for."""

_HALF: Final = LEVELS[len(LEVELS) // 2 - 1]
_LEGENDS: Final = (
    f"brokers, received: {LEVELS} messages in {_SLOT_S:g} s  {NOTHING} none",
    f"fronts: {LEVELS[-1]} whole route  {_HALF} one broker of it  {NOTHING} no answer, or no route",
)


class Show:
    """Prints the events, and draws the timeline of brokers, consumer, fronts and Redis."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began_s = monotonic()
        self._watches: Sequence[FrontWatch] = ()
        self._traffic: Traffic | None = None
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
        event, after_s = observed.event, observed.seen_after_s
        if after_s is None:
            self.say(f"       NOT SEEN within {event.bound_s:g} s: {event.effect}")
        else:
            self.say(f"       {event.effect} after {after_s:.2f} s (at most {event.bound_s:g})")

    def follow(self, watches: Sequence[FrontWatch], traffic: Traffic | None = None) -> None:
        """Show these fronts and clients from now on."""
        self._watches, self._traffic = watches, traffic

    def store(self, *, up: bool) -> None:
        """Show from now on that Redis runs, or that it does not."""
        self._store_is_up.append((monotonic() - self._began_s, up))

    def _timeline(self) -> Group:
        """Return the picture of this moment; called by the thread that refreshes it."""
        last = int((monotonic() - self._began_s) / _SLOT_S)
        first = max(0, last + 1 - max(1, self._console.width - _NAME_COLUMNS))
        table = Table.grid(padding=(0, 1))
        said = self._traffic.said.copy() if self._traffic else []
        per_broker = MESSAGES_PER_S / len(BROKERS)
        for name in BROKERS:
            of_broker = [one for one in said if one.what == "sent" and one.rest == name]
            table.add_row(name, coloured(self._strip(of_broker, first, last, per_broker)))
        received = [one for one in said if one.what == "received"]
        table.add_row("received", coloured(self._strip(received, first, last, MESSAGES_PER_S)))
        failed = [one for one in said if one.what == "failed"]
        if failed:
            table.add_row("failed", Text(self._strip(failed, first, last, 1), "red"))
        for watch in self._watches:
            answers = front_cells(watch.answers.copy(), self._began_s, first, last)
            table.add_row(watch.name, Text(answers, "cyan"))
        table.add_row("Redis", Text(store_cells(self._store_is_up, first, last, _SLOT_S), "cyan"))
        legends = (Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in _LEGENDS)
        return Group(table, *legends)

    def _strip(self, said: Sequence[Said], first: int, last: int, full: float) -> str:
        counts = Counter(int((one.at_s - self._began_s) / _SLOT_S) for one in said)
        return "".join(_level(counts[slot] / (full * _SLOT_S)) for slot in range(first, last + 1))


def front_cells(answers: Iterable[Answer], began_s: float, first: int, last: int) -> str:
    """Return the strip of a front: how much of the route the worst of its answers in each slot had."""
    worst: dict[int, float] = {}
    for answer in answers:
        slot = int((answer.at_s - began_s) / _SLOT_S)
        share = len(answer.brokers or ()) / len(BROKERS)
        worst[slot] = min(share, worst.get(slot, share))
    return "".join(_level(worst.get(slot, 0.0)) for slot in range(first, last + 1))


def _level(share: float) -> str:
    """Return a column as high as a share of all."""
    return LEVELS[min(len(LEVELS), ceil(share * len(LEVELS))) - 1] if share > 0 else NOTHING
