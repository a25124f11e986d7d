"""What the settings of the agent process make together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from ...registry import InvalidInput, RegistryConfig
from ..config import AgentConfig

DEFAULT: Final = "default"
_LAST_PORT: Final = 65_535


class SettingsInvalid(InvalidInput):
    """Settings that cannot be used; each of the `problems` names the key, the variable or the flag."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Value(NamedTuple):
    """What a setting is, and where that was said."""

    value: Any
    place: str

    @property
    def is_default(self) -> bool:
        """Whether nobody said anything."""
        return self.place == DEFAULT


class HttpAddress(NamedTuple):
    """Where the process serves HTTP; port 0 = any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return what the setting `http` says; None = off. Raises InvalidInput."""
        if text == "off":
            return None
        host, _, port = text.rpartition(":")
        if not host or not (port.isascii() and port.isdecimal()) or int(port) > _LAST_PORT:
            raise InvalidInput(f"{text!r} is neither off nor host:port with a port within 0..{_LAST_PORT}")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings of one broker by key, with where each was said; and what they make."""

    values: Mapping[str, Value]
    config: AgentConfig
    places: Callable[[str], str] = field(default=lambda _: "", repr=False, compare=False)
    """Where the broker.conf, or what goes before it, says a setting of the broker; '' = nowhere."""


@dataclass(frozen=True, slots=True)
class AwaitedBroker:
    """The settings of a broker whose broker.conf cannot be read yet."""

    values: Mapping[str, Value]
    why: str
    """Why it cannot be read; names the file."""

    read: Callable[[], BrokerSettings | AwaitedBroker] = field(repr=False, compare=False)
    """Looks at the file again; raises InvalidInput with everything that is wrong in it."""

    @property
    def path(self) -> Path:
        """Return where the broker.conf is expected."""
        path: Path = self.values["broker_conf"].value
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarConfig:
    """What one agent process does."""

    redis_url: str = field(repr=False)  # may hold a password
    registry: RegistryConfig
    http: HttpAddress | None
    http_control: str
    """From where it may be controlled over HTTP: local, any, off."""

    log_format: str
    log_level: str
    values: Mapping[str, Value] = field(repr=False)
    """The settings of the sections store and agent by key."""

    brokers: tuple[BrokerSettings, ...]
    awaited: tuple[AwaitedBroker, ...] = ()
    """Brokers whose broker.conf is not there yet, or not readable."""

    warnings: tuple[str, ...] = ()
    """What is probably a mistake, and does no harm otherwise."""

    @property
    def agents(self) -> tuple[AgentConfig, ...]:
        """What each broker's agent does."""
        return tuple(broker.config for broker in self.brokers)

    @property
    def http_is_default(self) -> bool:
        """Whether nobody asked for the address of HTTP: if it is taken, the process does without."""
        return self.values["http"].is_default
