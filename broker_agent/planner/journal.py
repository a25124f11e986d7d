"""What the planner logs: each trouble once, and once its end."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final, NamedTuple

from ...registry import BrokerOwned, CorruptData, RegistryError, StoreTimeout, StoreUnavailable
from .events import Heartbeat, Register, StoreCall

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_UNAVAILABLE: Final = "unavailable"
_OWNED: Final = "owned"
_FENCED: Final = "fenced"
_KEPT_OUT: Final = "kept out"


class Trouble(NamedTuple):
    """What keeps the agent from its work; one of the same kind and detail is logged once."""

    kind: str
    detail: str = ""
    stops_heartbeats: bool = True
    """If not, a heartbeat that succeeds does not mean that the trouble is over."""

    @property
    def is_silence(self) -> bool:
        """Whether the store gave no answer: what the call did is not known."""
        return self.kind == _UNAVAILABLE

    @classmethod
    def of(cls, error: RegistryError, call: StoreCall | None) -> Trouble:
        """Return the trouble behind an error, without those numbers of its message that always change."""
        if isinstance(error, StoreUnavailable):
            is_slow_write = isinstance(error, StoreTimeout) and isinstance(call, Register)
            return cls(_UNAVAILABLE, stops_heartbeats=not is_slow_write)
        of_heartbeat = isinstance(call, Heartbeat)
        if isinstance(error, CorruptData):
            return cls("corrupt", error.key, of_heartbeat)
        return cls(type(error).__name__, str(error), of_heartbeat)


class Journal:
    """Writes to the log, and keeps the trouble that was logged last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.trouble: Trouble | None = None
        self.text = ""
        self.since_s = 0.0

    def say(self, level: int, text: str, **fields: object) -> None:
        """Log something about the broker."""
        _LOG.log(level, "%s: %s", self.name, text, extra={"broker": self.name, **fields})

    def complain(self, trouble: Trouble, text: str, now: float) -> None:
        """Log a trouble, once."""
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

    def settled(self) -> None:
        """Forget without a word that somebody else decides about the broker: nobody does any more."""
        if self.is_decided_elsewhere:
            self.trouble, self.text = None, ""

    @property
    def is_elsewhere(self) -> bool:
        """Whether another agent owns the broker, by the last refusal."""
        return self.trouble is not None and self.trouble.kind in (_OWNED, _FENCED)

    @property
    def is_kept_out(self) -> bool:
        """Whether an operator keeps the broker out of the registry, by the last refusal."""
        return self.trouble is not None and self.trouble.kind == _KEPT_OUT

    @property
    def is_decided_elsewhere(self) -> bool:
        """Whether another agent owns the broker, or an operator keeps it out, by the last refusal."""
        return self.is_elsewhere or self.is_kept_out

    def is_served_at(self, address: str) -> bool:
        """Whether another agent serves the broker at this address."""
        return self.trouble is not None and self.trouble[:2] == (_OWNED, address)

    def owned(self, error: BrokerOwned, address: str, now: float) -> None:
        """Log that another agent owns the broker; `address` is this agent's."""
        if error.owner_address == address:
            left_s = error.remaining_ms / 1000
            text = f"another agent serves this broker: on standby, its lease lasts for {left_s:.1f} s"
        else:
            text = str(error).removeprefix(self.name + " ")
        self.complain(Trouble(_OWNED, error.owner_address), text, now)

    def fenced(self, now: float) -> None:
        """Log that another agent has taken the broker over."""
        text = "another agent has taken the broker over: on standby until it ends; only one is needed"
        self.complain(Trouble(_FENCED), text, now)

    def kept_out(self, now: float) -> None:
        """Log that an operator keeps the broker out."""
        text = "an operator has taken the broker out of the registry: until a resume, or an agent's start"
        self.complain(Trouble(_KEPT_OUT), text, now)

    def stood_still(self, seconds: float) -> None:
        """Log for how long this process was not allowed to run, which explains a lease that has ended."""
        if seconds:
            text = f"this process stood still for at least {seconds:.1f} s: stopped, or the machine slept"
            self.say(logging.WARNING, text)

    def wiped(self) -> None:
        """Log that the write permission was found taken away by somebody else."""
        text = (
            "its write permission is taken away, by an operator or by a drain that was cut short: "
            f"`sharedroutes lift {self.name.partition(':')[0]}` gives it back"
        )
        self.say(logging.WARNING, text)

    def foreign(self, known: Collection[str], found: Collection[str]) -> None:
        """Log which keys with foreign data are new, or that all of them are gone."""
        keys = sorted(set(found) - set(known))
        if keys:
            text = f"foreign data stands in {', '.join(keys)}: {_consequence_of(keys)}; move it away"
            self.say(logging.ERROR, text, keys=keys)
        elif known and not found:
            self.say(logging.INFO, "the foreign data is gone: all topics are served")


def _consequence_of(keys: Collection[str]) -> str:
    of_topics = sum(":topic:" in key for key in keys)
    if of_topics == len(keys):
        return "these topics are not served"
    rest = "the broker is served without what they list"
    return f"{of_topics} topics are not served, and otherwise {rest}" if of_topics else rest
