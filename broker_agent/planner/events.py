"""What the planner is told (events), and what it asks for (a step)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ...registry import Broker, LeaseStatus, Registration, RegistryError, SeenLease
from ...remoting.broker.owner import OwnerAnswer
from ...remoting.broker.probing import BrokerGone, BrokerUp
from ..rocketmq.topics import TopicTable

# What observers find.


@dataclass(frozen=True, slots=True)
class TopicsLoaded:
    """The broker's table of topics has changed, or was read for the first time."""

    table: TopicTable


@dataclass(frozen=True, slots=True)
class RoleFound:
    """The broker has this id and address; if they differ from the last ones, its role has changed."""

    broker: Broker


@dataclass(frozen=True, slots=True)
class RoleUnknown:
    """The broker has no role at the moment, for example while a master is elected."""

    why: str


@dataclass(frozen=True, slots=True)
class OwnerLeft:
    """The lease of another owner of the broker may just have ended."""


# What an operator asks for.


@dataclass(frozen=True, slots=True)
class Drain:
    """Take the write permission away, wait, and keep the broker out of the registry until a Resume."""

    wait_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Keep the broker out of the registry until a Resume."""


@dataclass(frozen=True, slots=True)
class Resume:
    """End a Pause or a Drain."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Take the broker out of the registry, and end."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """End, but leave a broker that goes on to the next agent: watch it for `watch_s` seconds first."""

    watch_s: float


# What comes of the planner's own actions.

Answer: TypeAlias = Registration | LeaseStatus | bool | None
"""Of a Register, a Heartbeat, a SetWritePerm (whether it changed anything); None of the others."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The store call that was under way has succeeded."""

    answer: Answer = None
    wiped: bool = False
    """After the first Register of a role: whether the group's write permission is taken away."""


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The store call that was under way has failed."""

    error: RegistryError


@dataclass(frozen=True, slots=True)
class OwnerProbed:
    """The ProbeOwner that was under way has ended."""

    lease: SeenLease
    answer: OwnerAnswer
    why: str


@dataclass(frozen=True, slots=True)
class Woken:
    """The time of the last step's `wake_at_s` has come."""


Event: TypeAlias = (
    TopicsLoaded
    | BrokerUp
    | BrokerGone
    | RoleFound
    | RoleUnknown
    | OwnerLeft
    | Drain
    | Pause
    | Resume
    | Stop
    | HandOver
    | Answered
    | CallFailed
    | OwnerProbed
    | Woken
)

# Store calls: each is answered by Answered or CallFailed before the planner asks for the next one.


@dataclass(frozen=True, slots=True)
class Register:
    """Write the broker's table and give it a lease."""

    broker: Broker
    table: TopicTable
    held: Registration | None
    """The registration that the table is a difference to; None = write all of it."""

    take_over: bool
    """Whether to take a live lease of the same address over."""

    admit: bool = False
    """Whether to bring back a broker that an operator has taken out."""

    instead_of: SeenLease | None = None
    """The lease of an owner that was found gone, which may be taken over."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Renew the lease."""

    held: Registration
    listings: bool = field(default=False, compare=False)
    """Whether to check the lists of brokers and topics, too."""


@dataclass(frozen=True, slots=True)
class Unregister:
    """End the lease."""

    held: Registration
    reason: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """End the broker's lease, whoever holds it, and let no agent register the broker by itself."""

    broker: Broker
    reason: str


@dataclass(frozen=True, slots=True)
class SetWritePerm:
    """Take the group's write permission away, or give it back (RocketMQ: WIPE_WRITE_PERM_OF_BROKER)."""

    broker_name: str
    allowed: bool


StoreCall: TypeAlias = Register | Heartbeat | Unregister | Withdraw | SetWritePerm


@dataclass(frozen=True, slots=True)
class ProbeOwner:
    """Find out whether anything answers at the address of a lease, and at the broker's own."""

    lease: SeenLease
    own_address: str


class Step(NamedTuple):
    """What is to be done after an event, besides what is still under way."""

    wake_at_s: float
    """When to send Woken, by the planner's clock; it replaces the time of the step before."""

    call: StoreCall | None = None
    probe: ProbeOwner | None = None
    done: bool = False
    """Whether the agent ends: nothing is left to do."""
