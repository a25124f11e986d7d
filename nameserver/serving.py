"""The sockets of a process: where it listens, and what serves there, made from the settings."""

from __future__ import annotations

import logging
import resource
import socket
from collections.abc import Sequence
from typing import Final, Protocol

from ..daemon.http_server import AddressTaken
from .access import networks
from .process_config import ProcessConfig
from .server.connection import QuickAnswers, Service
from .server.limits import OTHER_CODES, Counters, Limits
from .server.listener import RemotingServer
from .server.tls import Tls, TlsFiles
from .settings import Settings

_LOG: Final = logging.getLogger("sharedroutes.nameserver")

_OTHER: Final = "other"
_OTHER_DESCRIPTORS: Final = 256
"""For the store, the pages, files, and whoever is refused."""


def room_for_connections(settings: Settings) -> int:
    """Return how many connections there may be: each is an open file, whose limit is raised if possible."""
    wanted = settings.process.max_connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = wanted + _OTHER_DESCRIPTORS
    if resource.RLIM_INFINITY != soft < files:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= files:
        return wanted
    found = max(1, soft - _OTHER_DESCRIPTORS)
    level = logging.INFO if settings.values["max_connections"].is_default else logging.WARNING
    text = "at most %d connections, not %d: the system allows %d open files (LimitNOFILE, ulimit -n)"
    _LOG.log(level, text, found, wanted, soft)
    return found


def bound_socket(process: ProcessConfig, *, shared: bool = False) -> socket.socket:
    """Return a socket at the address to listen at, which workers may share; raises AddressTaken."""
    host, port = process.listen_address
    found: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found.bind(address)
    except (OSError, UnicodeError) as error:  # the latter: no name of a host can be written so
        if found is not None:
            found.close()
        why = getattr(error, "strerror", None) or error
        raise AddressTaken(f"cannot listen at {process.listen}: {why}") from error
    return found


def address_text(listening: socket.socket) -> str:
    """Return the address of a socket as `host:port`."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def tls_of(process: ProcessConfig) -> Tls:
    """Return the certificates in use; raises InvalidInput for files that cannot be used."""
    if process.tls_cert is None:
        return Tls(process.tls_mode)
    files = TlsFiles(
        certificate=process.tls_cert,
        key=process.tls_key,
        client_ca=process.tls_client_ca,
        client_auth=process.tls_client_auth,
    )
    return Tls(process.tls_mode, files)


class QuickService(Service, QuickAnswers, Protocol):
    """What answers, and knows requests by their bytes."""


def server_of(
    service: QuickService, settings: Settings, listening: socket.socket, tls: Tls
) -> RemotingServer:
    """Return what serves RocketMQ's protocol at a socket, within the limits of the settings."""
    process = settings.process
    limits = Limits(
        connections=room_for_connections(settings),
        connections_per_host=process.max_connections_per_host,
        idle_s=process.idle_s,
        first_byte_s=process.idle_s,
    )
    return RemotingServer(
        service,
        listening,
        limits=limits,
        tls=tls,
        trusted_proxies=networks(process.proxy_from),
        quick=service,
    )


def counter_samples(counters: Counters) -> dict[str, list[tuple[Sequence[str], float]]]:
    """Return what a server has counted, by the names of the families."""
    numbers = {
        "connections": counters.connections,
        "accepted_total": counters.accepted,
        "in_flight": counters.in_flight,
        "busy_total": counters.busy,
        "failures_total": counters.failures,
        "decode_errors_total": counters.decode_errors,
        "received_bytes_total": counters.bytes_in,
        "sent_bytes_total": counters.bytes_out,
        "unread_bytes": counters.unread_bytes,
    }
    found: dict[str, list[tuple[Sequence[str], float]]] = {
        name: [((), float(number))] for name, number in numbers.items()
    }
    found["endings_total"] = [((str(why),), float(number)) for why, number in counters.endings.items()]
    found["requests_total"] = [
        ((_OTHER if code == OTHER_CODES else f"{code:d}",), float(number))
        for code, number in counters.requests.items()
        if number
    ]
    return found
