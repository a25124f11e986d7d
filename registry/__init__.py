"""The shared table: model, store, errors."""

from typing import TYPE_CHECKING

from .config import RegistryConfig
from .errors import (
    BrokerOwned,
    BrokerWithdrawn,
    CorruptData,
    EmbeddedServerError,
    InvalidInput,
    NewerSchema,
    NotFound,
    RegistryError,
    SeenLease,
    StaleEpoch,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
)
from .lazily import lazily
from .model import (
    EXPIRED,
    MASTER_ID,
    Broker,
    BrokerData,
    Change,
    ChangeKind,
    ClusterInfo,
    DataVersion,
    Group,
    LeaseStatus,
    MessageQueue,
    Perm,
    QueueData,
    QueueMapping,
    Registration,
    Sweep,
    TopicConfig,
    TopicKind,
    TopicRoute,
    topic_table,
)
from .plans import ChangePage, HistoryBounds, HistoryPage, Lookup, Progress

if TYPE_CHECKING:
    from .acl import Role, acl_rules
    from .change_stream.core import FollowHealth, FollowItem, Idle, Reset, ResetReason
    from .change_stream.follower import Follower
    from .change_stream.follower_async import AsyncFollower
    from .embedded import EmbeddedServer, embedded_redis
    from .health.report import Finding, HealthReport, Severity
    from .plans.repair.checks import Difference, DifferenceKind
    from .store import RouteStore
    from .store_async import AsyncRouteStore
    from .sweeper import Sweeper
    from .sweeper_async import AsyncSweeper
    from .transfer import Counts, ImportSummary, Refusal

__all__ = [
    "EXPIRED",
    "MASTER_ID",
    "AsyncFollower",
    "AsyncRouteStore",
    "AsyncSweeper",
    "Broker",
    "BrokerData",
    "BrokerOwned",
    "BrokerWithdrawn",
    "Change",
    "ChangeKind",
    "ChangePage",
    "ClusterInfo",
    "CorruptData",
    "Counts",
    "DataVersion",
    "Difference",
    "DifferenceKind",
    "EmbeddedServer",
    "EmbeddedServerError",
    "Finding",
    "FollowHealth",
    "FollowItem",
    "Follower",
    "Group",
    "HealthReport",
    "HistoryBounds",
    "HistoryPage",
    "Idle",
    "ImportSummary",
    "InvalidInput",
    "LeaseStatus",
    "Lookup",
    "MessageQueue",
    "NewerSchema",
    "NotFound",
    "Perm",
    "Progress",
    "QueueData",
    "QueueMapping",
    "Refusal",
    "Registration",
    "RegistryConfig",
    "RegistryError",
    "Reset",
    "ResetReason",
    "Role",
    "RouteStore",
    "SeenLease",
    "Severity",
    "StaleEpoch",
    "StoreRefused",
    "StoreTimeout",
    "StoreUnavailable",
    "Sweep",
    "Sweeper",
    "TopicConfig",
    "TopicKind",
    "TopicRoute",
    "acl_rules",
    "embedded_redis",
    "topic_table",
]

if not TYPE_CHECKING:  # a type checker would take every name for one of this package
    _LATER = {
        "AsyncFollower": "change_stream.follower_async",
        "AsyncRouteStore": "store_async",
        "AsyncSweeper": "sweeper_async",
        "Counts": "transfer",
        "Difference": "plans.repair.checks",
        "DifferenceKind": "plans.repair.checks",
        "EmbeddedServer": "embedded",
        "Finding": "health.report",
        "FollowHealth": "change_stream.core",
        "FollowItem": "change_stream.core",
        "Follower": "change_stream.follower",
        "HealthReport": "health.report",
        "Idle": "change_stream.core",
        "ImportSummary": "transfer",
        "Refusal": "transfer",
        "Reset": "change_stream.core",
        "ResetReason": "change_stream.core",
        "Role": "acl",
        "RouteStore": "store",
        "Severity": "health.report",
        "Sweeper": "sweeper",
        "acl_rules": "acl",
        "embedded_redis": "embedded",
    }
    __getattr__, __dir__ = lazily(__name__, __all__, _LATER)
