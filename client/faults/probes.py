"""Whether a broker can be reached: the probes that a detector uses if it is given no other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from ...registry.checks import check_address, split_address

Probe: TypeAlias = Callable[[str, float], bool | Awaitable[bool]]
"""Returns whether a broker can be reached at `host:port` within so many seconds; only asyncio awaits."""

_UNREACHABLE: Final = (OSError, UnicodeError)
"""Refused, timed out or without a route; or a host that cannot be a name."""


def tcp_probe(address: str, timeout_s: float) -> bool:
    """Return whether somebody accepts a connection at `host:port` within `timeout_s` seconds.

    The time to resolve a name comes on top. Raises InvalidInput for what is no address.
    """
    try:
        with socket.create_connection(_host_and_port(address), timeout_s):
            return True
    except _UNREACHABLE:
        return False


async def async_tcp_probe(address: str, timeout_s: float) -> bool:
    """Return the same as tcp_probe, without blocking the event loop."""
    host, port = _host_and_port(address)
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except _UNREACHABLE:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


def _host_and_port(address: str) -> tuple[str, int]:
    check_address("address", address)
    return split_address(address)
