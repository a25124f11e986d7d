"""Whether the broker should be in the registry: by what it is, and by what its operator wants."""

from __future__ import annotations

from typing import Final

from ...registry import Broker

LEAST_WATCH_S: Final = 0.5
"""systemd ends a broker some microseconds before its agent, which has to notice that first."""


class Intent:
    """The broker's role and liveness, and the operator's wishes, as they were last reported."""

    def __init__(self, broker: Broker | None) -> None:
        self.broker = broker
        """The broker in its role; None = the role is not known."""

        self.broker_up: bool | None = None
        self.why_gone = "" if broker is not None else "its role is not known yet"
        self.stopping = False

        self.out_because = ""
        """Why the operator wants the broker out: paused or drained; empty = the broker may be in."""

        self.drain_wait_s: float | None = None
        """The wait of the drain that is under way; None = there is no drain."""

        self.drained_at_s: float | None = None
        """When that wait is over; None = the write permission has not been taken away yet."""

        self.wiped = ""
        """The group whose write permission this agent took away, and has to give back."""

        self.withdrawn: Broker | None = None
        """The broker that was withdrawn for the operator, whoever had registered it."""

        self.admit = True
        """Whether a registration may bring back what an operator took out: the first, and after a resume."""

        self.hands_over_at_s: float | None = None
        """Until then the agent watches its broker before it ends; None = it was not told to hand over."""

    @property
    def draining(self) -> bool:
        """Whether a drain is under way: the broker is still served."""
        return self.drain_wait_s is not None

    def drain(self, wait_s: float) -> bool:
        """Begin a drain; return False if the broker leaves, or is out, already."""
        if self.out_because or self.draining:
            return False
        self.drain_wait_s = wait_s
        return True

    def write_perm_taken(self, broker_name: str, now: float) -> None:
        """Begin the wait of the drain; `broker_name` is empty where this agent has taken nothing away."""
        self.wiped = broker_name or self.wiped
        if self.drain_wait_s is not None:
            self.drained_at_s = now + self.drain_wait_s

    def leave(self, because: str) -> None:
        """Take the broker out at once; this also ends a drain."""
        self.out_because = self.out_because or because
        self.drain_wait_s = self.drained_at_s = None

    def resume(self) -> None:
        """Let the broker come back."""
        self.out_because, self.drain_wait_s, self.drained_at_s = "", None, None
        self.withdrawn, self.admit = None, True

    def stop(self) -> None:
        """End the agent, and a drain with it: else a standby would bring the broker back."""
        self.stopping = True
        if self.draining:
            self.leave("drained")

    def hand_over(self, now: float, watch_s: float) -> None:
        """End the agent `watch_s` seconds from `now`, or as it was told before if that is sooner."""
        if self.draining:  # then its operator has decided that the broker leaves
            self.stop()
        ends_at_s = now + max(watch_s, LEAST_WATCH_S)
        self.hands_over_at_s = min(ends_at_s, self.hands_over_at_s or ends_at_s)

    def watch_is_over(self, now: float) -> bool:
        """Whether the agent was told to hand over, and has watched its broker for long enough."""
        return self.hands_over_at_s is not None and now >= self.hands_over_at_s

    def why_out(self, *, moved: bool = False) -> str:
        """Return why the broker should not be in the registry; empty = it should.

        `moved`: whether the registry has, or may have, an address that the broker has left.
        """
        if self.stopping:
            return "agent stopped"
        if self.out_because:
            return self.out_because
        if self.broker is None:
            return "no role"
        if moved and self.broker_up is not False:
            return "moved to another address"
        return "" if self.broker_up else "broker gone"

    def to_withdraw(self) -> Broker | None:
        """Return the broker that still has to be withdrawn for the operator; None = there is none."""
        broker = self.broker if self.out_because else None
        return None if broker is None or is_same_replica(broker, self.withdrawn) else broker


def is_same_replica(broker: Broker, other: Broker | None) -> bool:
    """Whether both have the same id at the same address, whatever else is known of them."""
    return other is not None and (broker.broker_id, broker.address) == (other.broker_id, other.address)
