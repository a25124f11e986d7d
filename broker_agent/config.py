"""The settings of a broker's agent; units are in the names."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from ..daemon.option import Kind, option, options_of
from ..registry import Broker, InvalidInput, RegistryConfig
from ..registry.checks import check_address, check_int

T = TypeVar("T")

DEFAULT_URL: Final = "redis://127.0.0.1:6379/0"

PROBE_ATTEMPTS: Final = 3
"""So many connections in a row have to fail, other than by a refusal, until the broker is gone. One may be
lost where the queue of the port is full, and one by a pause of the host; no network between loses more."""

HANG_SUCCESSES: Final = 2
"""So many answers in a row bring back a broker that hung: a single one may be a late one."""


class Section(StrEnum):
    """The tables of agent.toml."""

    STORE = "store"
    AGENT = "agent"
    BROKER = "broker"


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
    """Encrypted, and nothing is checked, as RocketMQ's own clients do by default."""

    VERIFY_CA = "verify-ca"
    """The certificate has to come from a known authority, whatever its name."""

    VERIFY_FULL = "verify-full"
    """And it has to name the host."""


def _check_command(text: str) -> None:
    try:
        shlex.split(text)
    except ValueError as error:
        raise InvalidInput(f"master_hook: {text!r:.80} is no command: {error}") from None


def _tuning(default: T, meaning: str, **rest: Any) -> T:
    return option(default, meaning, section=Section.AGENT, each_broker=True, **rest)


def _of_broker(default: T, meaning: str, **rest: Any) -> T:
    return option(default, meaning, section=Section.BROKER, **rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """What one agent does for one broker; raises InvalidInput for values that do not fit together.

    The fields made by `option` are settings of the agent process, too: docs/agent/settings.md has them.
    """

    broker: Broker
    broker_permission: int = 6
    """What the broker as a whole permits (RocketMQ: brokerPermission)."""

    elected: bool = False
    """The broker's id is elected at run time (controller, DLedger): it is asked from the running broker."""

    topics_why: str = ""
    """Why the topics are read where they are, for the operator."""

    redis_url: str = field(default=DEFAULT_URL, repr=False)  # may hold a password
    registry: RegistryConfig = field(default_factory=RegistryConfig)

    heartbeat_s: float = _tuning(
        5.0,
        "Time between two renewals of the lease. Shorter costs the store more calls; longer means that a "
        "store which lost its data is filled later. At most half of `lease_ttl_s`, so that one may be lost",
        low=0.01,
    )
    recheck_s: float = _tuning(
        1.0,
        "Time between two looks at the files besides the notifications of the file system. It is all there "
        "is on file systems that send none",
        low=0.01,
    )
    probe_deadline_s: float = _tuning(
        1.0,
        "Longest wait for a connection to the broker. It is gone after three such waits, or one refusal",
        low=0.01,
    )
    hang_check_s: float = _tuning(
        1.0,
        "Time between two requests that show whether the broker works. 0 = none: its open connection is "
        "enough. See [Brokers that hang](hangs.md)",
    )
    hang_deadline_s: float = _tuning(
        2.5,
        "Longest wait for the answer to such a request. `hang_failures` times this has to be longer than "
        "the broker's longest pause of garbage collection",
        low=0.01,
    )
    hang_failures: int = _tuning(
        3,
        "Requests in a row without an answer after which the broker is taken out. Two answers in a row "
        "bring it back",
        unit="requests",
        low=1,
        high=1_000,
    )
    broker_credentials: Path | None = _tuning(
        None,
        "File with `accessKey` and `secretKey`, for brokers that know their users (ACL). It may have a "
        "`securityToken`. See [Brokers with users or TLS](users-and-tls.md)",
    )
    broker_credentials_json: str = _tuning("", "The same as JSON. A file counts more", kind=Kind.SECRET)
    broker_tls: BrokerTls = _tuning(
        BrokerTls.OFF,
        "Whether connections to the broker are encrypted, and what is checked. `insecure` = encrypted, "
        "nothing is checked; `verify-ca` = the broker's certificate is checked; `verify-full` = and that it "
        "names the host",
        choices=tuple(BrokerTls),
    )
    broker_tls_ca: Path | None = _tuning(
        None,
        "Certificates (PEM) of the authorities that may vouch for the broker. By default the system's",
    )
    broker_tls_cert: Path | None = _tuning(
        None, "The agent's own certificate (PEM), where the broker wants one"
    )
    broker_tls_key: Path | None = _tuning(
        None, "Key of that certificate, without a password. By default it is in the same file"
    )
    broker_tls_name: str = _tuning("", "Name that `verify-full` expects. By default the host of `probe`")
    drain_wait_s: float = _tuning(
        10.0,
        "Time between the end of writing and the end of serving in a drain. As long as consumers need to "
        "fetch what is there",
    )
    stop_watch_s: float = _tuning(
        20.0,
        "How long a broker that is up is watched when the agent is told to end. As long as a broker takes "
        "to end. Longer makes a restart of the agent slower, and leaves no gap either; less than 0.5 counts "
        "as 0.5",
    )
    stop_deadline_s: float = _tuning(
        1.0,
        "Longest wait for the store when the agent ends. After it the lease ends by itself",
        low=0.01,
    )

    broker_conf_path: Path | None = _of_broker(
        None,
        "The broker.conf to follow; required. The agent takes over a changed role, address or "
        "`brokerPermission`",
        key="broker_conf",
    )
    topics_path: Path | None = _of_broker(
        None,
        "The topics.json to follow. By default `<storePathRootDir>/config/topics.json`, if the broker keeps "
        "its topics there",
        key="topics",
    )
    topics_from: TopicsFrom = _of_broker(
        TopicsFrom.AUTO,
        "Where the topics are read: the broker's files, or the running broker. See [Sources of "
        "topics](topics.md#sources-of-topics)",
        choices=(TopicsFrom.AUTO, TopicsFrom.FILES, TopicsFrom.BROKER),
    )
    advertised: str = _of_broker(
        "",
        "Address that clients are told. By default `brokerIP1:listenPort` of the broker.conf",
        kind=Kind.ADDRESS,
        key="broker_address",
    )
    probe: str = _of_broker(
        "",
        "Address at which the agent reaches the broker, for example `127.0.0.1:10911`. By default the "
        "address that clients are told",
        kind=Kind.ADDRESS,
    )
    master_file: Path | None = _of_broker(
        None,
        "File in which a slave finds the address and the HA address of its master, written anew with each "
        "change. See [Slaves](topics.md#slaves)",
    )
    master_hook: str = _of_broker(
        "",
        "Command that is run when the address or HA address of a slave's master changes. See "
        "[Slaves](topics.md#slaves)",
        also=_check_command,
    )
    filter_servers: tuple[str, ...] | None = _of_broker(
        None,
        "The broker's filter servers; `none` for none. In agent.toml an array; an empty one for none. By "
        "default those in the registry stay (RocketMQ: filterServerList)",
        kind=Kind.ADDRESSES,
    )
    zone: str = _of_broker("", "Zone of the broker. By default that of `ROCKETMQ_ZONE`")
    overrides: Mapping[str, str] = _of_broker(
        {}, "Settings that go before those of the broker.conf, by their keys there"
    )

    def __post_init__(self) -> None:
        check_int("broker_permission", self.broker_permission, 0, 7)
        check_address("probe", self.probe_address)
        for one in AGENT_OPTIONS:
            # A program may tell the topics; the settings of a process cannot say that.
            if one.attribute != "topics_from":
                one.check(getattr(self, one.attribute))
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


AGENT_OPTIONS: Final = tuple(options_of(AgentConfig))
