"""Who owns the broker, as far as its agent knows: the agent itself by its lease, or another owner."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from ...registry import Broker, BrokerOwned, DataVersion, Registration, SeenLease
from ...remoting.broker.owner import OwnerAnswer
from ..rocketmq.topics import TopicTable
from .events import OwnerProbed, ProbeOwner, Register, StoreCall, Unregister, Withdraw
from .journal import Journal

_RENEWAL_FACTOR: Final = 1.2
_NOTICED_WITHIN_S: Final = 1.0
"""A standby sees the owner's lease about once a second, and a renewal no sooner."""

_ABANDONED_SHARE: Final = 0.25
"""A lease of which only this part is left is abandoned: an agent at work renews it in its first half."""


class _LeaseState(Enum):
    NONE = "none"
    HELD = "held"
    UNKNOWN = "unknown"
    """A call that may have made it or ended it was not answered."""


class Lease:
    """The lease and the table that the store holds for this agent, by the answers of the store."""

    def __init__(self) -> None:
        self.registration: Registration | None = None
        """The last one that was not lost: the next table can be written as a difference to it."""

        self.confirmed_s: float | None = None
        """When the call began that last made or renewed the lease; None = there is none."""

        self.yields = False
        """Whether another agent has taken the broker over: its live lease is not taken back."""

        self._state = _LeaseState.NONE
        self._table: TopicTable | None = None
        """The table that the store holds; None = it has to be written."""

    @property
    def is_held(self) -> bool:
        """Whether the last answer leaves no doubt that the agent has the lease."""
        return self._state is _LeaseState.HELD

    @property
    def to_end(self) -> Registration | None:
        """The registration whose lease is or may be there, and ends with an Unregister."""
        return None if self._state is _LeaseState.NONE else self.registration

    def of(self, broker: Broker | None) -> Registration | None:
        """Return the registration if it is of exactly this broker."""
        found = self.registration
        return found if found is not None and found.broker == broker else None

    def serves(self, broker: Broker | None) -> bool:
        """Whether the lease is held for exactly this broker."""
        return self.is_held and self.of(broker) is not None

    def misleads(self, broker: Broker) -> bool:
        """Whether clients are or may be sent to an address that the broker has left."""
        return self.to_end is not None and self.to_end.broker.address != broker.address

    def has_written(self, table: TopicTable | None) -> bool:
        """Whether the store holds this table."""
        return self._table is table

    def granted(self, registration: Registration, table: TopicTable, confirmed_s: float) -> None:
        """Note a registration that succeeded."""
        self.registration, self._table, self.confirmed_s = registration, table, confirmed_s
        self._state, self.yields = _LeaseState.HELD, False

    def lost_table(self) -> bool:
        """Note that the table has to be written again; return whether it was written, as far as was known."""
        was_written, self._table = self._table is not None, None
        return was_written

    def ended(self) -> None:
        """Note that the lease has ended; the store keeps the table."""
        self._state, self.confirmed_s = _LeaseState.NONE, None

    def lost(self) -> None:
        """Note that somebody else owns the broker, or nobody."""
        self.ended()
        self.registration = self._table = None

    def withdrawn(self, broker: Broker) -> None:
        """Note that this broker's lease was ended, whoever held it; that of a former role is another one."""
        if self.registration is None or self.registration.broker.broker_id == broker.broker_id:
            self.lost()

    def in_doubt(self, call: StoreCall | None) -> None:
        """Note that a call was not answered: it may have made the lease, or ended it."""
        had_none = self._state is _LeaseState.NONE
        if isinstance(call, Register) if had_none else isinstance(call, Unregister | Withdraw):
            self._state = _LeaseState.UNKNOWN


class OtherOwner:
    """Decides when the lease of another owner may be taken over before it ends.

    At the same address the owner is another agent of this broker, and its lease may be taken over once it is
    abandoned, so that clients notice nothing. At another address, often of a host that was lost, the owner is
    gone when nothing answers there and nobody renews its lease: one that merely cannot be reached from here
    is not thrown out. A newer table alone proves nothing. Either verdict holds for the very lease that was
    seen (see registry.plans.register).
    """

    def __init__(self, journal: Journal, *, heartbeat_s: float, lease_ttl_s: float) -> None:
        self.gone: SeenLease | None = None
        """The lease that may be taken over."""

        self.wanted: ProbeOwner | None = None
        """The probe that the next step asks for."""

        self._journal = journal
        self._abandoned_s = lease_ttl_s * _ABANDONED_SHARE
        self._renewed_within_s = heartbeat_s * _RENEWAL_FACTOR + _NOTICED_WITHIN_S
        self._seen: SeenLease | None = None
        self._renewed_s: float | None = None
        """When the lease was last seen to have been renewed; None = not since it was first seen."""

        self._is_probed = False
        self._reported = ""

    def forget(self) -> None:
        """Note that this agent owns the broker."""
        self._seen = self._renewed_s = self.gone = None
        self._reported = ""

    def refused(self, call: Register, error: BrokerOwned, now: float) -> bool:
        """Note a registration that the owner's lease refused; return whether to take that over at once."""
        lease, address = error.lease, call.broker.address
        # After it was fenced it takes no live lease back: two that cannot reach each other would take turns.
        if lease is None or not (call.take_over or lease.address == address):
            return False
        if lease.address == address:
            self.gone = lease if error.remaining_ms / 1000 <= self._abandoned_s else None
        else:
            self._note_renewal(lease, now)
            if lease != self.gone:
                self.gone = None
                self._probe(ProbeOwner(lease, address), now)
        return self.gone is not None and lease != call.instead_of

    def free_in_s(self, error: BrokerOwned, address: str) -> float:
        """Return in how many seconds the owner's lease ends, or is abandoned if it is at this address."""
        early_s = self._abandoned_s if error.lease is not None and error.lease.address == address else 0.0
        return max(0.0, error.remaining_ms / 1000 - early_s)

    def probed(self, event: OwnerProbed, version: DataVersion) -> bool:
        """Note what a probe found, given the version of the own table; return whether the owner is gone."""
        self._is_probed = False
        lease, answer = event.lease, event.answer
        if lease != self._seen:  # it was renewed meanwhile, or has another owner
            return False
        text = f"{lease.address} has the lease of this broker"
        is_older = lease.version is not None and version.order < lease.version
        if answer is OwnerAnswer.NONE or (answer is OwnerAnswer.NO_WAY and not is_older):
            self.gone = lease
            self._journal.say(logging.WARNING, f"{text} and is gone: {event.why}; taking the broker over")
            return True
        if self._reported != event.why:
            self._reported = event.why
            self._journal.say(logging.WARNING, f"{text}, and keeps it: {event.why}")
        return False

    def _probe(self, probe: ProbeOwner, now: float) -> None:
        """Ask for a probe, unless one is under way or the lease was renewed as by an agent at work."""
        is_renewed = self._renewed_s is not None and now - self._renewed_s < self._renewed_within_s
        if not self._is_probed and not is_renewed:
            self._is_probed = True
            self.wanted = probe

    def _note_renewal(self, lease: SeenLease, now: float) -> None:
        seen, self._seen = self._seen, lease
        if seen is None or (seen.epoch, seen.address) != (lease.epoch, lease.address):
            self._renewed_s = None
        elif seen.ends_ms != lease.ends_ms:
            self._renewed_s = now
