"""Whether a broker belongs into the registry: what the broker is, and what its operator wants."""

from __future__ import annotations

from ...registry import Broker


class Intent:
    """What broker and operator said last; pure, the time is passed in."""

    def __init__(self, broker: Broker | None) -> None:
        self.broker = broker
        """Who the broker is; None while nobody can say."""

        self.broker_up: bool | None = None
        self.why_gone = "" if broker is not None else "its role is not known yet"
        self.stopping = False

        self.out_because = ""
        """An operator wants the broker to be out: paused or drained; empty = in."""

        self.drain_wait_s: float | None = None
        """A drain is wanted, with this wait; None = no drain."""

        self.drained_at_s: float | None = None
        """The wait of the drain ends then; None = the write permission has not been taken away yet."""

        self.withdrawn: Broker | None = None
        """Who was taken out of the registry for the operator, whoever had registered it; None = nobody."""

        self.admit = True
        """Whether this agent may bring back what an operator took out: it was started, or told to resume."""

    @property
    def draining(self) -> bool:
        """Whether the broker is still served, and about to leave."""
        return self.drain_wait_s is not None

    def drain(self, wait_s: float) -> None:
        """Let the broker leave `wait_s` seconds after its write permission was taken away."""
        if not self.out_because and self.drain_wait_s is None:
            self.drain_wait_s = wait_s

    def leave(self, because: str) -> None:
        """Let the broker leave at once; this is also how a drain ends."""
        self.out_because = self.out_because or because
        self.drain_wait_s = self.drained_at_s = None

    def resume(self) -> None:
        """Let the broker come back."""
        self.out_because, self.drain_wait_s, self.drained_at_s = "", None, None
        self.withdrawn, self.admit = None, True

    def to_withdraw(self) -> Broker | None:
        """Return who has still to be taken out of the registry for the operator; None = nobody."""
        if not self.out_because or self.broker is None:
            return None
        return None if is_same_replica(self.broker, self.withdrawn) else self.broker

    def stop(self) -> None:
        """Let the agent end; a drain ends with it, and not with the agent of a standby that takes over."""
        self.stopping = True
        if self.draining:
            self.leave("drained")

    def write_perm_taken(self, now: float) -> None:
        """Begin the wait of a drain."""
        if self.drain_wait_s is not None:
            self.drained_at_s = now + self.drain_wait_s

    def pass_time(self, now: float) -> None:
        """End a drain whose wait is over."""
        if self.drained_at_s is not None and now >= self.drained_at_s:
            self.leave("drained")

    def why_out(self) -> str:
        """Return why the broker does not belong into the registry; empty = it does."""
        if self.stopping:
            return "agent stopped"
        if self.out_because:
            return self.out_because
        if self.broker is None:
            return "no role"
        return "" if self.broker_up else "broker gone"


def is_same_replica(broker: Broker, other: Broker | None) -> bool:
    """Whether both have the same id at the same address, whatever else is said of them."""
    return other is not None and (broker.broker_id, broker.address) == (other.broker_id, other.address)
