"""Route lookups, local cache, queue selection, fault tolerance."""

from typing import TYPE_CHECKING

from ..registry.config import RegistryConfig
from ..registry.errors import (
    CorruptData,
    InvalidInput,
    NewerSchema,
    RegistryError,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
)
from ..registry.lazy_imports import lazy_imports
from ..registry.model import MessageQueue
from ..remoting.codes import ResponseCode
from .attempts.attempt import AsyncAttempt, AsyncSending, Attempt, Sending
from .attempts.policy import (
    NETWORK_ERRORS,
    NOT_STORED_CODES,
    ONE_WAY_POLICY,
    RETRYABLE_CODES,
    RETRYABLE_CODES_4,
    ROCKETMQ_4_POLICY,
    ROCKETMQ_POLICY,
    RetryPolicy,
)
from .brokers import HintConfig
from .config import PRESETS, ClientConfig, Preset
from .errors import AttemptsFailed, BrokerRefused, Failure, NoRoute, NotStored
from .faults.config import LADDER, LADDER_4, FaultConfig, Ladder
from .observers import Observer
from .observers.state import FaultState, Health, HeldLoss
from .routes import Route, RouteChange
from .selection import RoundRobin, Strategy, Weighted, ZoneAware

if TYPE_CHECKING:
    from .route_client import RouteClient
    from .route_client_async import AsyncRouteClient
else:  # imported when they are first asked for, each with its store: redis-py takes most of the time
    __getattr__, __dir__ = lazy_imports(
        __name__, {"AsyncRouteClient": "route_client_async", "RouteClient": "route_client"}
    )

__all__ = [
    "LADDER",
    "LADDER_4",
    "NETWORK_ERRORS",
    "NOT_STORED_CODES",
    "ONE_WAY_POLICY",
    "PRESETS",
    "RETRYABLE_CODES",
    "RETRYABLE_CODES_4",
    "ROCKETMQ_4_POLICY",
    "ROCKETMQ_POLICY",
    "AsyncAttempt",
    "AsyncRouteClient",
    "AsyncSending",
    "Attempt",
    "AttemptsFailed",
    "BrokerRefused",
    "ClientConfig",
    "CorruptData",
    "Failure",
    "FaultConfig",
    "FaultState",
    "Health",
    "HeldLoss",
    "HintConfig",
    "InvalidInput",
    "Ladder",
    "MessageQueue",
    "NewerSchema",
    "NoRoute",
    "NotStored",
    "Observer",
    "Preset",
    "RegistryConfig",
    "RegistryError",
    "ResponseCode",
    "RetryPolicy",
    "RoundRobin",
    "Route",
    "RouteChange",
    "RouteClient",
    "Sending",
    "StoreRefused",
    "StoreTimeout",
    "StoreUnavailable",
    "Strategy",
    "Weighted",
    "ZoneAware",
]
