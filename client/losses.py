"""Which losses to believe: what an answer lacks against what the feed and an operator said; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

MASS_LOSS_SHARE: Final = 0.5
"""A loss of more than this share of the live brokers in use is not believed at once: one zone of two may
die, a larger part looks like a fault of the store."""

Reason: TypeAlias = Literal["mass loss", "changes lost"]
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


class MassLossGuard:
    """Holds back a mass loss for a limited time; every `now` is in seconds of the monotonic clock.

    A store that was restarted empty, rolled back or cut off looks like a fleet that died at once. The guard
    arms itself when an answer loses more than a share of the live brokers, or when it is told that the store
    lost data, and lets go after `hold_s`, or as soon as it is told that nothing is missing; then it judges
    anew.
    """

    __slots__ = ("_hold_s", "_share", "reason", "until")

    def __init__(self, share: float, hold_s: float) -> None:
        self._share = share
        self._hold_s = hold_s
        self.until: float | None = None
        """When losses are believed again; None while the guard is not armed."""

        self.reason: Reason = "mass loss"
        """Why it was armed last."""

    def arm(self, now: float) -> None:
        """Begin to hold losses back, if not yet doing so."""
        if self.until is None or now >= self.until:
            self.until, self.reason = now + self._hold_s, "changes lost"

    def disarm(self) -> None:
        """Believe answers again: everything that was held back has come back."""
        self.until = None

    def holds(self, known: int, lost: int, now: float) -> bool:
        """Whether an answer that loses `lost` of `known` live brokers is to be held back."""
        if self.until is None:
            if lost <= self._share * known:
                return False
            self.until, self.reason = now + self._hold_s, "mass loss"
        elif lost and now >= self.until:  # believed from here on; the next loss is judged anew
            self.until = None
            return False
        return now < self.until


class HeldNames:
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
        self.brokers = HeldNames()
        self.topics = HeldNames()
        self._accepted: int | None = None

    def held_back(self) -> HeldBack:
        """Return what is held back at the moment, to be compared with a later one."""
        names = frozenset(self.brokers.held | self.topics.held)
        return HeldBack(names, self.guard.until, is_accepted=self._accepted is not None)

    @property
    def held(self) -> set[str]:
        """Brokers and topics that are served although the last answer lacked them, or a part of them."""
        return {*self.brokers.held, *self.topics.held}

    @property
    def any_held(self) -> bool:
        """Whether anything is kept for now."""
        return bool(self.brokers.held or self.topics.held)

    def is_held(self, topic: str, broker_names: Iterable[str]) -> bool:
        """Whether the last answer lacked a part of the route of a topic, which leads to these brokers."""
        return topic in self.topics.held or not self.brokers.held.keys().isdisjoint(broker_names)

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
