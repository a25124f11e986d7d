"""What one agent process does, and every setting that it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from ...daemon.option import Kind, Option, Value, declare
from ...registry import InvalidInput, RegistryConfig
from ...registry.connection.url import parse_url
from ..config import AGENT_OPTIONS, DEFAULT_URL, AgentConfig, Section

CONFIG_FLAG: Final = "--config"
CONFIG_VARIABLE: Final = "SHAREDROUTES_CONFIG"
DEFAULT_HTTP: Final = "127.0.0.1:9877"
_LAST_PORT: Final = 65_535
_REGISTRY: Final = {one.name: one.default for one in fields(RegistryConfig)}


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings of one broker by key, each with its place, and the agent's configuration made of them."""

    values: Mapping[str, Value]
    config: AgentConfig


@dataclass(frozen=True, slots=True)
class AwaitedBroker:
    """The settings of a broker whose broker.conf cannot be read yet."""

    values: Mapping[str, Value]
    why: str
    """Why it cannot be read; names the file."""

    @property
    def path(self) -> Path:
        """Where the broker.conf is expected."""
        path: Path = self.values["broker_conf"].value
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarConfig:
    """What one agent process does."""

    values: Mapping[str, Value] = field(repr=False)  # may hold a password
    """The settings of the sections store and agent by key."""

    registry: RegistryConfig
    brokers: tuple[BrokerSettings, ...]
    awaited: tuple[AwaitedBroker, ...] = ()
    """Brokers whose broker.conf is not there yet, or not readable."""

    warnings: tuple[str, ...] = ()
    """Probable mistakes that do no other harm."""

    def value(self, key: str) -> Any:
        """Return a setting of the process, or of the store."""
        return self.values[key].value

    @property
    def redis_url(self) -> str:
        """Where the store is; it may hold a password."""
        return str(self.value("url"))

    @property
    def agents(self) -> tuple[AgentConfig, ...]:
        """What each broker's agent does."""
        return tuple(broker.config for broker in self.brokers)


def _check_http(text: str) -> None:
    """Raise InvalidInput unless a text is `off` or an address to listen at, where port 0 is any free one."""
    host, _, port = text.rpartition(":")
    is_address = host and port.isascii() and port.isdecimal() and int(port) <= _LAST_PORT
    if text != "off" and not is_address:
        raise InvalidInput(f"{text!r} is neither off nor host:port with a port within 0..{_LAST_PORT}")


def _store(key: str, meaning: str, **rest: Any) -> Option:
    return declare(_REGISTRY[key], meaning, section=Section.STORE, key=key, attribute=key, **rest)


def _process(key: str, default: str, meaning: str, **rest: Any) -> Option:
    return declare(default, meaning, section=Section.AGENT, key=key, attribute=key, **rest)


OPTIONS: Final = (
    declare(
        DEFAULT_URL,
        "The shared store: redis[s]://, redis[s]+sentinel://, redis[s]+cluster:// or unix://. See "
        "[operating the store](../operating.md). With a password rather in the variable, or in a file that "
        "only the agent's user reads",
        section=Section.STORE,
        key="url",
        stem="redis_url",
        kind=Kind.URL,
        also=parse_url,
    ),
    _store(
        "namespace",
        "Registry in the store. Clients name the same one",
        also=lambda value: RegistryConfig(namespace=value),
    ),
    _store(
        "lease_ttl_s",
        "Silence of an agent after which its broker is dead. Shorter finds a lost host sooner; longer "
        "outlives longer pauses of the store or the machine. At least twice `heartbeat_s`, and at least "
        "`heartbeat_s` + `call_deadline_s`; the same for all agents",
        low=0.05,
    ),
    _store(
        "call_deadline_s",
        "Longest wait for one answer of the store. Unless given, never longer than `heartbeat_s`",
        low=0.05,
    ),
    _store("connect_deadline_s", "Longest wait for a connection to the store", low=0.05),
    _store(
        "max_connections",
        "Connections to the store, for all brokers of the process. More brokers than this wait for each "
        "other",
        unit="connections",
        low=3,
        high=10_000,
    ),
    _store(
        "chunk_topics",
        "Topics in one script call. More keep the store busy for longer at a time, fewer make a first "
        "registration slower",
        unit="topics",
        low=1,
        high=2_000,
    ),
    _store(
        "feed_max_entries",
        "Changes that the stream keeps. A client further behind reads everything again. They take the "
        "store's memory",
        unit="entries",
        low=1,
        high=10**9,
    ),
    _store("feed_min_age_s", "Age up to which changes are kept beyond that number"),
    _process(
        "http",
        DEFAULT_HTTP,
        "Address at which health, status, metrics and controls are served; `off` = nowhere. Port 0 = any "
        "free one, which is logged",
        kind=Kind.LISTEN,
        also=_check_http,
    ),
    _process(
        "http_control",
        "local",
        "From where drain, pause, resume and reload are accepted over HTTP. `local` = over the loopback "
        "interface, `any` = from whoever reaches the port, `off` = by signals alone",
        choices=("local", "any", "off"),
    ),
    _process(
        "log_format",
        "text",
        "Form of the log: lines for people, or one JSON object a line",
        choices=("text", "json"),
        is_live=True,
    ),
    _process(
        "log_level",
        "info",
        "Least level that is logged",
        choices=("debug", "info", "warning", "error"),
        is_live=True,
    ),
    *AGENT_OPTIONS,
)
"""Every setting, in the order of the pages."""


def options_in(section: Section) -> dict[str, Option]:
    """Return what may stand in a table of agent.toml, by key."""
    return {
        one.key: one
        for one in OPTIONS
        if one.section is section or (one.each_broker and section is Section.BROKER)
    }
