"""The events of the demo, and how long each takes at worst with RocketMQ's own name server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

TOPIC: Final = "orders"
BROKERS: Final = ("broker-a", "broker-b", "broker-c")


class Happening(StrEnum):
    """The kind of an event, which decides what is awaited afterwards and how it is measured."""

    ALL_START = "all-start"
    BROKER_KILLED = "broker-killed"
    HOST_LOST = "host-lost"
    STORE_STOPPED = "store-stopped"
    STORE_EMPTY = "store-empty"
    BROKER_BACK = "broker-back"
    HOST_BACK = "host-back"

    @property
    def is_death(self) -> bool:
        """Whether clients have to stop using a broker."""
        return self in {Happening.BROKER_KILLED, Happening.HOST_LOST}

    @property
    def is_birth(self) -> bool:
        """Whether clients should begin to use a broker."""
        return self in {Happening.ALL_START, Happening.BROKER_BACK, Happening.HOST_BACK}

    @property
    def is_of_broker(self) -> bool:
        """Whether it happens to brokers, and not to Redis."""
        return self.is_death or self.is_birth


@dataclass(frozen=True, slots=True)
class Event:
    """One step of the demo."""

    happening: Happening
    title: str
    short_title: str
    brokers: tuple[str, ...]
    """The brokers to which it happens."""

    deadline_s: float
    """An event whose effect the client does not show by then counts as not seen."""

    worst_s: float | None
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
        Happening.ALL_START,
        "three brokers start, an agent beside each",
        "three brokers start",
        BROKERS,
        20.0,
        None,
        "asked at the first message, as here",
    ),
    Event(
        Happening.BROKER_KILLED,
        "broker-b: its process is killed (kill -9)",
        "broker-b killed",
        ("broker-b",),
        5.0,
        _POLL_S,
        "the closed connection is noticed at once, clients poll every 30 s",
    ),
    Event(
        Happening.HOST_LOST,
        "broker-c: its host is lost, broker and agent at once",
        "broker-c's host lost",
        ("broker-c",),
        10.0,
        _IDLE_S + _POLL_S,
        "the silent connection is closed after 120 s, clients poll every 30 s",
    ),
    Event(
        Happening.STORE_STOPPED,
        "Redis is stopped",
        "Redis stopped",
        (),
        5.0,
        None,
        "name server stopped: clients keep their routes, as here",
    ),
    Event(
        Happening.STORE_EMPTY,
        "Redis comes back, empty",
        "Redis back, empty",
        (),
        8.0,
        _REGISTER_S,
        "name server restarted: it knows no route until brokers register, every 30 s",
    ),
    Event(
        Happening.BROKER_BACK,
        "broker-b: its process is started again",
        "broker-b back",
        ("broker-b",),
        8.0,
        _POLL_S,
        _BY_POLL,
    ),
    Event(
        Happening.HOST_BACK,
        "broker-c: its host is back, broker and agent",
        "broker-c's host back",
        ("broker-c",),
        8.0,
        _POLL_S,
        _BY_POLL,
    ),
)
