"""Finds out that clients cannot reach the broker at the address that they are told."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncGenerator, Iterable
from typing import Final, TypeAlias

from ...registry.checks import split_address
from ...registry.connection.url import parse_url
from ...remoting.broker.client import BrokerCallError, BrokerClient

Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_ADVICE: Final = "set brokerIP1 in broker.conf, or --broker-address, to an address at which clients reach it"
_LOCALHOST: Final = "localhost"
_LOOPBACK: Final = "127.0.0.1"


class _Undecided(Exception):
    """Nothing can be told now, for example because the broker does not run."""


async def findings(
    address: str,
    probe: str,
    *,
    store_url: str = "",
    every_s: float = 30.0,
    deadline_s: float = 1.0,
) -> AsyncGenerator[str | None, None]:
    """Yield what is wrong with `address`, which clients are told, and what to do; None = nothing.

    The first finding is yielded, then every change of it. Every `every_s` seconds `address` has to accept a
    connection within `deadline_s` seconds; while `probe`, or if that is the same the loopback interface, does
    not either, that says nothing. Other hosts may reach what cannot be reached from here, so a finding is a
    warning and no more.
    """
    store_is_remote = bool(store_url) and is_remote(store_url)
    known: tuple[str | None] | None = None
    while True:
        try:
            found = await _look(address, probe, deadline_s, store_is_remote=store_is_remote)
        except _Undecided:
            pass
        else:
            if known != (found,):
                known = (found,)
                yield found
        await asyncio.sleep(every_s)


def is_remote(store_url: str) -> bool:
    """Whether the store is on another host, so that clients may be, too; raises InvalidInput."""
    return any(not _is_loopback(node.host) for node in parse_url(store_url).nodes)


def suspicion(address: str, ips: Iterable[Ip], *, store_is_remote: bool) -> str | None:
    """Return why no other host can reach an address with these IPs, and what to do; None = one can."""
    each = list(ips)
    if not each:
        return None
    if all(ip.is_unspecified for ip in each):
        return f"{address}: clients are told this, which means every address of a host and none: {_ADVICE}"
    if all(ip.is_link_local for ip in each):
        return f"{address}: clients are told this link-local address, known on one link alone: {_ADVICE}"
    if store_is_remote and all(ip.is_loopback for ip in each):
        return (
            f"{address}: clients are told this, and those on other hosts would look for the broker on their "
            f"own; the store is on another host too: {_ADVICE}"
        )
    return None


async def _look(address: str, probe: str, deadline_s: float, *, store_is_remote: bool) -> str | None:
    """Return what is wrong now, or None; raises _Undecided."""
    odd = suspicion(address, await _ips(address, deadline_s), store_is_remote=store_is_remote)
    if odd is not None or await _failure(address, deadline_s) is None:
        return odd
    # Looked for where clients look for it, a broker that listens elsewhere counts as gone.
    local = f"{_LOOPBACK}:{split_address(address)[1]}"
    here, advice = (probe, _ADVICE) if address != probe else (local, f"{_ADVICE}; or --probe {local}")
    if here == address or await _failure(here, deadline_s) is not None:
        raise _Undecided
    # Once more, since the broker may have started in between.
    failure = await _failure(address, deadline_s)
    if failure is None:
        return None
    return f"{failure}; clients are told this address, and the broker is reached at {here}: {advice}"


async def _failure(address: str, deadline_s: float) -> BrokerCallError | None:
    """Return why no connection could be made, or None."""
    host, port = split_address(address)
    try:
        client = await BrokerClient.connect(host, port, deadline_s=deadline_s)
    except BrokerCallError as error:
        return error
    client.abort()
    return None


async def _ips(address: str, deadline_s: float) -> list[Ip]:
    """Return the IPs behind an address; none when they cannot be found out."""
    host, port = split_address(address)
    literal = _literal(host)
    if literal is not None:
        return [literal]
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(deadline_s):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # also TimeoutError; the connection that is tried next reports it
        return []
    return [ipaddress.ip_address(where[0]) for *_, where in found]


def _literal(host: str) -> Ip | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    literal = _literal(host.strip("[]"))
    return host == _LOCALHOST if literal is None else literal.is_loopback
