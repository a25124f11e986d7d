"""What the process around a front does: where it listens, for whom, how it ends; units are in the names."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..daemon.option import PREFIX, Kind, options_of
from ..registry import InvalidInput, RegistryConfig
from ..registry.connection.url import parse_url
from .access import AllowList, networks
from .config import FRONT_OPTIONS, setting
from .server.tls import ClientAuth, TlsMode

DEFAULT_LISTEN: Final = "0.0.0.0:9876"
DEFAULT_HTTP: Final = "127.0.0.1:9878"
_LAST_PORT: Final = 65_535


def address_of(text: str, default_host: str = "0.0.0.0") -> tuple[str, int]:  # noqa: S104 - as mqnamesrv does
    """Return host and port of `[host:]port`, where port 0 is any free one; raises InvalidInput."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) <= _LAST_PORT):
        raise InvalidInput(f"{text!r:.80} is not [host:]port with a port within 0..{_LAST_PORT}")
    return host.strip("[]") or default_host, int(port)


def _check_http(text: str) -> None:
    if text != "off":
        address_of(text)


def _check_url(text: str) -> None:
    if text:
        parse_url(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """What one process does, but for how it answers; raises InvalidInput for values that do not fit."""

    listen: str = setting(
        DEFAULT_LISTEN,
        "Address at which brokers and clients connect. Port 0 = any free one, which is logged",
        placeholder="[HOST:]PORT",
        original="listenPort",
        also=address_of,
    )
    redis_url: str = setting(
        "",
        "The shared store: redis[s]://, redis[s]+sentinel://, redis[s]+cluster:// or unix://. Without it the "
        "front starts a server of its own, whose data end with the front",
        kind=Kind.URL,
        prefix=PREFIX,
        also=_check_url,
    )
    namespace: str = setting(
        RegistryConfig().namespace,
        "Registry in the store. Fronts of one cluster name the same one",
        prefix=PREFIX,
        also=lambda value: RegistryConfig(namespace=value),
    )
    call_deadline_s: float = setting(
        RegistryConfig().call_deadline_s, "Longest wait for one answer of the store", low=0.05
    )
    http: str = setting(
        DEFAULT_HTTP,
        "Address at which health, status and metrics are served; `off` = nowhere",
        kind=Kind.LISTEN,
        also=_check_http,
    )
    workers: int = setting(
        1,
        "Processes that share the port. One answers tens of thousands of requests per second; more help "
        "where there are more cores",
        unit="processes",
        low=1,
        high=64,
    )

    tls_mode: TlsMode = setting(
        TlsMode.PERMISSIVE,
        "Whether connections are encrypted. `disabled` = TLS is refused; `permissive` = both, on one port, "
        "once there is a certificate; `enforcing` = plain connections are refused",
        choices=tuple(TlsMode),
        original="tls.server.mode",
    )
    tls_cert: Path | None = setting(
        None, "The front's certificate (PEM). It is read anew when it changes", original="tls.server.certPath"
    )
    tls_key: Path | None = setting(
        None,
        "Key of that certificate, without a password. By default it is in the same file",
        original="tls.server.keyPath",
    )
    tls_client_ca: Path | None = setting(
        None,
        "Certificates (PEM) of the authorities that may vouch for whoever connects",
        original="tls.server.trustCertPath",
    )
    tls_client_auth: ClientAuth = setting(
        ClientAuth.NONE,
        "Whether whoever connects over TLS has to show a certificate",
        choices=tuple(ClientAuth),
        original="tls.server.need.client.auth",
    )
    proxy_from: str = setting(
        "",
        "Networks of load balancers that may send a PROXY header. It names the peer: in logs, in records, "
        "for `allow` and for the limit of a host. Without it nobody may; a connection that begins with one "
        "is closed",
        placeholder="NETWORK,...",
        joined_by=",",
        also=networks,
    )
    allow: str = setting(
        "",
        "Who may ask what, by network and request code: `10.0.0.0/8=*;0.0.0.0/0=105,106`. A request is "
        "answered if one of the rules allows it, else with NO_PERMISSION; without rules everybody may ask "
        "everything",
        placeholder="NETWORK=CODES;...",
        joined_by=";",
        also=AllowList,
    )
    max_connections: int = setting(
        20_000,
        "Connections of one process. More are closed at once",
        unit="connections",
        low=1,
        high=1_000_000,
    )
    max_connections_per_host: int = setting(
        10_000,
        "The same for one host, or for one client of a proxy that names it",
        unit="connections",
        low=1,
        high=1_000_000,
    )
    idle_s: float = setting(
        120.0,
        "Silence after which a connection is closed",
        low=1.0,
        original="serverChannelMaxIdleTimeSeconds",
    )
    drain_wait_s: float = setting(
        0.0,
        "Time between the first SIGTERM, when `/readyz` begins to say no, and the end of accepting. As long "
        "as a load balancer takes to notice",
    )
    drain_s: float = setting(
        10.0,
        "Longest wait for the answers that are under way, after the end of accepting",
        original="shutdownWaitTimeSeconds",
    )

    log_format: str = setting(
        "text",
        "Form of the log: lines for people, or one JSON object a line",
        choices=("text", "json"),
        is_live=True,
    )
    log_level: str = setting(
        "info",
        "Least level that is logged",
        choices=("debug", "info", "warning", "error"),
        is_live=True,
    )
    registry: RegistryConfig = field(init=False)
    """How the store is used."""

    def __post_init__(self) -> None:
        for one in _OPTIONS:
            one.check(getattr(self, one.attribute))
        if self.tls_mode is TlsMode.ENFORCING and self.tls_cert is None:
            raise InvalidInput("tls_cert: is missing: with tls_mode enforcing nobody could connect")
        if self.tls_client_auth is not ClientAuth.NONE and self.tls_client_ca is None:
            raise InvalidInput("tls_client_ca: is missing: no certificate of a client could be checked")
        if self.tls_key is not None and self.tls_cert is None:
            raise InvalidInput("tls_cert: is missing: tls_key is the key of one")
        actor = f"front at {socket.gethostname()}"
        registry = RegistryConfig(namespace=self.namespace, call_deadline_s=self.call_deadline_s, actor=actor)
        object.__setattr__(self, "registry", registry)

    @property
    def listen_address(self) -> tuple[str, int]:
        """Host and port to listen at."""
        return address_of(self.listen)

    @property
    def http_address(self) -> tuple[str, int] | None:
        """Host and port of the pages; None = they are off."""
        return None if self.http == "off" else address_of(self.http)


_OPTIONS: Final = tuple(options_of(ProcessConfig))

OPTIONS: Final = (*_OPTIONS, *FRONT_OPTIONS)
"""Every setting of `sharedroutes nameserver`, in the order of docs/nameserver/settings.md."""
