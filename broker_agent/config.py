"""The settings of a broker agent; units are in the names."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from ..registry import Broker, InvalidInput, RegistryConfig
from ..registry.checks import check_address, check_int, check_seconds

_DEFAULT_URL: Final = "redis://127.0.0.1:6379/0"


class TopicsFrom(StrEnum):
    """Where the broker's topics are read."""

    AUTO = "auto"
    """From its files where it keeps its topics there, and from the running broker until there are some or
    where it keeps them to itself; without a topics_path the program tells them."""

    FILES = "files"
    BROKER = "broker"
    PROGRAM = "program"
    """Nowhere: the program that the agent is part of tells them (BrokerAgent.set_topics)."""


class BrokerTls(StrEnum):
    """Whether what the agent asks the broker is encrypted, and how the broker has to prove who it is."""

    OFF = "off"
    INSECURE = "insecure"
    """By nothing, as with RocketMQ's own clients by default, and its self-signed test certificate."""

    VERIFY_CA = "verify-ca"
    """By a certificate of a known authority, whatever its name."""

    VERIFY_FULL = "verify-full"
    """By one that names the host besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """What one agent does for one broker; raises InvalidInput for values that do not fit together."""

    broker: Broker
    topics_path: Path | None = None
    """The broker's topics.json."""

    broker_permission: int = 6
    """What the broker as a whole permits (RocketMQ: brokerPermission)."""

    broker_conf_path: Path | None = None
    """The broker.conf to follow: the agent takes over a changed role, address or brokerPermission."""

    advertised: str = ""
    """The host:port that clients are told instead of what the broker.conf says, now and when it changes."""

    zone: str = ""
    """The zone of the broker, in place of the environment's."""

    overrides: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Settings of the broker, by their keys in broker.conf, that go before those of the file."""

    topics_from: TopicsFrom = TopicsFrom.AUTO
    """Where the topics are read: the broker's files, or the running broker itself."""

    topics_why: str = ""
    """Why they are read there, for the operator."""

    master_file: Path | None = None
    """The file in which a slave finds its master's address and HA address; None = none."""

    master_hook: str = ""
    """The command that is run when the address or HA address of a slave's master changes; empty = none."""

    filter_servers: tuple[str, ...] | None = None
    """The broker's filter servers, host:port; None leaves them as they are in the registry."""

    elected: bool = False
    """The broker's id is elected at run time (controller, DLedger): it is asked from the running broker."""

    probe: str = ""
    """host:port at which the agent watches whether the broker lives; by default the advertised address."""

    redis_url: str = field(default=_DEFAULT_URL, repr=False)  # may hold a password
    registry: RegistryConfig = field(default_factory=RegistryConfig)

    heartbeat_s: float = 5.0
    """Between two renewals of the lease; half of the lease TTL at most, so that one may be lost."""

    recheck_s: float = 1.0
    """Between two looks at topics.json besides the notifications of the file system."""

    probe_deadline_s: float = 1.0
    """The longest wait for a connection to the broker."""

    probe_attempts: int = 3
    """So many connections in a row have to fail, other than by being refused, until the broker is gone."""

    hang_check_s: float = 1.0
    """Between two requests to the broker that show that it works; 0 = its open connection is enough."""

    hang_deadline_s: float = 2.5
    """The longest wait for the answer to such a request."""

    hang_failures: int = 3
    """So many of them in a row without an answer, and the broker counts as gone: it is found within
    hang_check_s + hang_failures * hang_deadline_s, and never before hang_failures * hang_deadline_s."""

    hang_successes: int = 2
    """So many of them in a row with an answer, and it counts as alive again."""

    broker_credentials: Path | None = None
    """A file with accessKey, secretKey and perhaps securityToken, by which requests are signed."""

    broker_credentials_json: str = field(default="", repr=False)
    """The same as a JSON text; a file counts more."""

    broker_tls: BrokerTls = BrokerTls.OFF
    """Whether connections to the broker are encrypted, and what of its certificate is checked."""

    broker_tls_ca: Path | None = None
    """The certificates of the authorities that may vouch for the broker; by default the system's."""

    broker_tls_cert: Path | None = None
    """The agent's own certificate, where the broker wants one; PEM."""

    broker_tls_key: Path | None = None
    """Its key, without a password; by default in the same file."""

    broker_tls_name: str = ""
    """Whom the broker's certificate has to name, in place of the host of `probe`."""

    drain_wait_s: float = 10.0
    """Between the end of the write permission and the end of the registration when the broker is drained."""

    stop_deadline_s: float = 1.0
    """The longest wait for the store when the agent ends; after it the lease ends by its TTL."""

    stop_watch_s: float = 20.0
    """How long an agent that hands over watches a broker that is up: as long as a broker takes to end."""

    def __post_init__(self) -> None:
        check_int("broker_permission", self.broker_permission, 0, 7)
        for name in ("probe_attempts", "hang_failures", "hang_successes"):
            check_int(name, getattr(self, name), 1, 1_000)
        check_address("probe", self.probe_address)
        if self.broker_tls not in list(BrokerTls):
            raise InvalidInput(f"broker_tls: {self.broker_tls!r:.80} is none of {', '.join(BrokerTls)}")
        for server in self.filter_servers or ():
            check_address("filter_servers", server)
        try:
            shlex.split(self.master_hook)
        except ValueError as error:
            raise InvalidInput(f"master_hook: {self.master_hook!r:.80} is no command: {error}") from None
        for name in ("heartbeat_s", "recheck_s", "probe_deadline_s", "hang_deadline_s", "stop_deadline_s"):
            check_seconds(name, getattr(self, name), 0.01)
        for name in ("hang_check_s", "drain_wait_s", "stop_watch_s"):
            check_seconds(name, getattr(self, name), 0.0)
        ttl_s, deadline_s = self.registry.lease_ttl_s, self.registry.call_deadline_s
        if ttl_s < 2 * self.heartbeat_s:
            raise InvalidInput(
                f"lease_ttl_s: {ttl_s} is less than twice heartbeat_s ({self.heartbeat_s}): one lost "
                "heartbeat would take the broker away"
            )
        if ttl_s < self.heartbeat_s + deadline_s:
            raise InvalidInput(
                f"lease_ttl_s: {ttl_s} is less than heartbeat_s + call_deadline_s ({self.heartbeat_s} + "
                f"{deadline_s}): one slow answer would take the broker away"
            )

    @property
    def probe_address(self) -> str:
        """Where the agent watches the broker: host:port."""
        return self.probe or self.broker.address
