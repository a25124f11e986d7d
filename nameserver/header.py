"""The fields of a request's header, by the types that RocketMQ gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..registry import Broker, InvalidInput
from ..registry.checks import check_address, whole_number
from ..remoting import RemotingCommand
from .config import DEFAULT_HEARTBEAT_TIMEOUT_MS

_ZONE_NAME: Final = "__ZONE_NAME"
_SHORTEST_MS: Final = 1_000
_LONGEST_MS: Final = 86_400_000
_NOTHING: Final[Mapping[str, str]] = {}


def text(request: RemotingCommand, name: str) -> str:
    """Return a field; raises InvalidInput when it is missing."""
    value = optional(request, name)
    if value is None:
        raise InvalidInput(f"{name}: the header lacks it")
    return value


def optional(request: RemotingCommand, name: str) -> str | None:
    """Return a field, or None when it is missing."""
    return (request.ext_fields or _NOTHING).get(name)


def number(request: RemotingCommand, name: str, default: int | None = None) -> int:
    """Return a field that is a whole number; raises InvalidInput when it is none, or is missing."""
    if default is not None and optional(request, name) is None:
        return default
    return whole_number(name, text(request, name))


def flag(request: RemotingCommand, name: str) -> bool | None:
    """Return a field that is true or false, as Java's Boolean.parseBoolean reads it; None = it is missing."""
    value = optional(request, name)
    return None if value is None else value.lower() == "true"


def broker_of(request: RemotingCommand, broker_id: int | None = None) -> Broker:
    """Return the replica that a request names, by its own words; raises InvalidInput.

    RocketMQ: RegisterBrokerRequestHeader, UnRegisterBrokerRequestHeader, QueryDataVersionRequestHeader.
    """
    timeout_ms = number(request, "heartbeatTimeoutMillis", DEFAULT_HEARTBEAT_TIMEOUT_MS)
    return Broker(
        text(request, "brokerName"),
        text(request, "brokerAddr"),
        number(request, "brokerId") if broker_id is None else broker_id,
        text(request, "clusterName"),
        _ha_address(request),
        zone_name=optional(request, _ZONE_NAME) or "",
        enable_acting_master=flag(request, "enableActingMaster"),
        heartbeat_timeout_ms=min(max(timeout_ms, _SHORTEST_MS), _LONGEST_MS),
    )


def _ha_address(request: RemotingCommand) -> str:
    """Return the address that slaves replicate from; empty for one that leads nowhere, as `null:10912`."""
    address = optional(request, "haServerAddr") or ""
    try:
        check_address("haServerAddr", address)
    except InvalidInput:
        return ""
    return address
