"""The shared table: model, store, errors."""

from .acl import Role, acl_rules
from .aiostore import AsyncRouteStore
from .config import RegistryConfig
from .differences import Difference, DifferenceKind, Mended, Progress
from .embedded import EmbeddedServer, embedded_redis
from .errors import (
    BrokerOwned,
    CorruptData,
    EmbeddedServerError,
    InvalidInput,
    NewerSchema,
    NotFound,
    RegistryError,
    StaleEpoch,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
)
from .following.aiofollower import AsyncFollower
from .following.core import FollowHealth, FollowItem, Idle, Reset, ResetReason
from .following.follower import Follower
from .health.report import Finding, HealthReport, Severity
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
from .plans import ChangePage, Lookup
from .store import RouteStore
from .sweeping import AsyncSweeper, Sweeper
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
    "Idle",
    "ImportSummary",
    "InvalidInput",
    "LeaseStatus",
    "Lookup",
    "Mended",
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
