"""The shared table: model, store, errors."""

from .aiostore import AsyncRouteStore
from .config import RegistryConfig
from .embedded import EmbeddedServer, embedded_redis
from .errors import (
    BrokerOwned,
    CorruptData,
    EmbeddedServerError,
    InvalidInput,
    RegistryError,
    StaleEpoch,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
)
from .model import (
    EXPIRED,
    MASTER_ID,
    Broker,
    BrokerData,
    Change,
    ChangeKind,
    DataVersion,
    Group,
    LeaseStatus,
    MessageQueue,
    Perm,
    QueueData,
    Registration,
    Sweep,
    TopicConfig,
    TopicRoute,
    topic_table,
)
from .plans import ChangePage, Lookup
from .store import RouteStore

__all__ = [
    "EXPIRED",
    "MASTER_ID",
    "AsyncRouteStore",
    "Broker",
    "BrokerData",
    "BrokerOwned",
    "Change",
    "ChangeKind",
    "ChangePage",
    "CorruptData",
    "DataVersion",
    "EmbeddedServer",
    "EmbeddedServerError",
    "Group",
    "InvalidInput",
    "LeaseStatus",
    "Lookup",
    "MessageQueue",
    "Perm",
    "QueueData",
    "Registration",
    "RegistryConfig",
    "RegistryError",
    "RouteStore",
    "StaleEpoch",
    "StoreRefused",
    "StoreTimeout",
    "StoreUnavailable",
    "Sweep",
    "TopicConfig",
    "TopicRoute",
    "embedded_redis",
    "topic_table",
]
