"""What an agent knows of its own lease and table in the store: the part of its life that it can lose."""

from __future__ import annotations

from enum import Enum

from ...registry import Broker, Registration
from ..rocketmq.topics import TopicTable
from .events import Register, StoreCall, Unregister, Withdraw


class _Lease(Enum):
    NONE = "none"
    UNKNOWN = "unknown"
    """A call that may have made it or ended it was not answered."""

    OURS = "ours"


class Holding:
    """The last registration, and what of it still holds."""

    def __init__(self) -> None:
        self.held: Registration | None = None
        self.standby = False
        """Another agent took the broker over: wait for its lease to end, and do not take it back."""

        self._lease = _Lease.NONE
        self._written: TopicTable | None = None
        """The table that the store holds as ours; None = it has to be written."""

    @property
    def is_leased(self) -> bool:
        """Whether the lease is ours as far as anybody can tell."""
        return self._lease is _Lease.OURS

    @property
    def to_end(self) -> Registration | None:
        """The registration that has to be ended when the broker leaves; None = there is none."""
        return None if self._lease is _Lease.NONE else self.held

    def of_role(self, broker: Broker | None) -> Registration | None:
        """Return the registration if it is of exactly this broker: then the next one can be a difference."""
        return self.held if self.held is not None and self.held.broker == broker else None

    def serves(self, broker: Broker | None) -> bool:
        """Whether the lease is ours, and of this role."""
        return self.is_leased and self.of_role(broker) is not None

    def misleads(self, broker: Broker) -> bool:
        """Whether the lease, if there is one, tells clients an address that is the broker's no more."""
        return self.to_end is not None and self.to_end.broker.address != broker.address

    def has_written(self, table: TopicTable | None) -> bool:
        """Whether the store holds this table as ours."""
        return self._written is table

    def took(self, registration: Registration, table: TopicTable) -> None:
        """Note a registration that succeeded."""
        self.held, self._written, self._lease, self.standby = registration, table, _Lease.OURS, False

    def lost_table(self) -> bool:
        """Note that the table has to be written again; return whether it was thought to be there."""
        known, self._written = self._written is not None, None
        return known

    def ended(self) -> None:
        """Note that the lease is over, and the table still there."""
        self._lease = _Lease.NONE

    def lost(self) -> None:
        """Note that somebody else owns the broker, or nobody."""
        self.held, self._written, self._lease = None, None, _Lease.NONE

    def withdrawn(self, broker: Broker) -> None:
        """Note that the lease of this broker was ended, whoever had it; that of a former role is another."""
        if self.held is None or self.held.broker.broker_id == broker.broker_id:
            self.lost()

    def in_doubt(self, call: StoreCall | None) -> None:
        """Note that a call which may have made or ended the lease was not answered."""
        ends = isinstance(call, Unregister | Withdraw) and self._lease is not _Lease.NONE
        if ends or (isinstance(call, Register) and self._lease is _Lease.NONE):
            self._lease = _Lease.UNKNOWN
