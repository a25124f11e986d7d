"""Which losses to believe: what an answer lacks against what the feed and an operator said; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from .guard import MassLossGuard, Reason

Belief: TypeAlias = Literal["hold", "doubt", "believe"]
"""hold: keep all that an answer lacks; doubt: keep the last of a topic once; believe: keep nothing."""


@dataclass(frozen=True, slots=True)
class HeldLoss:
    """A broker or a topic that is served although the store's last answer lacked it, or a part of it."""

    kind: Literal["broker", "topic"]
    name: str
    held_s: float
    """Seconds since the first answer that lacked it."""

    left_s: float
    """For so many seconds it is served at most, from now on, while the store answers, and loses no more."""

    why: Reason | Literal["last broker"]
    """mass loss: too many brokers are gone at once; changes lost: the store forgot changes, and maybe more;
    last broker: a topic has no other, and a second answer has to agree."""


class Kept:
    """The brokers, or the topics, that are served although the last answer lacked them, or a part of them."""

    def __init__(self) -> None:
        self.held: dict[str, float] = {}
        """By name: since when, in seconds of the monotonic clock."""

        self.any_believed = False
        """Whether something that was held is lost; until somebody resets it."""

        self._announced: set[str] = set()
        self._doubted: dict[str, int] = {}

    def announced(self, names: Iterable[str]) -> None:
        """Note that the feed told of an end: a look that agrees is the second word, and believed."""
        self._announced.update(names)

    def revoked(self, name: str) -> None:
        """Note that the feed told of a new beginning after the end."""
        self._announced.discard(name)

    def doubts(self, name: str, number: int) -> bool:
        """Whether a loss that the answer to this request tells of needs the word of a later one."""
        return name not in self._announced and self._doubted.get(name, number) >= number

    def hold(self, name: str, number: int, now: float) -> None:
        """Keep what the answer to this request lacked; the next look is a second one."""
        self.held.setdefault(name, now)
        self._doubted.setdefault(name, number)

    def settle(self, name: str) -> None:
        """Forget what was said of a loss: nothing is lacking, or nobody uses it."""
        self.held.pop(name, None)
        self._announced.discard(name)
        self._doubted.pop(name, None)

    def believe(self, name: str) -> None:
        """Let go of what the answers lack."""
        self.any_believed = self.any_believed or name in self.held
        self.settle(name)


class HeldBack(NamedTuple):
    """What was held back at some time, and why."""

    names: frozenset[str]
    guarded_until: float | None
    is_accepted: bool


class Losses:
    """What is served although the last answer lacked it, and why.

    A mass loss is held back by the guard. A loss that leaves a topic without a route, and that the feed has
    not told of, is doubted: a second look has to agree.
    """

    def __init__(self, guard: MassLossGuard) -> None:
        self.guard = guard
        self.brokers = Kept()
        self.topics = Kept()
        self._accepted: int | None = None

    def held_back(self) -> HeldBack:
        """Return what is held back at the moment, to be compared with a later one."""
        names = frozenset(self.brokers.held | self.topics.held)
        return HeldBack(names, self.guard.until, is_accepted=self._accepted is not None)

    @property
    def any_held(self) -> bool:
        """Whether anything is kept for now."""
        return bool(self.brokers.held or self.topics.held)

    def accept(self, number: int) -> None:
        """Believe the answers to requests after this one, until all was read: an operator says so."""
        self._accepted = number
        self.guard.disarm()

    def belief(self, number: int, known: int, lost: int, now: float) -> Belief:
        """Return what to make of an answer that lacks `lost` of `known` live brokers."""
        if self._accepted is not None and number > self._accepted:
            return "believe"
        return "hold" if self.guard.holds(known, lost, now) else "doubt"

    def how_it_ended(self, before: HeldBack) -> Literal["returned", "confirmed", "time", "accepted"]:
        """Return why nothing is held back any more, and begin anew."""
        any_believed = self.brokers.any_believed or self.topics.any_believed
        self.brokers.any_believed = self.topics.any_believed = False
        if not any_believed:
            return "returned"
        if before.is_accepted:
            return "accepted"
        return "confirmed" if before.guarded_until is None else "time"

    def awaits(self, number: int) -> bool:
        """Whether the answer to this request came too soon to be believed, as an operator wants the next."""
        return self._accepted is not None and number <= self._accepted

    def all_read(self, number: int) -> None:
        """Everything in use was answered by this request."""
        if self._accepted is not None and number > self._accepted:
            self._accepted = None
        if not self.any_held:
            self.guard.disarm()
