"""What redis-py has to be told: the options of its pools, and of clients that ask where servers are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig

from ..config import RegistryConfig
from ..errors import InvalidInput
from .connect import Endpoint

_NO_RETRIES: Final = 0  # redis-py's own default is 10, which outlasts any deadline
_SHARE_OF_A_REPLICA: Final = 0.5
"""A replica may take this part of the call deadline: time is left to ask the primary instead."""


def pool_options(endpoint: Endpoint, config: RegistryConfig, *, replicas: bool) -> dict[str, Any]:
    """Return what a pool of redis-py needs to be bounded, and to wait for a free connection no longer.

    Addresses are not in it. Raises InvalidInput for a file of TLS that is not there.
    """
    share = _SHARE_OF_A_REPLICA if replicas else 1.0
    return {
        **_connection_options(endpoint, config),
        "max_connections": config.max_connections,
        "timeout": config.call_deadline_s * share,
        "socket_timeout": config.call_deadline_s * share,
        # A feature of Redis Enterprise; with it, redis-py does not look for replies that were left over.
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }


def server_options(endpoint: Endpoint, config: RegistryConfig, library: Any) -> dict[str, Any]:
    """Return what a pool for the one server of a URL needs; `library` is redis, or redis.asyncio."""
    options = pool_options(endpoint, config, replicas=False)
    if endpoint.path:
        return options | {"connection_class": library.UnixDomainSocketConnection, "path": endpoint.path}
    (address,) = endpoint.nodes
    kind = library.Connection if endpoint.tls is None else library.SSLConnection
    return options | {"connection_class": kind, "host": address.host, "port": address.port}


def asking_options(endpoint: Endpoint, config: RegistryConfig) -> dict[str, Any]:
    """Return what a client needs that asks a Sentinel, or a node of a Cluster, where others are."""
    options = _connection_options(endpoint, config) | {"db": 0, "socket_timeout": config.connect_deadline_s}
    if endpoint.service:
        options |= {"username": endpoint.sentinel_username, "password": endpoint.sentinel_password}
    if endpoint.tls is not None:
        options["ssl"] = True
    return options


def retry_arguments() -> tuple[NoBackoff, int]:
    """Return the arguments of a redis-py Retry that never tries again by itself."""
    return NoBackoff(), _NO_RETRIES


def _connection_options(endpoint: Endpoint, config: RegistryConfig) -> dict[str, Any]:
    """Return what a connection of redis-py to a data server needs, without its address."""
    options: dict[str, Any] = {
        "username": endpoint.username,
        "password": endpoint.password,
        "db": endpoint.database,
        "client_name": endpoint.client_name,
        "driver_info": None,  # after a restart all come at once: CLIENT SETINFO would be half of what is said
        "decode_responses": False,
        "socket_timeout": config.call_deadline_s,
        "socket_connect_timeout": config.connect_deadline_s,
        **_tls_options(endpoint),
    }
    return options if endpoint.protocol is None else {**options, "protocol": endpoint.protocol}


def _tls_options(endpoint: Endpoint) -> Mapping[str, Any]:
    tls = endpoint.tls or {}
    for name, value in tls.items():
        if name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile") and not Path(value).is_file():
            raise InvalidInput(f"Redis URL: {name}: there is no file {value}")
    return tls
