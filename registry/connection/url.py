"""Store URLs: which servers one names, and the options of redis-py that follow; nothing here connects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.maint_notifications import MaintNotificationsConfig

from ..checks import check_address
from ..config import RegistryConfig
from ..errors import InvalidInput

_FORMS: Final = (
    "redis[s]://[user:password@]host[:port][/db], unix://[user:password@]/path/to/socket[?db=], "
    "redis[s]+sentinel://[user:password@]host:port[,host:port...]/service[/db] or "
    "redis[s]+cluster://[user:password@]host:port[,host:port...]"
)
"""What a store URL may look like, for help texts."""


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int


class Mode(Enum):
    """How the server that takes the writes is found."""

    STANDALONE = "standalone"
    """It is the one that the URL names."""

    SENTINEL = "sentinel"
    """The Sentinels that the URL names know it."""

    CLUSTER = "cluster"
    """It is the owner of the registry's slot, which every node knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The contents of a store URL."""

    mode: Mode
    nodes: tuple[Address, ...] = ()
    """The server, the Sentinels, or some nodes of the Cluster; empty with a unix socket."""

    path: str = ""
    """The unix socket."""

    service: str = ""
    """What the Sentinels call the primary and its replicas."""

    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    tls: Mapping[str, Any] | None = None
    """The options of redis-py's SSLConnection; None without TLS."""

    replicas: tuple[Address, ...] = ()
    """The replicas that the URL names; those of a Sentinel service or a Cluster are looked up."""

    client_name: str | None = None
    protocol: int | None = None


NO_RETRIES: Final = (NoBackoff(), 0)
"""The arguments of redis-py's Retry; by default it tries ten times, which outlasts any deadline."""

_SHARE_OF_A_REPLICA: Final = 0.5
"""The part of the call deadline that a replica may take; the rest is for asking the primary instead."""

_SCHEME: Final = re.compile(r"(?:redis(s?)(?:\+(sentinel|cluster))?|(unix))", re.IGNORECASE)
_REST: Final = re.compile(r"([^/?#]*)([^?#]*)(?:\?([^#]*))?(#.*)?", re.DOTALL)
_DEFAULT_PORTS: Final = {Mode.STANDALONE: 6379, Mode.CLUSTER: 6379, Mode.SENTINEL: 26379}
_LAST_DATABASE: Final = 2**31 - 1

_COMMON: Final = ("client_name", "protocol")
_CREDENTIALS: Final = ("username", "password")
_OF_SENTINELS: Final = ("sentinel_username", "sentinel_password")
_FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_TLS: Final = (*_FILES, "ssl_cert_reqs", "ssl_check_hostname")
_VALUES: Final[Mapping[str, Mapping[str, Any]]] = {
    "protocol": {"2": 2, "3": 3},
    "ssl_cert_reqs": {name: name for name in ("none", "optional", "required")},
    "ssl_check_hostname": {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False},
}
"""What the options that are no free text may say, and what that means to redis-py."""


def parse_url(url: str) -> Endpoint:
    """Return the contents of a store URL; raise InvalidInput, which never shows a password."""
    scheme, separator, rest = url.partition("://")
    named = _SCHEME.fullmatch(scheme)
    if named is None or not separator:
        raise _wrong(f"expected {_FORMS}")
    authority, path, query, fragment = _parts(rest)
    if fragment or (authority and "@" in path + query and "@" not in authority):
        raise _wrong("a / ? # or % in a password or a name must be percent-encoded, as in %2F")
    mode = Mode(named[2].lower()) if named[2] else Mode.STANDALONE
    options = _options(query, _allowed(mode, unix=bool(named[3]), tls=bool(named[1])))
    credentials, _, hosts = authority.rpartition("@")
    user, _, password = credentials.partition(":")
    common: dict[str, Any] = {
        "mode": mode,
        "username": unquote(user) or options.get("username"),
        "password": unquote(password) or options.get("password"),
        "client_name": options.get("client_name"),
        "protocol": options.get("protocol"),
        "tls": _tls(options) if named[1] else None,
    }
    if named[3]:
        return Endpoint(**common, path=_socket(hosts, path), database=_database(options.get("db", "")))
    if mode is Mode.STANDALONE and "," in hosts:
        raise _wrong("several hosts: say whether they are Sentinels or a Cluster, as in redis+cluster://")
    common["nodes"] = tuple(_addresses(hosts, mode))
    if mode is Mode.SENTINEL:
        return _of_sentinels(common, path, options)
    database = _database(options.get("db", path.removeprefix("/")))
    if mode is Mode.CLUSTER and database:
        raise _wrong("a Cluster has only the database 0")
    replicas = tuple(_addresses(options["replica"], mode)) if "replica" in options else ()
    return Endpoint(**common, database=database, replicas=replicas)


def slot_of(prefix: str) -> int:
    """Return the slot of a Redis Cluster that holds all keys with this hash tag."""
    return key_slot(prefix.encode())


def _of_sentinels(common: dict[str, Any], path: str, options: Mapping[str, Any]) -> Endpoint:
    service, _, database = path.removeprefix("/").partition("/")
    if not service:
        raise _wrong("the name of the Sentinels' service is missing, as in redis+sentinel://host:26379/name")
    return Endpoint(
        **common,
        service=unquote(service),
        database=_database(options.get("db", database)),
        sentinel_username=options.get("sentinel_username"),
        sentinel_password=options.get("sentinel_password"),
    )


def _wrong(what: str) -> InvalidInput:
    return InvalidInput(f"Redis URL: {what}")


def _parts(rest: str) -> tuple[str, str, str, str]:
    match = _REST.fullmatch(rest)
    assert match is not None  # noqa: S101 - every part may be empty, so that it always matches
    authority, path, query, fragment = match.groups(default="")
    return authority, path, query, fragment


def _allowed(mode: Mode, *, unix: bool, tls: bool) -> tuple[str, ...]:
    """Return the query options that a URL of this kind may have."""
    names = _COMMON + (_TLS if tls else ())
    if unix:
        return (*names, *_CREDENTIALS, "db")
    if mode is Mode.SENTINEL:
        return (*names, *_OF_SENTINELS, "db")
    return names if mode is Mode.CLUSTER else (*names, "db", "replica")


def _options(query: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    """Return the query options, `replica` as one list; raise InvalidInput for one that is not allowed."""
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in allowed:
            shown = name if re.fullmatch(r"\w{1,40}", name) else "that"
            raise _wrong(f"the option {shown} is not one of {', '.join(sorted(allowed))}")
        if name in options and name != "replica":
            raise _wrong(f"the option {name} is given twice")
        values = _VALUES.get(name)
        if values is not None and value.lower() not in values:
            raise _wrong(f"the option {name} must be one of {', '.join(values)}")
        given = value if values is None else values[value.lower()]
        options[name] = f"{options[name]},{given}" if name in options else given
    return options


def _addresses(hosts: str, mode: Mode) -> Iterator[Address]:
    several = hosts.split(",")
    if mode is Mode.STANDALONE and hosts == "":
        several = ["localhost"]
    for host in several:
        has_port = re.search(r":[^\]]*$", host) is not None
        name, _, port = host.rpartition(":") if has_port else (host, "", str(_DEFAULT_PORTS[mode]))
        if not port.isdecimal():  # this may be a password whose host was forgotten: do not show it
            raise _wrong(f"the port of {name!r} is no number")
        check_address("Redis URL", f"{name}:{port}")
        yield Address(name.strip("[]"), int(port))


def _socket(hosts: str, path: str) -> str:
    if hosts or not path.startswith("/") or path == "/":
        raise _wrong("expected the path of a socket, as in unix:///run/redis.sock")
    return unquote(path)


def _database(text: str) -> int:
    if text == "":
        return 0
    if not (text.isascii() and text.isdecimal()) or int(text) > _LAST_DATABASE:
        raise _wrong("the database is no number from 0 on")
    return int(text)


def _tls(options: Mapping[str, Any]) -> dict[str, Any]:
    files = {name: options[name] for name in _FILES if name in options}
    if "ssl_keyfile" in files and "ssl_certfile" not in files:
        raise _wrong("ssl_keyfile needs ssl_certfile, the certificate that the key is for")
    requirement = options.get("ssl_cert_reqs", "required")
    check = options.get("ssl_check_hostname", requirement == "required")
    if check and requirement == "none":
        raise _wrong("ssl_check_hostname=true needs a certificate, so not ssl_cert_reqs=none")
    return {**files, "ssl_cert_reqs": requirement, "ssl_check_hostname": check}


def pool_options(endpoint: Endpoint, config: RegistryConfig, *, replicas: bool) -> dict[str, Any]:
    """Return the options of a bounded pool, without addresses.

    A caller waits for a free connection as long as for an answer. Raises InvalidInput for a missing file of
    TLS.
    """
    share = _SHARE_OF_A_REPLICA if replicas else 1.0
    return {
        **_connection_options(endpoint, config),
        "max_connections": config.max_connections,
        "timeout": config.call_deadline_s * share,
        "socket_timeout": config.call_deadline_s * share,
        # A feature of Redis Enterprise; with it, redis-py does not check for replies that were left over.
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }


def server_options(endpoint: Endpoint, config: RegistryConfig, library: Any) -> dict[str, Any]:
    """Return the options of a pool for the one server of a URL; `library` is redis, or redis.asyncio."""
    options = pool_options(endpoint, config, replicas=False)
    if endpoint.path:
        return options | {"connection_class": library.UnixDomainSocketConnection, "path": endpoint.path}
    (address,) = endpoint.nodes
    kind = library.Connection if endpoint.tls is None else library.SSLConnection
    return options | {"connection_class": kind, "host": address.host, "port": address.port}


def asking_options(endpoint: Endpoint, config: RegistryConfig) -> dict[str, Any]:
    """Return the options of a client that asks a Sentinel, or a node of a Cluster, for addresses."""
    options = _connection_options(endpoint, config) | {"db": 0, "socket_timeout": config.connect_deadline_s}
    if endpoint.service:
        options |= {"username": endpoint.sentinel_username, "password": endpoint.sentinel_password}
    if endpoint.tls is not None:
        options["ssl"] = True
    return options


def _connection_options(endpoint: Endpoint, config: RegistryConfig) -> dict[str, Any]:
    """Return the options of a connection to a data server, without its address."""
    options: dict[str, Any] = {
        "username": endpoint.username,
        "password": endpoint.password,
        "db": endpoint.database,
        "client_name": endpoint.client_name,
        "driver_info": None,  # CLIENT SETINFO: twice the commands when all connect after a restart
        "decode_responses": False,
        "socket_timeout": config.call_deadline_s,
        "socket_connect_timeout": config.connect_deadline_s,
        **_tls_options(endpoint),
    }
    return options if endpoint.protocol is None else {**options, "protocol": endpoint.protocol}


def _tls_options(endpoint: Endpoint) -> Mapping[str, Any]:
    tls = endpoint.tls or {}
    for name, value in tls.items():
        if name in _FILES and not Path(value).is_file():
            raise InvalidInput(f"Redis URL: {name}: there is no file {value}")
    return tls
