"""Route lookups, local cache, queue selection, fault tolerance."""

from .aio_route_client import AsyncRouteClient
from .attempts import NETWORK_ERRORS, RetryPolicy
from .config import ClientConfig
from .core import Health
from .errors import AttemptsFailed, Failure, NoRoute
from .faults import Ladder
from .route_client import RouteClient

__all__ = [
    "NETWORK_ERRORS",
    "AsyncRouteClient",
    "AttemptsFailed",
    "ClientConfig",
    "Failure",
    "Health",
    "Ladder",
    "NoRoute",
    "RetryPolicy",
    "RouteClient",
]
