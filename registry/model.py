"""The nouns of the registry, in RocketMQ's terms; every value is checked where it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag, StrEnum
from operator import attrgetter
from typing import Final, NamedTuple

from .checks import (
    check_address,
    check_broker_name,
    check_flag,
    check_int,
    check_name,
    check_utf8,
    split_address,
)
from .errors import CorruptData, InvalidInput

MASTER_ID: Final = 0
"""The broker id of a master (RocketMQ: MixAll.MASTER_ID)."""

MAX_QUEUES: Final = 65_536
"""Queues of one topic on one broker; RocketMQ has no limit, its largest own topic has 1,024."""

MAX_MAPPED_QUEUES: Final = 4_096
"""Logical queues of a static topic on one broker: they stand in every answer about the topic."""

MAX_ATTRIBUTES_BYTES: Final = 65_536
"""Keys and values of the attributes of a topic; RocketMQ has no limit, its own take less than 100."""

_MIN_TIMEOUT_MS: Final = 50
_A_DAY_MS: Final = 86_400_000
_MAX_INT: Final = 2**31 - 1
_MAX_LONG: Final = 2**63 - 1


class Perm(IntFlag):
    """The permission bits of a topic (RocketMQ: PermName)."""

    INHERIT = 1
    WRITE = 2
    READ = 4


_PERM_MAX: Final = 7
_WRITE: Final = int(Perm.WRITE)
_READ: Final = int(Perm.READ)


@dataclass(frozen=True, slots=True)
class QueueMapping:
    """Which logical queues of a static topic one broker holds (RocketMQ: TopicQueueMappingInfo)."""

    total_queues: int
    epoch: int
    current_ids: Mapping[int, int] = field(default_factory=dict, hash=False)
    """Logical queue id to the queue id on the broker (RocketMQ: currIdMap)."""

    scope: str = "__global__"
    dirty: bool = False

    def __post_init__(self) -> None:
        check_int("totalQueues", self.total_queues, 0, _MAX_INT)
        check_int("epoch", self.epoch, 0, _MAX_LONG)
        check_name("scope", self.scope)
        check_int("number of ids in currIdMap", len(self.current_ids), 0, MAX_MAPPED_QUEUES)
        for logical, physical in self.current_ids.items():
            check_int("currIdMap", logical, 0, _MAX_INT)
            check_int(f"currIdMap[{logical}]", physical, 0, _MAX_INT)
        check_flag("dirty", self.dirty)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic of one broker, as the broker itself keeps it (RocketMQ: TopicConfig)."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_sys_flag: int = 0
    order: bool = False
    topic_filter_type: str = "SINGLE_TAG"
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    queue_mapping: QueueMapping | None = None
    """For a static topic: which of its logical queues this broker holds."""

    def __post_init__(self) -> None:
        check_name("topicName", self.topic_name)
        _check_queues(self)
        check_flag("order", self.order)
        if self.topic_filter_type not in ("SINGLE_TAG", "MULTI_TAG"):
            raise InvalidInput(
                f"topicFilterType: {self.topic_filter_type!r} is neither SINGLE_TAG nor MULTI_TAG"
            )
        if self.attributes != {}:
            _check_attributes(self.topic_name, self.attributes)
        mapping: object = self.queue_mapping
        if mapping is not None and not isinstance(mapping, QueueMapping):
            raise InvalidInput(f"queueMapping: expected a QueueMapping or none, got {mapping!r}")


def _check_queues(of: TopicConfig | QueueData) -> None:
    check_int("readQueueNums", of.read_queue_nums, 0, MAX_QUEUES)
    check_int("writeQueueNums", of.write_queue_nums, 0, MAX_QUEUES)
    check_int("perm", of.perm, 0, _PERM_MAX)
    check_int("topicSysFlag", of.topic_sys_flag, 0, _MAX_INT)


def _check_attributes(topic_name: str, attributes: object) -> None:
    if not isinstance(attributes, Mapping):
        raise InvalidInput(f"attributes: expected a table of strings, got {attributes!r}")
    size = 0
    for key, value in attributes.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInput(f"attributes: {key!r}: {value!r} is not a pair of strings")
        size += check_utf8("attributes", key + value)
    if size > MAX_ATTRIBUTES_BYTES:
        raise InvalidInput(
            f"attributes of topic {topic_name!r}: {size} bytes, the limit is {MAX_ATTRIBUTES_BYTES}"
        )


TOPIC_FIELDS: Final = {
    "topicName": "topic_name",
    "readQueueNums": "read_queue_nums",
    "writeQueueNums": "write_queue_nums",
    "perm": "perm",
    "topicSysFlag": "topic_sys_flag",
    "order": "order",
    "topicFilterType": "topic_filter_type",
    "attributes": "attributes",
}
"""What RocketMQ's JSON calls the fields of a TopicConfig that need no translation."""


def topic_table(topics: Iterable[TopicConfig]) -> dict[str, TopicConfig]:
    """Return the topics by name; raise InvalidInput when one name stands twice."""
    table: dict[str, TopicConfig] = {}
    for config in topics:
        if config.topic_name in table:
            raise InvalidInput(f"topic {config.topic_name!r} stands twice in one table")
        table[config.topic_name] = config
    return table


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The version of a broker's topic table (RocketMQ: DataVersion); `timestamp` is in ms, of the broker."""

    state_version: int = 0
    timestamp: int = 0
    counter: int = 0

    def __post_init__(self) -> None:
        check_int("stateVersion", self.state_version, 0, _MAX_LONG)
        check_int("timestamp", self.timestamp, 0, _MAX_LONG)
        check_int("counter", self.counter, 0, _MAX_LONG)

    @property
    def order(self) -> tuple[int, int, int]:
        """What versions are compared by (RocketMQ: DataVersion.compare)."""
        return self.state_version, self.counter, self.timestamp


VERSION_FIELDS: Final = {"stateVersion": "state_version", "timestamp": "timestamp", "counter": "counter"}
"""What RocketMQ's JSON calls the fields of a DataVersion."""


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker process as it registers: its group, its id there (0 = master) and its addresses."""

    broker_name: str
    address: str
    broker_id: int = MASTER_ID
    cluster: str = "DefaultCluster"
    ha_address: str = ""
    zone_name: str = ""
    enable_acting_master: bool | None = None
    """Whether a slave may stand in for a lost master, read-only; None = a broker from before RocketMQ 5."""

    heartbeat_timeout_ms: int | None = None
    """The TTL of this broker's lease; None = RegistryConfig.lease_ttl_s (heartbeatTimeoutMillis)."""

    filter_servers: tuple[str, ...] | None = None
    """Its filter servers; empty = none, None leaves those of its address as they are (filterServerList)."""

    def __post_init__(self) -> None:
        check_broker_name(self.broker_name)
        check_name("brokerClusterName", self.cluster)
        check_int("brokerId", self.broker_id, 0, _MAX_LONG)
        check_address("brokerAddr", self.address)
        if self.ha_address:
            check_address("haServerAddr", self.ha_address)
        if self.zone_name:
            check_name("zoneName", self.zone_name)
        if self.enable_acting_master is not None:
            check_flag("enableActingMaster", self.enable_acting_master)
        if self.heartbeat_timeout_ms is not None:
            check_int("heartbeatTimeoutMillis", self.heartbeat_timeout_ms, _MIN_TIMEOUT_MS, _A_DAY_MS)
        for server in self.filter_servers or ():
            check_address("filterServer", server)


@dataclass(frozen=True, slots=True)
class QueueData:
    """How many queues of a topic one broker holds (RocketMQ: QueueData)."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0
    queue_mapping: QueueMapping | None = None

    def __post_init__(self) -> None:
        check_broker_name(self.broker_name)
        _check_queues(self)

    @property
    def writable(self) -> bool:
        """Whether producers may send (RocketMQ: PermName.isWriteable)."""
        return bool(self.perm & _WRITE)

    @property
    def readable(self) -> bool:
        """Whether consumers may pull (RocketMQ: PermName.isReadable)."""
        return bool(self.perm & _READ)


def in_order(rows: Iterable[QueueData]) -> tuple[QueueData, ...]:
    """Return the rows of a topic in their one order, by broker name: where a row stood says nothing.

    RocketMQ's client sorts, too, before it compares routes (TopicRouteData.topicRouteDataChanged).
    """
    return tuple(sorted(rows, key=attrgetter("broker_name")))


@dataclass(frozen=True, slots=True)
class BrokerData:
    """The live addresses of one group of replicas, by broker id (RocketMQ: BrokerData)."""

    cluster: str
    broker_name: str
    broker_addrs: Mapping[int, str] = field(hash=False)
    zone_name: str = ""
    enable_acting_master: bool = False
    wiped: bool = False
    """An operator took the write permission of all its topics away, until it is given back."""

    filter_servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Address of a replica to its filter servers."""

    acting_id: int | None = None
    """The id of the slave that stands here as the master, with id 0; None = nobody stands in."""

    @property
    def master_address(self) -> str | None:
        """The address of the live master, or None."""
        return self.broker_addrs.get(MASTER_ID)

    @property
    def min_broker_id(self) -> int:
        """The lowest id that is alive: the master's, or the one that stands in for it."""
        return min(self.broker_addrs)

    @property
    def headless(self) -> bool:
        """Whether a slave stands in for a lost master: then nothing is to be written."""
        return self.enable_acting_master and MASTER_ID not in self.broker_addrs


@dataclass(frozen=True, slots=True)
class MemberTraits:
    """What a replica registered besides its address."""

    zone_name: str = ""
    enable_acting_master: bool = False
    filter_servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """The members that a broker name has, alive or not."""

    cluster: str
    broker_name: str
    broker_ids: tuple[int, ...]
    wiped: bool = False
    traits: Mapping[int, MemberTraits] = field(default_factory=dict, hash=False)
    """By broker id, of the members that have any."""


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Who holds a topic, and where (RocketMQ: TopicRouteData); only brokers with a live replica."""

    topic: str
    queue_datas: tuple[QueueData, ...]
    broker_datas: tuple[BrokerData, ...]


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The live brokers, by name and by cluster (RocketMQ: ClusterInfo)."""

    brokers: Mapping[str, BrokerData] = field(hash=False)
    clusters: Mapping[str, tuple[str, ...]] = field(hash=False)
    """Cluster to the names of its brokers, sorted."""


class TopicKind(StrEnum):
    """Which topics to list, by their system flags (RocketMQ: TopicSysFlag)."""

    ALL = "all"
    UNIT = "unit"
    UNIT_SUB = "unit-sub"
    UNIT_SUB_NOT_UNIT = "unit-sub-not-unit"


@dataclass(frozen=True, slots=True)
class Registration:
    """The proof that the caller owns a broker; heartbeat, unregister and the next register take it."""

    broker: Broker
    epoch: int
    """Issued by the store; a newer one fences every write that carries this one."""

    table_token: str
    """Names the last write to the broker's table; another token in the store = another owner's table."""

    topics: Mapping[str, TopicConfig] = field(repr=False)
    """The table as it was written; the next registration sends the difference to it."""

    complete: bool = True
    """Whether `topics` is the whole table; False when the registration was looked up instead of made."""

    corrupt_keys: tuple[str, ...] = ()
    """Keys that hold foreign data, which was left as it is.

    For a route index: its topic is not served. Others (`deadlines`, `brokers`, `topics`, `schema`, `changes`)
    were done without: the broker is served, but some readers may not learn of it.
    """

    master_address: str = ""
    """For a slave: the address of the live master, empty without one (RegisterBrokerResult)."""

    master_ha_address: str = ""
    """For a slave: where the live master replicates from."""

    filter_servers: tuple[str, ...] = ()
    """The filter servers in the store: those that were given, or else those of before."""


class LeaseStatus(StrEnum):
    """What a heartbeat found: after LEASE_LOST and TABLE_LOST, register again, now.

    If that raises StaleEpoch with an older epoch than the caller's, the store lost data: register without
    `held`.
    """

    OK = "ok"
    FENCED = "fenced"
    """Another owner has the broker: stop."""

    LEASE_LOST = "lease"
    """The lease has ended, or the store lost it."""

    TABLE_LOST = "table"
    """The lease was renewed, but the table in the store is not the one this owner wrote."""

    UNLISTED = "unlisted"
    """The lease was renewed, but a key that lists the broker holds foreign data: a registration names it."""


EXPIRED: Final = "expired"
"""The reason of a DOWN whose lease has ended by itself; any other reason was given by the owner."""


FORGOTTEN: Final = "forgotten"
"""The reason of a DOWN, under id 0, by which an operator forgets a broker with all its replicas."""


class ChangeKind(StrEnum):
    """What a record of the change stream is about."""

    TOPICS = "topics"
    UP = "up"
    DOWN = "down"
    WIPED = "wiped"
    """An operator took the write permission of a broker away."""

    LIFTED = "lifted"
    """An operator gave it back."""

    DELETED = "deleted"
    """An operator deleted a topic."""

    KV = "kv"
    """A key of the key-value store was written or removed."""

    SETTINGS = "settings"
    """An operator changed settings of a name server front."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One record of the change stream."""

    kind: ChangeKind
    broker_name: str = ""
    broker_id: int = MASTER_ID
    epoch: int = 0
    cluster: str = ""
    address: str = ""
    """With UP: the address clients use."""

    lease_ttl_ms: int | None = None
    """With UP: how long a heartbeat lasts; None = unknown (an older release, or a repair)."""

    lease_ended_ms: int | None = None
    """With a DOWN for EXPIRED: the server's time at which the lease ended, ms since 1970; None = unknown.

    For a lease that was deleted by hand it is when the lease would have ended.
    """

    reason: str = ""
    """With DOWN: why, as `unregistered`, or EXPIRED. With KV: `put`, `deleted`. With SETTINGS: the values."""

    by: str = ""
    """Who asked for it, where that is known: RegistryConfig.actor of whoever wrote it."""

    user: str = ""
    """The user of the store by whose rights it was written; empty = the default one, or unknown."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """With TOPICS: the topics of the broker that were added, changed, removed. With DELETED: the topic."""

    brokers: tuple[str, ...] = ()
    """With DELETED: the brokers that had the topic."""

    namespace: str = ""
    key: str = ""
    """With KV: what was written or removed."""

    change_id: str = ""
    """The id in the stream: `<ms>-<seq>` of the store's clock."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one sweep found: a look for leases that have ended."""

    held: bool
    """Whether another process sweeps at the moment: then nothing was looked at."""

    wait_s: float | None
    """Seconds until something can be due: a lease ends, or the other sweeper's does; None = no lease."""

    expired: tuple[tuple[str, int], ...] = ()
    """Broker name and id of the leases whose end was announced."""

    corrupt: tuple[CorruptData, ...] = ()
    """Keys that kept the end of other leases from being announced."""

    clock_ms: int | None = field(default=None, compare=False)
    """The server's clock at this look."""

    lease_before_ms: int | None = field(default=None, compare=False)
    """What was left of the sweeper's own lease when it looked; None = it had none."""

    lease_after_ms: int | None = field(default=None, compare=False)
    """What is left of it now: more, when the look renewed it."""


class MessageQueue(NamedTuple):
    """One queue to send to or to pull from (RocketMQ: MessageQueue), with the address to use."""

    topic: str
    broker_name: str
    queue_id: int
    address: str

    @property
    def host(self) -> str:
        """The host of `address`; an IPv6 one without its brackets, as sockets want it."""
        return split_address(self.address)[0]

    @property
    def port(self) -> int:
        """The port of `address`."""
        return split_address(self.address)[1]
