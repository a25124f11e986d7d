"""Which store call the planner makes next, and when."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from ...registry import MASTER_ID
from ..rocketmq.topics import TopicTable
from .events import Heartbeat, Register, SetWritePerm, StoreCall, Unregister, Withdraw
from .intent import Intent
from .journal import Journal
from .ownership import Lease, OtherOwner

NEVER: Final = float("inf")

_FIRST_RETRY_S: Final = 0.1
_MOST_DOUBLINGS: Final = 20  # more would only overflow: the heartbeat interval is the cap

_REJOIN_WITHIN_S: Final = 0.2
"""When the store loses its data, all agents register again; this spreads them out."""

_LOOK_S: Final = 1.0
"""A standby asks for the broker so often, in case that the owner leaves before its lease ends."""

_AFTER_LEASE_S: Final = (0.01, 0.1)
"""A standby asks so long after the end of the owner's lease: two of them should not meet."""

_AFTER_OWNER_S: Final = (0.01, 0.03)
"""Standbys that hear of the owner's end ask so long after it: not all at the same moment.

If the broker itself has ended, fronts may have heard that first: a standby's own connection tells it sooner.
"""

_FOREIGN_RETRY_S: Final = 30.0
"""Foreign data is tried to be overcome so often: nothing tells when it has been moved away."""

_JITTER: Final = 0.1
"""Intervals are shortened or lengthened by up to this part."""

_LISTINGS_EVERY: Final = 10
"""Heartbeats to one that checks the listings: that costs the store half as much as all the rest."""

_NO_TOPICS: Final = TopicTable({})


class Pace:
    """When calls are due, by the planner's clock; chance keeps agents out of step."""

    def __init__(self, heartbeat_s: float, rng: random.Random) -> None:
        self.heartbeat_at_s = 0.0
        self.write_at_s = 0.0
        """Of every call but a heartbeat."""

        self.mend_at_s = NEVER
        """Of a registration that does nothing but try foreign data again."""

        self.wake_at_s = NEVER
        self.call_began_s = 0.0
        self._heartbeat_s = heartbeat_s
        self._look_s = min(_LOOK_S, heartbeat_s)
        self._rng = rng
        self._failures = 0
        self._owner_left = False
        """Whether the owner may have left during a call that did not see it."""

    def call_begins(self, now: float) -> None:
        """Note that a call is made: it sees whatever has happened so far."""
        self.call_began_s, self._owner_left = now, False

    def renewed(self) -> None:
        """Note that the last call has renewed the lease: count from when it began."""
        self.heartbeat_at_s = self.call_began_s + self._heartbeat_s * self._rng.uniform(1 - _JITTER, 1)

    def failed(self, now: float, *, delays_heartbeats: bool) -> None:
        """Try again after 0.1 s, then twice as long each time, at most after a heartbeat interval."""
        doubled = 1 << min(self._failures, _MOST_DOUBLINGS)
        self._failures += 1
        pause_s = min(self._heartbeat_s, _FIRST_RETRY_S * doubled) * self._rng.uniform(0.5, 1)
        self.write_at_s = now + pause_s
        if delays_heartbeats:
            self.heartbeat_at_s = max(self.heartbeat_at_s, self.write_at_s)

    def recovered(self) -> None:
        """Note that calls succeed again."""
        self._failures = 0

    def rejoin(self, now: float) -> None:
        """Register again soon, as the store has lost the lease or the table."""
        self.write_at_s = max(self.write_at_s, now + self._rng.uniform(0, _REJOIN_WITHIN_S))

    def mend(self, now: float, *, found: bool) -> None:
        """Try again after a while where foreign data was found."""
        self.mend_at_s = now + _FOREIGN_RETRY_S if found else NEVER

    def owner_left(self, now: float, *, waiting: bool) -> None:
        """Ask for the broker soon if a standby is `waiting`, and again if a call is under way."""
        self._owner_left = True
        at_s = now + self._rng.uniform(*_AFTER_OWNER_S)
        if waiting:
            self.write_at_s = min(self.write_at_s, at_s)

    def refused(self, now: float, free_in_s: float = NEVER) -> None:
        """Ask for the broker again as a standby: soon, or when it is free if that is sooner."""
        if self._owner_left:
            self.write_at_s = now + self._rng.uniform(*_AFTER_OWNER_S)
            return
        look_s = self._look_s * self._rng.uniform(1, 1 + _JITTER)
        self.write_at_s = now + min(look_s, free_in_s + self._rng.uniform(*_AFTER_LEASE_S))

    def stood_still_s(self, now: float, *, in_heartbeat: bool) -> float:
        """Return how long this process did not run, if it was for a heartbeat interval or more; else 0."""
        # A heartbeat is answered, or has failed, within the deadline of a call: a heartbeat interval at most.
        late_s = now - (self.call_began_s + self._heartbeat_s if in_heartbeat else self.wake_at_s)
        return late_s if late_s >= self._heartbeat_s else 0.0


class Schedule:
    """Which store call follows from what should be (intent) and what is (lease, other owner)."""

    def __init__(self, intent: Intent, lease: Lease, other: OtherOwner, journal: Journal, pace: Pace) -> None:
        self.loaded: TopicTable | None = None
        """The table that was read last."""

        self.heartbeats = 0
        self._intent, self._lease, self._other = intent, lease, other
        self._journal, self._pace = journal, pace

    @property
    def table(self) -> TopicTable | None:
        """The table to register: a slave from before acting masters (RocketMQ 5) brings no topics."""
        broker = self._intent.broker
        if broker is not None and broker.broker_id != MASTER_ID and broker.enable_acting_master is None:
            return _NO_TOPICS
        return self.loaded

    @property
    def serves(self) -> bool:
        """Whether the lease is held for the broker in its present role."""
        return self._lease.serves(self._intent.broker)

    @property
    def must_write(self) -> bool:
        """Whether the broker has to be registered, or its table to be written."""
        return not self.serves or not self._lease.has_written(self.table)

    def next_call(self) -> tuple[float, StoreCall | None]:
        """Return when the next store call is due, and which it is; None = there is nothing to call for."""
        broker = self._intent.broker
        why_out = self._intent.why_out(moved=broker is not None and self._lease.misleads(broker))
        if why_out:
            call = self._call_to_leave(why_out)
            return self._pace.write_at_s if call else NEVER, call
        nothing: tuple[float, StoreCall | None] = (NEVER, None)
        return min([*self._calls_to_stay(), nothing], key=lambda due: due[0])  # of equal ones the first

    def _call_to_leave(self, why: str) -> StoreCall | None:
        withdrawn = self._intent.to_withdraw()
        if withdrawn is not None:
            return Withdraw(withdrawn, self._intent.out_because)
        if self._lease.to_end is not None:
            return Unregister(self._lease.to_end, why)
        return SetWritePerm(self._intent.wiped, allowed=True) if self._intent.wiped else None

    def _calls_to_stay(self) -> Iterator[tuple[float, StoreCall]]:
        """Yield each call that keeps the broker in the registry, and when it is due; the lease goes first."""
        intent, lease, pace = self._intent, self._lease, self._pace
        broker, table, held = intent.broker, self.table, lease.of(intent.broker)
        if held is not None and lease.is_held:
            listings = self.heartbeats % _LISTINGS_EVERY == 1
            yield pace.heartbeat_at_s, Heartbeat(held, listings=listings)
        if intent.draining and intent.drained_at_s is None and broker is not None:
            yield pace.write_at_s, SetWritePerm(broker.broker_name, allowed=False)
        give_back = SetWritePerm(intent.wiped, allowed=True) if intent.wiped and not intent.draining else None
        if give_back is not None and self._journal.is_elsewhere:  # else the owner would end first
            yield pace.write_at_s, give_back
        if broker is not None and table is not None and (lease.is_held or not intent.draining):
            at_s = pace.write_at_s if self.must_write else pace.mend_at_s
            take_over, admit, gone = not lease.yields, intent.admit, self._other.gone
            yield at_s, Register(broker, table, held, take_over=take_over, admit=admit, instead_of=gone)
        if give_back is not None:
            yield pace.write_at_s, give_back
