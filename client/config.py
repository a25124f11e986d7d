"""The settings of a route client, and ready ones: ours, and what RocketMQ's producers do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from ..registry.checks import (
    check_int,
    check_method,
    check_name,
    check_names,
    check_one_of,
    check_seconds,
    check_text,
    check_type,
)
from ..registry.config import RegistryConfig
from ..registry.errors import InvalidInput
from ..registry.model import MAX_QUEUES
from .attempts.policy import ROCKETMQ_4_POLICY, ROCKETMQ_POLICY, RetryPolicy
from .brokers import HintConfig
from .faults.config import LADDER, LADDER_4, FaultConfig, Probe
from .observers import Observer
from .selection import RoundRobin, Strategy

_MAX_PATH_BYTES: Final = 4_096

ReadFrom: TypeAlias = Literal["primary", "replica"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How a route client keeps its view fresh and chooses; raises InvalidInput for values that do not fit."""

    registry: RegistryConfig = field(default_factory=RegistryConfig)
    """The namespace, which is that of the agents, and the deadlines and connections of the store."""

    topics: tuple[str, ...] = ()
    """Topics to read at the start, before they are used; more = a first message need not wait, and they are
    kept fresh even if unused."""

    tail_s: float = 1.0
    """How often the tail of the change stream and the leases in use are read, doorbell or not; less = changes
    without a doorbell are found sooner, for more load: two commands each time."""

    proven_tail_s: float = 10.0
    """How often they are read while pulses prove that doorbell and sweep are at work; less = more load, and a
    lease that nobody announces is noticed sooner. A lost doorbell is noticed within `tail_s` anyway."""

    refresh_s: float = 30.0
    """How often everything in use is read again (RocketMQ: pollNameServerInterval); less = other faults are
    mended sooner, for one command a broker and one a thousand topics."""

    jitter_s: float = 15.0
    """Over so many seconds clients spread the reading of everything when all have to do it at once; the known
    routes are served meanwhile. Less = sooner right, for a higher peak on the store. Half a second for each
    broker in use, or more, is sound."""

    reconnect_s: float = 6.0
    """The longest pause between two tries to reach the store, drawn at random; the first one is short. All
    clients come back within it. Less = sooner back, for a higher peak when all come back."""

    missing_retry_s: float = 1.0
    """A topic without a live broker is not looked up again within this time, unless the feed names it; less =
    found sooner where the stream cannot be read, for more load by wrong names."""

    default_topic: str = ""
    """The topic whose brokers take messages for topics that do not exist (RocketMQ: TBW102); empty = none.
    Its brokers must create topics by themselves (autoCreateTopicEnable). With it a wrong name creates a
    topic, and raises no error."""

    default_topic_queues: int = 4
    """At most so many queues a broker for such a topic (RocketMQ: defaultTopicQueueNums)."""

    guard_hold_s: float = 30.0
    """For how long an answer that loses more than half of the live brokers, or a store that lost its data,
    leaves the last known routes in use; more = such a store has longer to be filled again, and dead brokers
    are tried for longer."""

    sweep: bool = False
    """Whether to help to announce the end of leases, as the agents do; needs their role, `agent`. Useful
    where no agent runs."""

    read_from: ReadFrom = "primary"
    """Where the store is read and listened to. "replica" = the primary has no work with this client, and a
    change comes later by the lag of replication; the URL has to name replicas, Sentinels or a Cluster."""

    snapshot_path: str | Path | None = None
    """A file that keeps the last known routes for a start within a day; None = no file. It costs one small
    write a second at most, and only after changes."""

    strategy: Strategy = field(default_factory=RoundRobin)
    """In which order queues take turns."""

    faults: FaultConfig = field(default_factory=FaultConfig)
    """How long a slow or failing broker is left alone, and how it comes back."""

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    """How often, for how long and after which errors to try, for attempts without a policy of their own."""

    probe: Probe | None = None
    """How to find out whether a broker can be reached again; None = a TCP connection to its master, which a
    broker that hangs accepts."""

    hints: HintConfig | None = None
    """Whether clients tell each other which brokers they cannot reach; None = no. Needs the role `hinter`.
    Costs two reads in `tail_s` or a little more, and a write in a few seconds while a broker fails."""

    observers: tuple[Observer, ...] = ()
    """Objects that get events: state changes and attempts; they run in your sending threads. The log gets
    state changes anyway."""

    def __post_init__(self) -> None:
        for name in ("tail_s", "proven_tail_s", "refresh_s", "reconnect_s"):
            check_seconds(name, getattr(self, name), 0.01)
        for name in ("jitter_s", "missing_retry_s", "guard_hold_s"):
            check_seconds(name, getattr(self, name), 0)
        if self.tail_s > self.refresh_s:
            raise InvalidInput(f"tail_s: {self.tail_s} is longer than refresh_s: {self.refresh_s}")
        object.__setattr__(self, "topics", check_names("topics", self.topics))
        if self.default_topic != "":
            check_name("default_topic", self.default_topic)
        check_int("default_topic_queues", self.default_topic_queues, 1, MAX_QUEUES)
        check_one_of("read_from", self.read_from, get_args(ReadFrom))
        if isinstance(self.snapshot_path, str):
            check_text("snapshot_path", self.snapshot_path, _MAX_PATH_BYTES)
        elif self.snapshot_path is not None:
            check_type("snapshot_path", self.snapshot_path, Path)
        check_type("faults", self.faults, FaultConfig)
        check_type("policy", self.policy, RetryPolicy)
        if self.hints is not None:
            check_type("hints", self.hints, HintConfig)
        check_type("observers", self.observers, tuple)
        for observer in self.observers:
            check_method("observers", observer, "on_event")
        check_method("strategy", self.strategy, "arrange")
        if self.probe is not None:
            check_method("probe", self.probe, "__call__")

    @classmethod
    def of(cls, config: ClientConfig | None, namespace: str | None) -> ClientConfig:
        """Return the given settings, or the defaults, with another namespace unless that is None."""
        config = config or cls()
        if namespace is None:
            return config
        return replace(config, registry=RegistryConfig.of(config.registry, namespace))


_FAULTS: Final = FaultConfig(
    enabled=False,  # sendLatencyFaultEnable, sendLatencyEnable
    rules="rocketmq-5",
    ladder=LADDER,
    consecutive_failures=0,
    min_success_rate=0.0,
    slow_start_s=0.0,
    max_isolated_share=None,
    detect=False,  # startDetectorEnable
    detect_interval_s=2.0,
    detect_timeout_s=0.2,
)
_ROCKETMQ_5: Final = ClientConfig(
    refresh_s=30.0,  # pollNameServerInterval
    default_topic="TBW102",  # createTopicKey
    default_topic_queues=4,  # defaultTopicQueueNums
    faults=_FAULTS,
    policy=ROCKETMQ_POLICY,
)
_FAULTS_4: Final = replace(_FAULTS, rules="rocketmq-4", ladder=LADDER_4)
_ROCKETMQ_4: Final = replace(_ROCKETMQ_5, faults=_FAULTS_4, policy=ROCKETMQ_4_POLICY)


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings that belong together."""

    client: ClientConfig
    """For RouteClient.from_url; it has the policy of attempts, too."""

    callbacks: RetryPolicy = field(default_factory=RetryPolicy)
    """For `sending`; RocketMQ's asynchronous sends try no other broker after an answer with an error."""


def _preset(client: ClientConfig, *, enabled: bool = False, detect: bool = False) -> Preset:
    changed = replace(client, faults=replace(client.faults, enabled=enabled, detect=detect))
    return Preset(changed, replace(client.policy, retry_codes=frozenset()))


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "sharedroutes": Preset(ClientConfig()),
        "rocketmq-4": _preset(_ROCKETMQ_4),
        "rocketmq-4-latency": _preset(_ROCKETMQ_4, enabled=True),
        "rocketmq-5": _preset(_ROCKETMQ_5),
        "rocketmq-5-latency": _preset(_ROCKETMQ_5, enabled=True),
        "rocketmq-5-detector": _preset(_ROCKETMQ_5, enabled=True, detect=True),
    }
)
"""RocketMQ 4.9.7 and 5.3.3 as they come; `-latency`: with fault tolerance; `-detector`: with a detector too.

Sources: DefaultMQProducer, ClientConfig, MQFaultStrategy, LatencyFaultToleranceImpl, TopicPublishInfo.
"""
