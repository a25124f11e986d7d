"""Decides whether who has the broker's lease at another address is gone; pure, the time is passed in."""

from __future__ import annotations

import logging
from typing import Final

from ...registry import BrokerOwned, DataVersion, SeenLease
from .events import FormerAnswer, FormerFound, LookAt, Register
from .journal import Journal

_LOOKS_S = 1.0
"""A renewal is noticed by the looks at the store, one a second."""

_AIR = 1.2

_DESERTED_SHARE: Final = 0.25
"""So much is left of a lease of which its agent has ended: one at work renews it in the first half."""


class Former:
    """What a newcomer knows of the owner of its name and id at another address, often of a host that is lost.

    The owner is gone when nothing answers there, and when nobody has renewed its lease for as long as its
    agent would: a live one that this host cannot reach is not thrown out. Another data version alone says
    nothing of that. What was found holds for the very lease that was looked at (see plans.register).
    An owner at the same address is another agent of this broker. When that has left its lease behind, the
    standby takes it over before it ends, so that clients notice nothing.
    """

    def __init__(self, journal: Journal, heartbeat_s: float, lease_ttl_s: float) -> None:
        self._journal = journal
        self._deserted_s = lease_ttl_s * _DESERTED_SHARE
        self._patience_s = heartbeat_s * _AIR + _LOOKS_S
        self._seen: SeenLease | None = None
        self._renewed_s: float | None = None
        """When the owner was found to have renewed its lease; None = not since it was first seen."""

        self._looking: SeenLease | None = None
        self._wanted: LookAt | None = None
        self._answered = ""
        self.gone: SeenLease | None = None
        """The lease that may be taken over."""

    def take(self) -> list[LookAt]:
        """Return the look that is to be made, once."""
        wanted, self._wanted = self._wanted, None
        return [] if wanted is None else [wanted]

    def forget(self) -> None:
        """Note that the broker is registered: whoever had it before, has it no more."""
        self._seen = self._renewed_s = self.gone = None
        self._answered = ""

    def refused(self, call: Register, error: BrokerOwned, now: float) -> bool:
        """Note that somebody else has the broker; return whether it is known to be gone already."""
        lease, address = error.lease, call.broker.address
        # Who was fenced takes nothing back from a live lease, or two that cannot reach each other take turns.
        if lease is None or not (call.take_over or lease.address == address):
            return False
        if lease.address == address:
            return self._is_deserted(error, lease) and lease != call.instead_of
        self._notice_renewal(lease, now)
        if lease == self.gone:
            return lease != call.instead_of
        self.gone = None
        if self._looking is None and not self._lives(now):
            self._looking, self._wanted = lease, LookAt(lease, address)
        return False

    def free_in_s(self, error: BrokerOwned, address: str) -> float:
        """Return when the lease of the owner ends, or may be taken over by a standby at this address."""
        early_s = self._deserted_s if error.lease is not None and error.lease.address == address else 0.0
        return max(0.0, error.remaining_ms / 1000 - early_s)

    def found(self, event: FormerFound, version: DataVersion) -> bool:
        """Take what a look has found; return whether the owner is gone. `version`: of our own table."""
        self._looking = None
        lease, answer = event.lease, event.answer
        if lease != self._seen:  # renewed, or another's
            return False
        gone = answer is FormerAnswer.NONE or (
            answer is FormerAnswer.NO_WAY and not _is_older(version, lease.version)
        )
        text = f"{lease.address} has the lease of this broker"
        if gone:
            self.gone = lease
            self._journal.say(logging.WARNING, f"{text} and is gone: {event.why}; taking the broker over")
        elif self._answered != event.why:
            self._answered = event.why
            self._journal.say(logging.WARNING, f"{text}, and keeps it: {event.why}")
        return gone

    def _is_deserted(self, error: BrokerOwned, lease: SeenLease) -> bool:
        self.gone = lease if error.remaining_ms / 1000 <= self._deserted_s else None
        return self.gone is not None

    def _notice_renewal(self, lease: SeenLease, now: float) -> None:
        seen, self._seen = self._seen, lease
        if seen is None or (seen.epoch, seen.address) != (lease.epoch, lease.address):
            self._renewed_s = None
        elif seen.ends_ms != lease.ends_ms:
            self._renewed_s = now

    def _lives(self, now: float) -> bool:
        """Whether the owner's agent was at work a moment ago; before anything was seen of it nobody knows."""
        return self._renewed_s is not None and now - self._renewed_s < self._patience_s


def _is_older(version: DataVersion, than: tuple[int, int, int] | None) -> bool:
    """Whether a version is older than another (RocketMQ: DataVersion.compare)."""
    return than is not None and (version.state_version, version.counter, version.timestamp) < than
