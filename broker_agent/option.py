"""Every setting of the agent process: its key in agent.toml, its flag, its variable, its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from ..registry import InvalidInput, RegistryConfig
from .config import AgentConfig, BrokerTls, TopicsFrom

CONFIG_FLAG: Final = "--config"
CONFIG_VARIABLE: Final = "SHAREDROUTES_CONFIG"
DEFAULT_HTTP: Final = "127.0.0.1:9877"
PREFIX: Final = "SHAREDROUTES_"
"""How every variable begins."""


_NONE: Final = "none"
"""In a flag or a variable, where an empty text says nothing."""

_TYPES: Final = {
    str: "a string",
    int: "an integer",
    float: "a float",
    bool: "a boolean",
    list: "an array",
    dict: "a table",
}


class Section(StrEnum):
    """The tables of agent.toml."""

    STORE = "store"
    AGENT = "agent"
    BROKER = "broker"


class Kind(StrEnum):
    """What a value is; also what stands for it in help texts."""

    TEXT = "TEXT"
    URL = "URL"
    PATH = "FILE"
    ADDRESS = "HOST:PORT"
    SECONDS = "SECONDS"
    COUNT = "NUMBER"
    CHOICE = "CHOICE"
    PAIRS = "KEY=VALUE;..."
    SECRET = "JSON"  # noqa: S105 - what stands for one in help texts
    """Taken from its variable alone: all see the flags of a process, and many agent.toml."""

    ADDRESSES = "HOST:PORT,..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting, wherever it is given."""

    section: Section
    key: str
    """Its name in agent.toml, with the unit; also the name of the field that it becomes."""

    kind: Kind
    default: Any
    help: str
    stem: str = ""
    """What its flag and its variable are made from, when that is not the key without its unit."""

    choices: tuple[str, ...] = ()
    each_broker: bool = False
    """Whether every [[broker]] may have a value of its own."""

    @property
    def flag(self) -> str:
        """How it is named on the command line."""
        return "--" + (self.stem or self.key.removesuffix("_s")).removesuffix("_url").replace("_", "-")

    @property
    def variable(self) -> str:
        """How it is named in the environment."""
        return PREFIX + (self.stem or self.key.removesuffix("_s")).upper()

    @property
    def metavar(self) -> str:
        """What stands for the value in help texts."""
        return "|".join(self.choices) if self.choices else self.kind.value

    def from_text(self, text: str) -> Any:
        """Return the value that a flag or a variable gives; raise InvalidInput for one that is none."""
        if self.kind is Kind.SECONDS:
            return self._number(text, float, "a number of seconds")
        if self.kind is Kind.COUNT:
            return self._number(text, int, "a whole number")
        if self.kind is Kind.PAIRS:
            return _pairs(text)
        if self.kind is Kind.ADDRESSES:
            return () if text == _NONE else tuple(each.strip() for each in text.split(","))
        return Path(text) if self.kind is Kind.PATH else self._chosen(text)

    def from_toml(self, value: object, folder: Path) -> Any:
        """Return the value that agent.toml in `folder` gives; raise InvalidInput for one that is none."""
        if self.kind in (Kind.SECONDS, Kind.COUNT):
            numbers = (int, float) if self.kind is Kind.SECONDS else (int,)
            if isinstance(value, bool) or not isinstance(value, numbers):
                wanted = "a number of seconds" if self.kind is Kind.SECONDS else "a whole number"
                raise InvalidInput(f"expected {wanted}, got {value!r:.80}")
            return float(value) if self.kind is Kind.SECONDS else value
        if self.kind is Kind.PAIRS:
            return _texts(value)
        if self.kind is Kind.SECRET:
            raise InvalidInput(f"is a secret: say it in {self.variable}, or in a file")
        if self.kind is Kind.ADDRESSES:
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                raise InvalidInput(f"expected an array of strings, got {value!r:.80}")
            return tuple(value)
        if not isinstance(value, str):
            shown = type_of(value) if self.kind is Kind.URL else f"{value!r:.80}"
            raise InvalidInput(f"expected a string, got {shown}")
        return folder / value if self.kind is Kind.PATH else self._chosen(value)

    def _number(self, text: str, kind: type[int | float], wanted: str) -> int | float:
        try:
            return kind(text)
        except ValueError:
            raise InvalidInput(f"expected {wanted}, got {text!r:.80}") from None

    def _chosen(self, text: str) -> str:
        if self.choices and text not in self.choices:
            raise InvalidInput(f"{text!r:.80} is none of {', '.join(self.choices)}")
        return text


def type_of(value: object) -> str:
    """Return what TOML calls such a value: the value itself may hold a password."""
    return _TYPES.get(type(value), "a date or a time")


def _pairs(text: str) -> dict[str, str]:
    found = {}
    for pair in filter(None, text.split(";")):
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise InvalidInput(f"{pair!r:.80} is not key=value")
        found[key.strip()] = value.strip()
    return found


def _texts(value: object) -> dict[str, str]:
    """Return a table of TOML as a broker.conf says the same."""
    if not isinstance(value, dict):
        raise InvalidInput(f"expected a table, got {value!r:.80}")
    for key, said in value.items():
        if not isinstance(said, str | int):
            raise InvalidInput(f"{key}: expected a string, a whole number, true or false, got {said!r:.80}")
    return {key: str(said).lower() if isinstance(said, bool) else str(said) for key, said in value.items()}


def of(section: Section) -> Mapping[str, Option]:
    """Return what may stand in a table of agent.toml, by key."""
    return {
        option.key: option
        for option in OPTIONS
        if option.section is section or (option.each_broker and section is Section.BROKER)
    }


def _store(key: str, kind: Kind, help_: str) -> Option:
    return Option(section=Section.STORE, key=key, kind=kind, default=_REGISTRY[key], help=help_)


def _tuning(key: str, kind: Kind, help_: str, choices: tuple[str, ...] = ()) -> Option:
    return Option(
        section=Section.AGENT,
        key=key,
        kind=kind,
        default=_AGENT[key],
        help=help_,
        choices=choices,
        each_broker=True,
    )


_REGISTRY: Final = {field.name: field.default for field in fields(RegistryConfig)}
_AGENT: Final = {field.name: field.default for field in fields(AgentConfig)}

OPTIONS: Final = (
    Option(
        section=Section.STORE,
        key="url",
        stem="redis_url",
        kind=Kind.URL,
        default=_AGENT["redis_url"],
        help="The shared store: redis[s]://, redis[s]+sentinel://, redis[s]+cluster:// or unix://.",
    ),
    _store("namespace", Kind.TEXT, "The registry in the store."),
    _store(
        "lease_ttl_s",
        Kind.SECONDS,
        "A broker whose agent was silent for so long is dead; at least twice the heartbeat.",
    ),
    _store(
        "call_deadline_s", Kind.SECONDS, "The longest wait for the store; by default at most the heartbeat."
    ),
    _store("connect_deadline_s", Kind.SECONDS, "The longest wait for a connection to the store."),
    _store("sweeper_lease_s", Kind.SECONDS, "Silence after which another agent looks for ended leases."),
    _store("max_connections", Kind.COUNT, "Connections to the store, for all brokers together."),
    _store("chunk_topics", Kind.COUNT, "Topics in one script call."),
    _store("feed_max_entries", Kind.COUNT, "Entries that the change stream keeps."),
    _store("feed_min_age_s", Kind.SECONDS, "Younger entries of the change stream are kept beyond that."),
    Option(
        section=Section.AGENT,
        key="http",
        kind=Kind.ADDRESS,
        default=DEFAULT_HTTP,
        help="Where health, status and metrics are served; port 0 = any free one, `off` = nowhere.",
    ),
    Option(
        section=Section.AGENT,
        key="http_control",
        kind=Kind.CHOICE,
        choices=("local", "any", "off"),
        default="local",
        help="From where drain, pause, resume and reload are accepted over HTTP.",
    ),
    Option(
        section=Section.AGENT,
        key="log_format",
        kind=Kind.CHOICE,
        choices=("text", "json"),
        default="text",
        help="Lines for people, or one JSON object a line.",
    ),
    Option(
        section=Section.AGENT,
        key="log_level",
        kind=Kind.CHOICE,
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="What is less than this is not logged.",
    ),
    _tuning("heartbeat_s", Kind.SECONDS, "Between two renewals of the lease."),
    _tuning("recheck_s", Kind.SECONDS, "Between two looks at the files besides notifications."),
    _tuning("probe_deadline_s", Kind.SECONDS, "The longest wait for a connection to the broker."),
    _tuning("probe_attempts", Kind.COUNT, "Failed connections in a row until the broker is gone."),
    _tuning("hang_check_s", Kind.SECONDS, "Between two requests that show that the broker works; 0 = none."),
    _tuning("hang_deadline_s", Kind.SECONDS, "The longest wait for the answer to such a request."),
    _tuning("hang_failures", Kind.COUNT, "Such requests in a row unanswered until the broker is gone."),
    _tuning("hang_successes", Kind.COUNT, "Such requests in a row answered until it is back."),
    _tuning(
        "broker_credentials", Kind.PATH, "accessKey and secretKey for brokers that know their users (ACL)."
    ),
    _tuning("broker_credentials_json", Kind.SECRET, "The same as JSON; a file counts more."),
    _tuning(
        "broker_tls",
        Kind.CHOICE,
        "Whether connections to the broker are encrypted, and what is checked.",
        tuple(mode.value for mode in BrokerTls),
    ),
    _tuning("broker_tls_ca", Kind.PATH, "Who may vouch for the broker; by default the system's authorities."),
    _tuning("broker_tls_cert", Kind.PATH, "The agent's own certificate, where the broker wants one."),
    _tuning("broker_tls_key", Kind.PATH, "Its key, without a password."),
    _tuning(
        "broker_tls_name", Kind.TEXT, "Whom the broker's certificate names; by default the host of the probe."
    ),
    _tuning("drain_wait_s", Kind.SECONDS, "Between the end of writing and the end of serving in a drain."),
    _tuning(
        "stop_watch_s",
        Kind.SECONDS,
        "How long a broker that is up is watched when the process is told to end; 0 = not at all.",
    ),
    _tuning("stop_deadline_s", Kind.SECONDS, "The longest wait for the store when the agent ends."),
    Option(
        section=Section.BROKER,
        key="broker_conf",
        kind=Kind.PATH,
        default=None,
        help="The broker.conf of the broker.",
    ),
    Option(
        section=Section.BROKER,
        key="topics",
        kind=Kind.PATH,
        default=None,
        help="The broker's topics.json; by default <storePathRootDir>/config/topics.json.",
    ),
    Option(
        section=Section.BROKER,
        key="topics_from",
        kind=Kind.CHOICE,
        choices=(TopicsFrom.AUTO.value, TopicsFrom.FILES.value, TopicsFrom.BROKER.value),
        default=str(_AGENT["topics_from"]),
        help="Where the topics are read: the broker's files, or the running broker.",
    ),
    Option(
        section=Section.BROKER,
        key="broker_address",
        kind=Kind.ADDRESS,
        default="",
        help="The address clients are told; by default brokerIP1:listenPort of the broker.conf.",
    ),
    Option(
        section=Section.BROKER,
        key="probe",
        kind=Kind.ADDRESS,
        default="",
        help="Where to watch whether the broker lives; by default the address clients are told.",
    ),
    Option(
        section=Section.BROKER,
        key="master_file",
        kind=Kind.PATH,
        default=_AGENT["master_file"],
        help="A file with the address and the HA address of a slave's master, written anew with each change.",
    ),
    Option(
        section=Section.BROKER,
        key="master_hook",
        kind=Kind.TEXT,
        default=_AGENT["master_hook"],
        help="A command that is run when the address or HA address of a slave's master changes.",
    ),
    Option(
        section=Section.BROKER,
        key="filter_servers",
        kind=Kind.ADDRESSES,
        default=_AGENT["filter_servers"],
        help="The broker's filter servers, `none` for none; by default they stay as they are.",
    ),
    Option(
        section=Section.BROKER,
        key="zone",
        kind=Kind.TEXT,
        default="",
        help="The zone of the broker; by default that of ROCKETMQ_ZONE.",
    ),
    Option(
        section=Section.BROKER,
        key="overrides",
        kind=Kind.PAIRS,
        default={},
        help="Settings that go before those of the broker.conf, by their keys there.",
    ),
)
