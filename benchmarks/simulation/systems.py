"""The two kinds of registry that a fleet can be simulated with: all that decides how soon clients know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sharedroutes.pipeline.errors import BadOption

from .checks import check_count, check_number, check_share

__all__ = [
    "ROCKETMQ_4",
    "ROCKETMQ_4_FAULTS",
    "ROCKETMQ_5",
    "ROCKETMQ_5_FAULTS",
    "SHAREDROUTES",
    "SHAREDROUTES_UNASKED",
    "SYSTEMS",
    "ClientFaults",
    "NameServers",
    "SharedRoutes",
    "System",
]

_SHORTEST_S: Final = 0.001
_MANY: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFaults:
    """What a client does by itself after failed sends: its fault memory, as FaultConfig and Ladder have it.

    Raises BadOption for values that do not fit.
    """

    isolation_s: float = 10.0
    """For how long a broker is left alone after a failed send (Ladder: the step of `failure_latency_ms`)."""

    consecutive_failures: int = 5
    """So many failures in a row eject the broker, and so does each further one once it is back; 0 = never."""

    base_isolation_s: float = 10.0
    """For how long the first ejection leaves a broker alone; the n-th lasts n times as long."""

    max_isolation_s: float = 60.0
    """The longest ejection, before jitter."""

    jitter_share: float = 0.2
    """Ejections are longer by up to this share."""

    decay_s: float = 30.0
    """Each so many seconds of not being left alone make up for one ejection."""

    slow_start_s: float = 5.0
    """A broker that comes back gets a share of its turns that grows to all within this time; 0 = at once."""

    smallest_share: float = 0.1
    """The share of its turns with which a broker comes back."""

    def __post_init__(self) -> None:
        check_count("consecutive_failures", self.consecutive_failures, 0, _MANY)
        for name in ("isolation_s", "base_isolation_s", "decay_s"):
            check_number(name, getattr(self, name), _SHORTEST_S)
        check_number("slow_start_s", self.slow_start_s, 0)
        check_number("max_isolation_s", self.max_isolation_s, self.base_isolation_s)
        check_share("jitter_share", self.jitter_share)
        check_number("smallest_share", self.smallest_share, 0.01, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServers:
    """RocketMQ's name servers with its own clients; the defaults are those of 5.x.

    Raises BadOption for values that do not fit. Sources: RouteInfoManager, NamesrvConfig, NettyServerConfig,
    BrokerController, MQClientInstance.
    """

    name: str = "rocketmq-5"
    """What rows call it."""

    name_servers: int = 3
    """Each scans in a time of its own; a client asks one of them."""

    timeout_s: float = 120.0
    """A broker that has not registered for so long is dead at the next scan (heartbeatTimeoutMillis)."""

    scan_s: float = 5.0
    """Between two scans (scanNotActiveBrokerInterval)."""

    register_s: float = 30.0
    """Between two registrations of a broker (registerNameServerPeriod)."""

    idle_s: float = 120.0
    """A connection without traffic for so long is closed (serverChannelMaxIdleTimeSeconds); dead at once."""

    traffic_s: float = 5.0
    """Between two requests of a broker, of whatever kind (5.x: GET_BROKER_CLUSTER_INFO every 5 s)."""

    closed_s: float = 0.01
    """From the end of a broker's process to the name server having seen its connection close; as ours."""

    poll_s: float = 30.0
    """Between two looks of a client at its routes (pollNameServerInterval)."""

    drain_s: float = 0.0
    """So long before a clean restart the write permission is taken away; 0 = the broker just ends."""

    in_outages: bool = False
    """Whether the store outages are outages of all name servers; they come back without memory."""

    faults: ClientFaults | None = None
    """The client's latency fault tolerance (sendLatencyEnable); None = off, as it is by default."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        check_count("name_servers", self.name_servers, 1, 100)
        for name in ("timeout_s", "scan_s", "register_s", "idle_s", "traffic_s", "poll_s"):
            check_number(name, getattr(self, name), _SHORTEST_S)
        for name in ("closed_s", "drain_s"):
            check_number(name, getattr(self, name), 0)
        if self.timeout_s < self.register_s:
            raise BadOption(f"timeout_s: {self.timeout_s} is less than register_s: {self.register_s}")
        if self.idle_s < self.traffic_s:
            raise BadOption(f"idle_s: {self.idle_s} is less than traffic_s: {self.traffic_s}")
        _check_faults(self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRoutes:
    """sharedroutes: agents, Redis, and its clients; the defaults are those of RegistryConfig and its peers.

    Raises BadOption for values that do not fit.
    """

    name: str = "sharedroutes"
    """What rows call it."""

    lease_ttl_s: float = 15.0
    """RegistryConfig.lease_ttl_s."""

    heartbeat_s: float = 5.0
    """AgentConfig.heartbeat_s."""

    closed_s: float = 0.01
    """From the end of a broker's process to its agent's word in the store; measured: 10 ms."""

    hang_check_s: float = 1.0
    """AgentConfig.hang_check_s; 0 = a broker with an open port counts as alive."""

    hang_deadline_s: float = 2.5
    """AgentConfig.hang_deadline_s."""

    hang_failures: int = 3
    """AgentConfig.hang_failures."""

    sweep_s: float = 0.01
    """The mean time from the end of a lease to its announcement; exponential. 0.1 s is promised."""

    sweeper_lease_s: float = 1.0
    """RegistryConfig.sweeper_lease_s: the one agent that announces the end of leases may be the lost one."""

    doorbell_s: float = 0.001
    """The mean time of a change to a client; exponential. Measured: about a millisecond."""

    doorbell_lost_share: float = 0.0
    """How many of the doorbells do not reach a client: it learns from the stream's tail instead."""

    tail_s: float = 1.0
    """ClientConfig.tail_s: between two looks of a client at the stream's tail and at the leases."""

    guard_hold_s: float = 30.0
    """ClientConfig.guard_hold_s, where a client loses its only broker, or all leases end in an outage."""

    reconnect_s: float = 6.0
    """ClientConfig.reconnect_s: in an outage a client tries again after pauses of 0.5 s to this time."""

    rejoin_s: float = 5.0
    """The longest pause of an agent, whose pauses double from 0.1 s on: its `heartbeat_s`."""

    drain_s: float = 0.0
    """AgentConfig.drain_wait_s before each clean restart; 0 = the broker just ends."""

    faults: ClientFaults | None = ClientFaults()
    """The client's fault memory; None = a client that records no attempts."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        for name in ("lease_ttl_s", "heartbeat_s", "tail_s", "hang_deadline_s"):
            check_number(name, getattr(self, name), _SHORTEST_S)
        for name in (
            "closed_s",
            "hang_check_s",
            "sweep_s",
            "sweeper_lease_s",
            "doorbell_s",
            "guard_hold_s",
            "reconnect_s",
            "rejoin_s",
            "drain_s",
        ):
            check_number(name, getattr(self, name), 0)
        check_count("hang_failures", self.hang_failures, 1, 1_000)
        check_share("doorbell_lost_share", self.doorbell_lost_share)
        if self.lease_ttl_s < 2 * self.heartbeat_s:
            raise BadOption(f"lease_ttl_s: {self.lease_ttl_s} is less than twice heartbeat_s")
        _check_faults(self.faults)


System: TypeAlias = NameServers | SharedRoutes


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise BadOption(f"name: expected the name of a system, got {name!r}")


def _check_faults(faults: object) -> None:
    if faults is not None and not isinstance(faults, ClientFaults):
        raise BadOption(f"faults: expected a ClientFaults or none, got {faults!r}")


ROCKETMQ_5: Final = NameServers()
"""5.x as it is by default: clients do not remember faults."""

_NO_EJECTIONS: Final = ClientFaults(consecutive_failures=0, slow_start_s=0.0)

ROCKETMQ_5_FAULTS: Final = replace(ROCKETMQ_5, name="rocketmq-5-faults", faults=_NO_EJECTIONS)
"""5.1.4 and later with latency fault tolerance: 10 s after a failure."""

ROCKETMQ_4: Final = NameServers(name="rocketmq-4", scan_s=10.0, traffic_s=30.0)
"""4.9.x as it is by default."""

ROCKETMQ_4_FAULTS: Final = replace(
    ROCKETMQ_4, name="rocketmq-4-faults", faults=replace(_NO_EJECTIONS, isolation_s=600.0)
)
"""4.9.x with latency fault tolerance: ten minutes after a failure."""

SHAREDROUTES: Final = SharedRoutes()
"""With its defaults."""

SHAREDROUTES_UNASKED: Final = SharedRoutes(name="sharedroutes-unasked", hang_check_s=0.0)
"""With agents that do not ask their brokers: an open port is enough."""

SYSTEMS: Final[tuple[System, ...]] = (
    ROCKETMQ_4,
    ROCKETMQ_4_FAULTS,
    ROCKETMQ_5,
    ROCKETMQ_5_FAULTS,
    SHAREDROUTES,
    SHAREDROUTES_UNASKED,
)
"""What is compared unless a configuration says otherwise."""
