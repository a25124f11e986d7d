"""The events of the demo, and how long each takes at worst with RocketMQ's own name server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

TOPIC: Final = "orders"
BROKERS: Final = ("broker-a", "broker-b", "broker-c")


Kind: TypeAlias = Literal["death", "birth", "outage"]
"""What clients have to do: stop using a broker, begin to use one, or go on without Redis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One step of the demo."""

    name: str
    """For programs."""

    kind: Kind
    title: str
    short_title: str
    brokers: tuple[str, ...] = ()
    """The brokers to which it happens."""

    effect: str
    """What is awaited."""

    deadline_s: float
    """An event whose effect the client does not show by then counts as not seen."""

    worst_s: float | None = None
    """The same with RocketMQ's name server, calculated; None = there is nothing to wait for."""

    why: str
    """How `worst_s` comes about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How fast the demo goes."""

    heartbeat_s: float = 1.0
    lease_ttl_s: float = 3.0
    messages_per_s: float = 300.0
    send_timeout_s: float = 1.0
    """The longest wait for the acknowledgement of one attempt."""

    outage_s: float = 4.0
    """How long Redis is away: longer than the lease TTL, so that every lease ends meanwhile."""

    calm_messages: int = 450
    """So many messages are sent between one event and the next."""

    pause_limit_s: float = 2.0
    """A live broker that is not used for so long counts as dropped by the client."""


SETTINGS: Final = Settings()

_GONE: Final = "gone from the client's routes"

# The name server's figures add up the default timers of RocketMQ 5:
# - A client asks for its routes every 30 s (pollNameServerInterval, MQClientInstance).
# - A broker registers at its start, and then every 30 s (registerNameServerPeriod, BrokerController).
# - The name server removes a broker at once when its TCP connection is closed (BrokerHousekeepingService);
#   a silent connection is closed after 120 s (serverChannelMaxIdleTimeSeconds, NettyRemotingServer), and a
#   silent broker is found by a scan every 5 s once it has not registered for 120 s (RouteInfoManager). A host
#   that is lost says nothing from then on, so the idle connection is noticed first: 120 s.
# - A client keeps the routes it has when the name server does not answer, or knows them no longer.
_POLL_S: Final = 30.0
_REGISTER_S: Final = 30.0
_IDLE_S: Final = 120.0
_BY_POLL: Final = "the broker registers at its start, clients poll every 30 s"

SCENARIO: Final = (
    Event(
        name="all-start",
        kind="birth",
        title="three brokers start, an agent beside each",
        short_title="three brokers start",
        brokers=BROKERS,
        effect="the client sends to broker-a, broker-b, broker-c",
        deadline_s=20.0,
        why="asked at the first message, as here",
    ),
    Event(
        name="broker-killed",
        kind="death",
        title="broker-b: its process is killed (kill -9)",
        short_title="broker-b killed",
        brokers=("broker-b",),
        effect=_GONE,
        deadline_s=5.0,
        worst_s=_POLL_S,
        why="the closed connection is noticed at once, clients poll every 30 s",
    ),
    Event(
        name="host-lost",
        kind="death",
        title="broker-c: its host is lost, broker and agent at once",
        short_title="broker-c's host lost",
        brokers=("broker-c",),
        effect=_GONE,
        deadline_s=10.0,
        worst_s=_IDLE_S + _POLL_S,
        why="the silent connection is closed after 120 s, clients poll every 30 s",
    ),
    Event(
        name="store-stopped",
        kind="outage",
        title="Redis is stopped",
        short_title="Redis stopped",
        effect="the client serves its routes from memory",
        deadline_s=5.0,
        why="name server stopped: clients keep their routes, as here",
    ),
    Event(
        name="store-empty",
        kind="outage",
        title="Redis comes back, empty",
        short_title="Redis back, empty",
        effect="all live brokers are registered again",
        deadline_s=8.0,
        worst_s=_REGISTER_S,
        why="name server restarted: it knows no route until brokers register, every 30 s",
    ),
    Event(
        name="broker-back",
        kind="birth",
        title="broker-b: its process is started again",
        short_title="broker-b back",
        brokers=("broker-b",),
        effect="the client sends to broker-b",
        deadline_s=8.0,
        worst_s=_POLL_S,
        why=_BY_POLL,
    ),
    Event(
        name="host-back",
        kind="birth",
        title="broker-c: its host is back, broker and agent",
        short_title="broker-c's host back",
        brokers=("broker-c",),
        effect="the client sends to broker-c",
        deadline_s=8.0,
        worst_s=_POLL_S,
        why=_BY_POLL,
    ),
)
