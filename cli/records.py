"""The fields of the records that commands print for programs; json_schema.py says which command prints which.

A release may add fields. None is taken away, or changes its meaning, without a line in CHANGELOG.md.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from ..registry import ChangeKind
from ..registry.health.findings import Finding, Severity
from ..registry.health.readings import RegistryFacts, ServerFacts
from ..registry.plans.export_import import Counts
from ..registry.plans.repair.differences import DifferenceKind
from ..registry.plans.replicas import ReplicaState


class Topic(TypedDict):
    """One topic that a live broker holds."""

    topic: str


class BrokerAddresses(TypedDict):
    """The live replicas of one broker, in RocketMQ's terms (BrokerData)."""

    cluster: str
    brokerName: str
    brokerAddrs: dict[str, str]
    zoneName: NotRequired[str]
    enableActingMaster: NotRequired[bool]
    writePermWiped: NotRequired[bool]


class Queues(TypedDict):
    """The queues of a topic on one broker, in RocketMQ's terms (QueueData)."""

    brokerName: str
    readQueueNums: int
    writeQueueNums: int
    perm: int
    topicSysFlag: int


class Route(TypedDict):
    """Who holds a topic, and where, in RocketMQ's terms (TopicRouteData)."""

    topic: str
    queueDatas: list[Queues]
    brokerDatas: list[BrokerAddresses]


class ReplicaEntry(TypedDict):
    """One replica, alive or not; times are of the store's clock, null = not known."""

    cluster: str
    brokerName: str
    brokerId: int
    address: str
    state: ReplicaState
    sinceMs: int | None
    reason: str
    leaseTtlMs: int | None
    leaseLeftMs: int | None
    topics: int
    zoneName: str
    writePermWiped: bool


class Cluster(TypedDict):
    """One cluster, with the names of its brokers."""

    cluster: str
    brokerNames: list[str]
    liveReplicas: int
    deadReplicas: int
    withdrawnReplicas: int
    withoutMaster: list[str]
    writePermWiped: list[str]
    topics: int


class Lease(TypedDict):
    """One lease that runs; null = not known."""

    cluster: str
    brokerName: str
    brokerId: int
    address: str
    epoch: int | None
    holder: Literal["agent", "fronts"]
    leaseTtlMs: int | None
    leaseLeftMs: int | None
    leaseEndsMs: int | None


class BrokerName(TypedDict):
    """One broker."""

    brokerName: str


class ChangedBroker(TypedDict):
    """One broker that was changed, and how many topics it has."""

    brokerName: str
    topics: int


class Namespace(TypedDict):
    """One namespace of the key-value store."""

    namespace: str


class KeyValue(TypedDict):
    """One key of a namespace with its value."""

    key: str
    value: str


class Value(KeyValue):
    """One key with its value, and where it is."""

    namespace: str


class Put(TypedDict):
    """Whether a value was changed."""

    changed: bool


class Removed(TypedDict):
    """Whether there was a value to remove."""

    removed: bool


class ChangeRecord(TypedDict):
    """One entry of the change stream, as it stands there; what does not apply is left out."""

    changeId: str
    kind: ChangeKind
    broker: NotRequired[str]
    id: NotRequired[int]
    epoch: NotRequired[int]
    cluster: NotRequired[str]
    address: NotRequired[str]
    ttl: NotRequired[int]
    ended: NotRequired[int]
    reason: NotRequired[str]
    by: NotRequired[str]
    user: NotRequired[str]
    added: NotRequired[list[str]]
    changed: NotRequired[list[str]]
    removed: NotRequired[list[str]]
    brokers: NotRequired[list[str]]
    namespace: NotRequired[str]
    key: NotRequired[str]


class Health(TypedDict):
    """The report on a registry and its server."""

    severity: Severity
    namespace: str
    server: ServerFacts
    registry: RegistryFacts
    findings: list[Finding]


class Inconsistency(TypedDict):
    """One difference between the registry and its design."""

    kind: DifferenceKind
    key: str
    text: str
    mendable: bool
    brokerName: str
    brokerId: int | None
    topic: str


class Mended(Inconsistency):
    """One difference, and what became of it."""

    mended: bool
    why: str


class NotImported(TypedDict):
    """One line that was not imported."""

    line: str
    what: str
    reason: str


class Import(TypedDict):
    """The result of an import."""

    brokers: Counts
    topics: Counts
    kv: Counts
    notImported: list[NotImported]


class AclLine(TypedDict):
    """The line that makes a user of the store."""

    role: str
    namespace: str
    line: str


class ProfileEntry(TypedDict):
    """One profile; its URL is without the password."""

    profile: str
    isDefault: bool
    redis: str
    namespace: str
    agents: list[str]
    fronts: list[str]


class AgentMaster(TypedDict):
    """Where the master of an agent's broker is; empty = none is alive, null = the broker is no slave."""

    name: str
    role: str
    master_address: str | None
    master_ha_address: str | None


class ToldBroker(TypedDict):
    """One broker that an agent was told to take out of the registry, or to bring back."""

    action: Literal["drain", "pause", "resume"]
    name: str


class ReloadProblem(TypedDict):
    """One thing of its files that an agent could not apply."""

    problem: str


class LoadedBroker(TypedDict):
    """What a load did with the topics of one broker, or would do; `refused`: why not all was written."""

    brokerName: str
    added: int
    changed: int
    removed: int
    unchanged: int
    refused: str
    dryRun: bool


class CompactedDay(TypedDict):
    """One day of a table that is one folder now, or that was dropped: then nothing else is known of it."""

    table: str
    day: str
    done: Literal["compacted", "dropped"]
    rows: int | None
    folders: int | None
    bytesBefore: int | None
    bytesAfter: int | None


class Ingested(TypedDict):
    """What one run of an ingest has kept."""

    changes: int
    batches: int
    setAside: int


class WrittenReport(TypedDict):
    """Where a report is, up to when it judged, and how many topics missed the objective, or will soon."""

    page: str
    until: str
    missed: int
    burning: int
