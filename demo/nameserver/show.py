"""What a person sees while the demo runs: the strips of brokers, consumer, fronts and Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Final

from rich.console import Console, RenderableType
from rich.text import Text

from ..timeline import LEVELS, NOTHING, Timeline, coloured
from .front_watch import Answer, FrontWatch
from .scenario import BROKERS, MESSAGES_PER_S
from .traffic import Said, Traffic

_SLOT_S: Final = 1.0
_HALF: Final = LEVELS[len(LEVELS) // 2 - 1]


class Show(Timeline):
    """The timeline of brokers, consumer, fronts and Redis."""

    SLOT_S = _SLOT_S
    LEGENDS = (
        f"brokers, received: {LEVELS} messages in {_SLOT_S:g} s  {NOTHING} none",
        f"fronts: {LEVELS[-1]} whole route  {_HALF} one broker of it  {NOTHING} no answer, or no route",
    )

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._watches: Sequence[FrontWatch] = ()
        self._traffic: Traffic | None = None

    def follow(self, watches: Sequence[FrontWatch], traffic: Traffic | None = None) -> None:
        """Show these fronts and clients from now on."""
        self._watches, self._traffic = watches, traffic

    def _rows(self, first: int, last: int) -> Iterator[tuple[str, RenderableType]]:
        said = self._traffic.said.copy() if self._traffic else []
        per_broker = MESSAGES_PER_S / len(BROKERS)
        for name in BROKERS:
            of_broker = [one for one in said if one.what == "sent" and one.rest == name]
            yield name, coloured(self._strip(of_broker, first, last, per_broker))
        received = [one for one in said if one.what == "received"]
        yield "received", coloured(self._strip(received, first, last, MESSAGES_PER_S))
        failed = [one for one in said if one.what == "failed"]
        if failed:
            yield "failed", Text(self._strip(failed, first, last, 1), "red")
        for watch in self._watches:
            yield watch.name, Text(front_cells(watch.answers.copy(), self._began_s, first, last), "cyan")
        yield self._store_row(first, last)

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
