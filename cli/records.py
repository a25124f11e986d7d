"""What each command prints for programs: the fields of its records, as `json-schema` tells them.

A release may add fields. None is taken away, or changes its meaning, without a line in CHANGELOG.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import isfunction
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypedDict

from ..registry import ChangeKind
from ..registry.health.findings import Severity
from ..registry.health.readings import RegistryFacts, ServerFacts
from ..registry.history import Before, BrokerHistory, Column, TableAt, TopicHistory
from ..registry.history import Difference as DifferenceOfTimes
from ..registry.plans.repair.differences import DifferenceKind
from ..registry.plans.replicas import ReplicaState
from .doctor.finding import Level


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


class HealthFinding(TypedDict):
    """One thing that was looked at."""

    severity: Severity
    what: str
    text: str
    advice: str


class Health(TypedDict):
    """The report on a registry and its server."""

    severity: Severity
    namespace: str
    server: ServerFacts
    registry: RegistryFacts
    findings: list[HealthFinding]


class DoctorFinding(TypedDict):
    """One thing that was looked at, why it matters, and what to do; the last two are empty if it is well."""

    check: str
    level: Level
    what: str
    why: str
    advice: str


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


class Counts(TypedDict):
    """What an import did with things of one kind."""

    written: int
    unchanged: int
    refused: int


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


class Printed(NamedTuple):
    """What a command prints for programs."""

    record: Any
    """The type of a record, or the types of its fields by name; or a function that returns either."""

    is_list: bool = True
    """Whether there may be any number of records; else there is one."""

    @property
    def shape(self) -> Any:
        """The type of a record, or the types of its fields."""
        return self.record() if isfunction(self.record) else self.record


def _agent_page() -> Any:
    """Return the types of what an agent shows; raises ModuleNotFoundError without the extra `agent`."""
    from ..broker_agent.process.process_status import PAGE  # noqa: PLC0415 - and who asks an agent may lack it

    return PAGE


_TYPES: Final = {"bigint": int, "string": str, "array<string>": list[str]}
"""Of the columns of answers, as Spark's DDL names them."""


def _answer(columns: Iterable[Column]) -> Printed:
    return Printed({column.name: _TYPES[column.type] for column in columns})


PRINTED: Final = {
    "acl": Printed(AclLine, is_list=False),
    "agent-ctl master": Printed(AgentMaster),
    "agent-ctl status": Printed(_agent_page, is_list=False),
    "before": _answer(Before.columns),
    "brokers": Printed(BrokerAddresses | ReplicaEntry),
    "changes": Printed(ChangeRecord),
    "clusters": Printed(Cluster),
    "delete-topic": Printed(BrokerName),
    "diff": _answer(DifferenceOfTimes.columns),
    "doctor": Printed(DoctorFinding),
    "forget": Printed(ChangedBroker),
    "health": Printed(Health, is_list=False),
    "history broker": _answer(BrokerHistory.columns),
    "history topic": _answer(TopicHistory.columns),
    "import": Printed(Import, is_list=False),
    "kv delete": Printed(Removed, is_list=False),
    "kv get": Printed(Value, is_list=False),
    "kv list": Printed(Namespace | KeyValue),
    "kv put": Printed(Put, is_list=False),
    "leases": Printed(Lease),
    "lift": Printed(ChangedBroker),
    "profiles": Printed(ProfileEntry),
    "rebuild": Printed(Mended),
    "routes": Printed(Route),
    "table": _answer(TableAt.columns),
    "topics": Printed(Topic),
    "verify": Printed(Inconsistency),
    "wipe": Printed(ChangedBroker),
}
"""By the words of the command; those of `pipeline ask` print what the commands of the same name do."""
