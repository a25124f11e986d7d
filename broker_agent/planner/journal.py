"""What an agent tells its operator: each trouble once, and once that it is over."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final, NamedTuple

from ...registry import BrokerOwned, CorruptData, RegistryError, StoreTimeout, StoreUnavailable
from .events import Heartbeat, Register, Say, StoreCall

_UNAVAILABLE: Final = "unavailable"
_OWNED: Final = "owned"
_FENCED: Final = "fenced"
_KEPT_OUT: Final = "kept out"


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

    @property
    def is_elsewhere(self) -> bool:
        """Whether another agent has the broker, as far as was heard."""
        return self.trouble is not None and self.trouble.kind in (_OWNED, _FENCED)

    @property
    def is_kept_out(self) -> bool:
        """Whether an operator keeps the broker out of the registry, by the word of the store."""
        return self.trouble is not None and self.trouble.kind == _KEPT_OUT

    def is_served_at(self, address: str) -> bool:
        """Whether another agent has the broker at this address."""
        return self.trouble is not None and self.trouble[:2] == (_OWNED, address)

    def owned(self, error: BrokerOwned, address: str, now: float) -> None:
        """Say that another agent has the broker, which is at this address."""
        if error.owner_address == address:
            left_s = error.remaining_ms / 1000
            text = f"another agent serves this broker: on standby, its lease lasts for {left_s:.1f} s"
        else:
            text = str(error).removeprefix(self.name + " ")
        self.complain(Trouble(_OWNED, error.owner_address), text, now)

    def fenced(self, now: float) -> None:
        """Say that another agent has taken the broker over."""
        text = "another agent has taken the broker over: on standby until it ends; only one is needed"
        self.complain(Trouble(_FENCED), text, now)

    def kept_out(self, now: float) -> None:
        """Say that an operator keeps the broker out."""
        text = "an operator has taken the broker out of the registry: until a resume, or an agent's start"
        self.complain(Trouble(_KEPT_OUT), text, now)

    def wiped(self, *, by_others: bool) -> None:
        """Say that the write permission of the broker was found taken away, if it was."""
        if not by_others:
            return
        text = (
            "its write permission is taken away, by an operator or by a drain that was cut short: "
            f"`sharedroutes lift {self.name.partition(':')[0]}` gives it back"
        )
        self.say(logging.WARNING, text)

    def settled(self) -> None:
        """Forget without a word that somebody else decides about the broker: nobody does any more."""
        if self.is_elsewhere or self.is_kept_out:
            self.trouble, self.text = None, ""

    def foreign(self, known: Collection[str], found: Collection[str]) -> None:
        """Say which keys with foreign data are new, or that all of them are gone."""
        keys = sorted(set(found) - set(known))
        if keys:
            text = f"foreign data stands in {', '.join(keys)}: {_what_of(keys)}; move it away"
            self.say(logging.ERROR, text, keys=keys)
        elif known and not found:
            self.say(logging.INFO, "the foreign data is gone: all topics are served")


def _what_of(keys: Collection[str]) -> str:
    """Return what it means to the broker that these keys hold foreign data."""
    of_topics = sum(":topic:" in key for key in keys)
    if of_topics == len(keys):
        return "these topics are not served"
    rest = "the broker is served without what they list"
    return f"{of_topics} topics are not served, and otherwise {rest}" if of_topics else rest


def trouble_of(error: RegistryError, call: StoreCall | None) -> Trouble:
    """Return what tells one trouble from another; the numbers in messages change all the time."""
    if isinstance(error, StoreUnavailable):
        slow_write = isinstance(error, StoreTimeout) and isinstance(call, Register)
        return Trouble(_UNAVAILABLE, stops_heartbeats=not slow_write)
    of_heartbeats = isinstance(call, Heartbeat)
    if isinstance(error, CorruptData):
        return Trouble("corrupt", error.key, of_heartbeats)
    return Trouble(type(error).__name__, str(error), of_heartbeats)
