"""Whether the primary of a Sentinel service is still the one: whom to ask, how often, whom to believe; pure.

After a planned failover the old primary goes on as one for some 10 s, and answers all that it is asked. Only
the Sentinels know better, and not all of them at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from .connect import Address
from .locate import fields_of

CONFIRM_S: Final = 1.0
"""So old may the word of the Sentinels be when a command is sent."""

ANSWER_S: Final = 0.5
"""The longest wait for a Sentinel: a command waits for it, too."""

_REST_S: Final = 10.0
"""So long a Sentinel that did not answer is left alone."""


class Opinion(NamedTuple):
    """What one Sentinel says."""

    sentinel: Address
    named: Address
    """The primary, by its word."""

    epoch: int | None = None
    """Of its configuration; the greater one is the later one. None = it does not tell."""


class Switchover:
    """When to ask which Sentinel; every `now` is in seconds of the monotonic clock."""

    def __init__(self, sentinels: Sequence[Address]) -> None:
        self._sentinels = tuple(sentinels)
        self._ask_at = 0.0
        self._rests_until: dict[Address, float] = {}

    def due(self, now: float) -> bool:
        """Whether to ask; who is told so does it, and nobody else meanwhile."""
        if now < self._ask_at:
            return False
        self._ask_at = now + CONFIRM_S
        return True

    def to_ask(self, now: float) -> list[Address]:
        """Return the Sentinels to ask, all that answer: at first only one of them knows of a switch."""
        return [each for each in self._sentinels if now >= self._rests_until.get(each, 0.0)]

    def silent(self, sentinel: Address, now: float) -> None:
        """Note that a Sentinel did not answer."""
        self._rests_until[sentinel] = now + _REST_S


def believed(opinions: Sequence[Opinion], current: Address) -> Opinion | None:
    """Return the Sentinel to follow to another primary; None = stay.

    The latest configuration counts; of several that are as late, or whose age nobody tells, that of most.
    """
    latest = max((each.epoch or 0 for each in opinions), default=0)
    late = [each for each in opinions if (each.epoch or 0) == latest]
    votes = Counter(each.named for each in late)
    if not late or votes[current] == max(votes.values()):
        return None
    return max(late, key=lambda each: votes[each.named])


def epoch_in(reply: Any) -> int | None:
    """Return the epoch in the answer to SENTINEL MASTER; None when it has none, as for who may not ask."""
    text = "" if isinstance(reply, Exception) else fields_of(reply).get("config-epoch", "")
    return int(text) if text.isdecimal() else None
