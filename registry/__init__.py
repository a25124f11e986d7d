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
from .lazy_imports import lazy_imports
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
    from .change_stream.core import Idle, Reset
    from .embedded import EmbeddedServer, embedded_redis
    from .store import RouteStore
    from .store_async import AsyncRouteStore
    from .sweeper import Sweeper
    from .sweeper_async import AsyncSweeper
else:  # imported when they are first asked for: redis-py takes long, and nobody needs all of them
    __getattr__, __dir__ = lazy_imports(
        __name__,
        {
            "AsyncRouteStore": "store_async",
            "AsyncSweeper": "sweeper_async",
            "EmbeddedServer": "embedded",
            "Idle": "change_stream.core",
            "Reset": "change_stream.core",
            "RouteStore": "store",
            "Sweeper": "sweeper",
            "embedded_redis": "embedded",
        },
    )

__all__ = [
    "EXPIRED",
    "MASTER_ID",
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
    "DataVersion",
    "EmbeddedServer",
    "EmbeddedServerError",
    "Group",
    "HistoryBounds",
    "HistoryPage",
    "Idle",
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
    "Registration",
    "RegistryConfig",
    "RegistryError",
    "Reset",
    "RouteStore",
    "SeenLease",
    "StaleEpoch",
    "StoreRefused",
    "StoreTimeout",
    "StoreUnavailable",
    "Sweep",
    "Sweeper",
    "TopicConfig",
    "TopicKind",
    "TopicRoute",
    "embedded_redis",
    "topic_table",
]
