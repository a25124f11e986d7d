"""What an agent tells its operator: each trouble once, and once that it is over."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final, NamedTuple

from ..registry import CorruptData, RegistryError, StoreTimeout, StoreUnavailable
from .events import Heartbeat, Register, Say, StoreCall

__all__ = ["Journal", "Trouble", "trouble_of"]

_UNAVAILABLE: Final = "unavailable"


class Trouble(NamedTuple):
    """What keeps the agent from its work; equal ones are said once."""

    kind: str
    detail: str = ""
    stops_heartbeats: bool = True
    """If not, a heartbeat that succeeds does not mean that the trouble is over."""

    @property
    def is_silence(self) -> bool:
        """Whether the store gave no answer, so that nobody knows what it did."""
        return self.kind == _UNAVAILABLE


class Journal:
    """Collects what has to be said, and knows the trouble that was said last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.trouble: Trouble | None = None
        self.text = ""
        self.since_s = 0.0
        self._says: list[Say] = []

    def take(self) -> list[Say]:
        """Return what is to be said, once."""
        says, self._says = self._says, []
        return says

    def say(self, level: int, text: str, **fields: object) -> None:
        """Say something about the broker."""
        self._says.append(Say(level, f"{self.name}: {text}", {"broker": self.name, **fields}))

    def complain(self, trouble: Trouble, text: str, now: float) -> None:
        """Say what is wrong, once for each trouble."""
        if self.trouble is None:
            self.since_s = now
        if self.trouble is None or trouble[:2] != self.trouble[:2]:
            self.say(logging.WARNING, text)
        self.trouble, self.text = trouble, text

    def recovered(self, call: StoreCall | None, now: float) -> bool:
        """Forget the trouble if the call that succeeded shows it to be over; return whether none is left."""
        if self.trouble is None:
            return True
        if isinstance(call, Heartbeat) and not self.trouble.stops_heartbeats:
            return False
        self.say(logging.INFO, f"works again, after {now - self.since_s:.1f} s")
        self.trouble, self.text = None, ""
        return True

    def foreign(self, known: Collection[str], found: Collection[str]) -> None:
        """Say which keys with foreign data are new, or that all of them are gone."""
        keys = sorted(set(found) - set(known))
        if keys:
            text = f"foreign data stands in {', '.join(keys)}: these topics are not served; move it away"
            self.say(logging.ERROR, text, keys=keys)
        elif known and not found:
            self.say(logging.INFO, "the foreign data is gone: all topics are served")


def trouble_of(error: RegistryError, call: StoreCall | None) -> Trouble:
    """Return what tells one trouble from another; the numbers in messages change all the time."""
    if isinstance(error, StoreUnavailable):
        slow_write = isinstance(error, StoreTimeout) and isinstance(call, Register)
        return Trouble(_UNAVAILABLE, stops_heartbeats=not slow_write)
    of_heartbeats = isinstance(call, Heartbeat)
    if isinstance(error, CorruptData):
        return Trouble("corrupt", error.key, of_heartbeats)
    return Trouble(type(error).__name__, str(error), of_heartbeats)
