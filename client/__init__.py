"""Route lookups, local cache, queue selection, fault tolerance."""

from .aio_route_client import AsyncRouteClient
from .attempts import (
    NETWORK_ERRORS,
    NOT_STORED_CODES,
    ONE_WAY_POLICY,
    RETRYABLE_CODES,
    RETRYABLE_CODES_4,
    ROCKETMQ_4_POLICY,
    ROCKETMQ_POLICY,
    AsyncSending,
    ResponseCode,
    RetryPolicy,
    Sending,
)
from .config import ClientConfig
from .errors import AttemptsFailed, BrokerRefused, Failure, NoRoute, NotStored
from .faults import LADDER, LADDER_4, FaultConfig, FaultState, Ladder
from .hints import HintConfig
from .observing import Observer
from .presets import PRESETS, Preset
from .route import Route, RouteChange
from .route_client import RouteClient
from .selection import RoundRobin, Strategy, Weighted, ZoneAware
from .trust import Health

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
    "AsyncRouteClient",
    "AsyncSending",
    "AttemptsFailed",
    "BrokerRefused",
    "ClientConfig",
    "Failure",
    "FaultConfig",
    "FaultState",
    "Health",
    "HintConfig",
    "Ladder",
    "NoRoute",
    "NotStored",
    "Observer",
    "Preset",
    "ResponseCode",
    "RetryPolicy",
    "RoundRobin",
    "Route",
    "RouteChange",
    "RouteClient",
    "Sending",
    "Strategy",
    "Weighted",
    "ZoneAware",
]
