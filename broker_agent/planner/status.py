"""The state of an agent as a value, for whoever asks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ...registry import Broker


class Phase(StrEnum):
    """What an agent is doing; the planner finds the first that applies."""

    STARTING = "starting"
    """It does not know the broker's topics yet, or has not looked for the broker yet."""

    BROKER_GONE = "broker-gone"
    """The broker accepts no connections, hangs, or has no role: clients are told so."""

    REGISTERING = "registering"
    """It wants to have the broker registered, and the store has not agreed yet."""

    SERVING = "serving"
    """The broker is registered, and its lease is renewed."""

    HANDING_OVER = "handing-over"
    """The agent is about to end and the broker is up: it is served, and watched for `stop_watch_s`."""

    STANDBY = "standby"
    """Another agent owns the broker; this one takes over when that one's lease ends."""

    DRAINING = "draining"
    """The write permission is being taken away; the broker leaves the registry after the wait."""

    PAUSED = "paused"
    """An operator took the broker out of the registry, until a resume."""

    STOPPING = "stopping"
    """The agent unregisters the broker and ends."""


_READY: Final = frozenset((Phase.SERVING, Phase.HANDING_OVER, Phase.STANDBY))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """One broker's agent at one moment; durations are in seconds, by a steady clock."""

    name: str
    """`broker name:broker id`, as in the log; without the id while the role is not known."""

    broker: Broker | None
    """The broker in its role; None = the role is not known."""

    phase: Phase
    phase_s: float
    """How long it has been in this phase."""

    epoch: int | None = None
    """Of the lease that is held; None = none is."""

    may_be_served: bool = False
    """Whether clients may be sent to the broker: it has a lease, or may have one."""

    topics: int = 0
    """In the table that was read last."""

    version: int = 0
    """The counter of that table's DataVersion."""

    in_step: bool = False
    """Whether the store holds that table."""

    broker_up: bool | None = None
    """Whether the broker is alive; None = not known yet."""

    why_gone: str = ""
    """Why it counts as gone."""

    waiting: str = ""
    """What broker.conf says that counts only when the broker restarts; empty = nothing."""

    trouble: str = ""
    """What keeps the agent from its work, and what it does about it; empty = nothing."""

    trouble_s: float = 0.0
    """How long already."""

    corrupt_keys: tuple[str, ...] = ()
    """Keys of the registry with foreign data, which the last registration left out."""

    last_heartbeat_s: float | None = None
    """How long ago the store confirmed the lease; None = there is none."""

    source: str = ""
    """Where the topics come from, and why."""

    source_trouble: str = ""
    """Why not all topics of the broker, or not its broker.conf, can be read; empty = they can."""

    advice: str = ""
    """What is wrong with the address that clients are told, and what to do; empty = nothing was found."""

    hang_check: str = ""
    """Whether the broker is asked if it works, and why not."""

    master_address: str | None = None
    """Where the master of a slave is (RocketMQ: masterAddr); empty = none is alive, None = the broker is no
    slave, or nobody knows yet."""

    master_ha_address: str | None = None
    """From where a slave replicates (RocketMQ: haServerAddr)."""

    stuck: str = ""
    """Why the process around the agent counts it as not working any more; empty = it makes progress."""

    registrations: int = 0
    """Tables written, the first one included."""

    heartbeats: int = 0
    failures: int = 0
    """Store calls that failed."""

    fenced: int = 0
    """Times another agent took the broker over."""

    @property
    def role(self) -> str:
        """What the broker is in its group: master, slave, or unknown."""
        if self.broker is None:
            return "unknown"
        return "slave" if self.broker.broker_id else "master"

    @property
    def unready(self) -> str:
        """Why the agent does not do what it is there for; empty = it does."""
        if self.phase in _READY:
            return ""
        why = self.why_gone if self.phase is Phase.BROKER_GONE else self.trouble
        return f"{self.name}: {self.phase}" + (f": {why}" if why else "")
