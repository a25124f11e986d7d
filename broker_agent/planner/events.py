"""What happens to an agent, and what it does about it: the two alphabets of the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from ...registry import Broker, LeaseStatus, Registration, RegistryError, SeenLease
from ..rocketmq.topics import TopicTable


@dataclass(frozen=True, slots=True)
class TopicsLoaded:
    """The broker has another table than before."""

    file: TopicTable


@dataclass(frozen=True, slots=True)
class BrokerUp:
    """The broker lives: it accepts connections, and answers if it is asked."""


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """The broker is gone: it accepts no connections, or does not answer."""

    why: str
    hangs: bool = field(default=False, compare=False)
    """Whether its process is there all the same: it has not ended."""


@dataclass(frozen=True, slots=True)
class OwnerLeft:
    """Whoever has registered the broker besides this agent has perhaps just left: worth a look."""


@dataclass(frozen=True, slots=True)
class RoleFound:
    """The broker is who it is said to be here; another id or address than before = its role has changed."""

    broker: Broker


@dataclass(frozen=True, slots=True)
class RoleUnknown:
    """Nobody can say what the broker is at the moment, for example while a master is elected."""

    why: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Take the write permission away, wait, and take the broker out of the registry until a Resume."""

    wait_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Take the broker out of the registry at once, until a Resume."""


@dataclass(frozen=True, slots=True)
class Resume:
    """End a Pause or a Drain."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The Register that was under way has written `file`."""

    file: TopicTable
    registration: Registration
    wiped: bool = False
    """Whether the group's write permission is taken away."""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """The Heartbeat that was under way has been answered."""

    status: LeaseStatus


@dataclass(frozen=True, slots=True)
class Unregistered:
    """The Unregister that was under way has succeeded."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The Withdraw that was under way has succeeded."""


@dataclass(frozen=True, slots=True)
class WritePermSet:
    """The SetWritePerm that was under way has succeeded."""

    changed: bool
    """Whether it was not so before."""


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The store call that was under way, whichever it was, has failed."""

    error: RegistryError


class FormerAnswer(Enum):
    """What a look at the address of a former owner has found; `weight`: of several the heaviest counts."""

    NONE = 0
    """Nobody listens, or nobody answers for all the time."""

    NO_WAY = 1
    """There is no way to that host, or no such host: the fault may be this host's."""

    UNKNOWN = 2
    """The look was worth nothing."""

    SOME = 3
    """Something answers, whatever it says."""

    @property
    def weight(self) -> int:
        """Return how much it counts among several."""
        return self.value


@dataclass(frozen=True, slots=True)
class FormerFound:
    """The LookAt that was under way has ended."""

    lease: SeenLease
    answer: FormerAnswer
    why: str


@dataclass(frozen=True, slots=True)
class Woken:
    """The time of the last WakeAt has come."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The agent is asked to end."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """The agent is asked to end, and its broker perhaps goes on: watch that, and leave the lease behind."""

    watch_s: float


@dataclass(frozen=True, slots=True)
class Register:
    """Make the table the broker's and give it a lease."""

    broker: Broker
    file: TopicTable
    held: Registration | None
    take_over: bool
    admit: bool = False
    """Whether it ends what an operator wanted: that the broker stays out."""

    instead_of: SeenLease | None = None
    """The lease of an owner that was found gone, at another address."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Renew the lease."""

    held: Registration
    listings: bool = field(default=False, compare=False)
    """Whether to look at the listings besides, which name what was foreign and was moved away no more."""


@dataclass(frozen=True, slots=True)
class Unregister:
    """End the lease at once."""

    held: Registration
    reason: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """End the broker's lease, whoever has it, and let no other agent register the broker."""

    broker: Broker
    reason: str


@dataclass(frozen=True, slots=True)
class SetWritePerm:
    """Take the broker's write permission away, or give it back (RocketMQ: WIPE_WRITE_PERM_OF_BROKER)."""

    broker_name: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class LookAt:
    """Look whether anybody answers where the owner of a lease is, and at the broker's own address."""

    lease: SeenLease
    own_address: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send Woken at this time, in seconds of the clock that `now` is read from; a later one replaces it."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Say:
    """Tell the operator."""

    level: int
    text: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do after a Stop."""


Event: TypeAlias = (
    TopicsLoaded
    | BrokerUp
    | BrokerGone
    | OwnerLeft
    | RoleFound
    | RoleUnknown
    | Drain
    | Pause
    | Resume
    | Registered
    | HeartbeatAnswered
    | Unregistered
    | Withdrawn
    | WritePermSet
    | CallFailed
    | FormerFound
    | Woken
    | Stop
    | HandOver
)
StoreCall: TypeAlias = Register | Heartbeat | Unregister | Withdraw | SetWritePerm
Action: TypeAlias = StoreCall | LookAt | WakeAt | Say | Done
