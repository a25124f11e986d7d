"""Puts the settings of the process together: flags before environment before agent.toml before defaults."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...daemon.option import DEFAULT, PREFIX, Option, Value, nearest, toml_type
from ...daemon.sources import Sources, unknown_variables
from ...registry import Broker, InvalidInput, RegistryConfig
from ..config import AGENT_OPTIONS, AgentConfig, Section
from ..rocketmq import broker_conf
from ..rocketmq.broker_conf import BrokerConf, this_site
from ..topic_sources.source import choose
from .sidecar_config import (
    CONFIG_FLAG,
    CONFIG_VARIABLE,
    OPTIONS,
    AwaitedBroker,
    BrokerSettings,
    SidecarConfig,
    options_in,
)

_ANY_BROKER: Final = Broker("any", "127.0.0.1:1")
_SHORTEST_CALL_S: Final = 0.05
"""The registry allows no shorter call_deadline_s."""

_LONGEST: Final = RegistryConfig(lease_ttl_s=86_400, call_deadline_s=_SHORTEST_CALL_S)
"""No heartbeat is too long for it."""

_OF_THE_LEASE: Final = ("heartbeat_s", "lease_ttl_s", "call_deadline_s")
"""The settings that have to fit together."""

_OF_OTHERS: Final = frozenset(
    f"SHAREDROUTES_{name}" for name in ("REDIS_SERVER", "EXAMPLES", "TESTS", "ROCKETMQ_JARS")
)
"""Variables that other parts of the project read, besides those of the name server front."""

_OF_THE_FRONT: Final = f"{PREFIX}NAMESERVER_"

_NO_BROKER: Final = (
    "no broker is named: --broker-conf, SHAREDROUTES_BROKER_CONF, or a [[broker]] in agent.toml (--config)"
)


def load(flags: Mapping[str, str], environment: Mapping[str, str]) -> SidecarConfig:
    """Return the settings of flags (by name, as `--redis`), environment and agent.toml together.

    A broker.conf that cannot be read is awaited. Raises InvalidInput with all problems of all of them, and of
    every broker.conf: a line each, which names the key, the variable or the flag.
    """
    loader = _Loader(flags, environment)
    values = loader.of_process()
    brokers = loader.of_brokers(values)
    if (call := values["call_deadline_s"]).is_default:
        shortest_s = min(broker["heartbeat_s"].value for broker in brokers)
        if shortest_s < call.value:
            values["call_deadline_s"] = Value(
                max(_SHORTEST_CALL_S, shortest_s), f"{DEFAULT}: at most heartbeat_s"
            )
    stored = {key: values[key].value for key in options_in(Section.STORE) if key != "url"}
    registry = RegistryConfig(**stored, actor=f"agent at {socket.gethostname()}")
    made = [loader.broker(broker, values, registry) for broker in brokers]
    found = tuple(one for one in made if isinstance(one, BrokerSettings))
    for problem in twins(broker.config for broker in found):
        loader.problem(problem)
    if loader.problems:
        raise InvalidInput("\n".join(loader.problems))
    known = {one.variable for one in OPTIONS} | {CONFIG_VARIABLE}
    ours = [name for name in environment if name not in _OF_OTHERS and not name.startswith(_OF_THE_FRONT)]
    return SidecarConfig(
        values=values,
        registry=registry,
        brokers=found,
        awaited=tuple(one for one in made if isinstance(one, AwaitedBroker)),
        warnings=tuple(unknown_variables(ours, known, prefix=PREFIX, whose="the agent")),
    )


def agent_config(conf: BrokerConf, *, topics_path: Path | None = None, **settings: Any) -> AgentConfig:
    """Return the settings for the broker of a broker.conf; raises InvalidInput.

    Without `topics_path` the broker's own topics are read; `settings` are those of AgentConfig.
    """
    config = AgentConfig(
        broker=conf.broker,
        topics_path=topics_path or conf.topics_path,
        broker_permission=conf.broker_permission,
        elected=conf.elected,
        **settings,
    )
    return choose(config, conf)


def settings_of(
    values: Mapping[str, Value], redis_url: str, registry: RegistryConfig
) -> BrokerSettings | AwaitedBroker:
    """Return the settings of one broker with those of its broker.conf; raises InvalidInput."""
    path = values["broker_conf"].value
    if path.is_fifo():  # to open one may wait for ever, and nobody can look at it twice
        raise InvalidInput(f"{path}: is no regular file: the broker's broker.conf is expected")
    try:
        path.open("rb").close()
    except OSError as error:
        # Not there, or not for us: whoever puts it there may be started after the agent.
        return AwaitedBroker(values, f"{path}: cannot be read: {error.strerror}")
    said = {one.attribute: values[one.key].value for one in AGENT_OPTIONS}
    site = this_site(advertised=said["advertised"], zone=said["zone"], overrides=said["overrides"])
    conf = broker_conf.read(path, site)
    return BrokerSettings(values, agent_config(conf, redis_url=redis_url, registry=registry, **said))


def with_path(path: Path | None, problem: str) -> str:
    """Return a problem of a broker's settings with the path of its broker.conf."""
    return problem if problem.startswith(str(path)) else f"{path}: {problem}"


def twins(configs: Iterable[AgentConfig]) -> list[str]:
    """Return a problem for each broker that is configured twice."""
    seen: dict[tuple[str, int], AgentConfig] = {}
    found = []
    for config in configs:
        broker = config.broker
        if config.elected:
            continue
        first = seen.setdefault((broker.broker_name, broker.broker_id), config)
        if first is not config:
            found.append(
                f"{config.broker_conf_path}: is {broker.broker_name}:{broker.broker_id}, "
                f"as is {first.broker_conf_path}"
            )
    return found


class _Table(NamedTuple):
    """One table of agent.toml, and the prefix of its keys in messages."""

    place: str
    values: Mapping[str, Any]


class _Loader(Sources):
    """Puts values together and collects the problems."""

    def __init__(self, flags: Mapping[str, str], environment: Mapping[str, str]) -> None:
        super().__init__(flags, environment, flag=CONFIG_FLAG, variable=CONFIG_VARIABLE)
        self._sections: Mapping[str, _Table] = {}
        self._brokers: Sequence[_Table] | None = ()
        """The tables of agent.toml; None = it has none that can be read."""

        if self.path is not None:
            self._read(self.path)

    def of_process(self) -> dict[str, Value]:
        """Return the settings of the sections store and agent."""
        return {
            one.key: self._pick_with(one, self._sections.get(one.section))
            for one in OPTIONS
            if one.section is not Section.BROKER
        }

    def of_brokers(self, process: Mapping[str, Value]) -> list[dict[str, Value]]:
        """Return the settings of every broker, with those of `process` where it has none of its own."""
        tables = self._brokers or ()
        if len(tables) > 1:
            for one in OPTIONS:
                for place, _ in self.said(one) if one.section is Section.BROKER else ():
                    count = len(tables)
                    self.problem(
                        f"{place}: is for one broker, and agent.toml has {count}: set it in their tables"
                    )
        return [self._of_broker(table, process) for table in tables or (_Table("", {}),)]

    def broker(
        self, values: Mapping[str, Value], process: Mapping[str, Value], registry: RegistryConfig
    ) -> BrokerSettings | AwaitedBroker | None:
        """Return the settings of a broker; None = there are problems."""
        path = values["broker_conf"].value
        if path is None:
            return None
        if not self._fit({**process, **values}, registry):
            registry = _LONGEST  # what else is wrong is to be found, too
        try:
            return settings_of(values, process["url"].value, registry)
        except InvalidInput as error:
            several = len(self._brokers or ()) > 1
            for line in str(error).splitlines():
                self.problem(with_path(path, line) if several else line)
            return None

    def _pick_with(self, option: Option, table: _Table | None, otherwise: Value | None = None) -> Value:
        """Return the value in effect, of which a table of agent.toml may say one."""
        if self.path is None or table is None or option.key not in table.values:
            return self.pick(option, otherwise=otherwise)
        read = partial(option.from_toml, table.values[option.key], self.path.parent)
        return self.pick(option, (table.place + option.key, read), otherwise)

    def _of_broker(self, table: _Table, process: Mapping[str, Value]) -> dict[str, Value]:
        """Return the settings of a broker; its own table takes precedence over [agent]."""
        values = {
            key: self._pick_with(one, table, process.get(key))
            for key, one in options_in(Section.BROKER).items()
        }
        if values["broker_conf"].is_default and table.place:
            self.problem(f"{table.place}broker_conf: is missing")
        elif values["broker_conf"].is_default and self._brokers is not None:
            self.problem(_NO_BROKER)
        return values

    def _fit(self, values: Mapping[str, Value], registry: RegistryConfig) -> bool:
        """Whether lease and heartbeat fit together; if not, the problem names the places that set them."""
        try:
            AgentConfig(broker=_ANY_BROKER, heartbeat_s=values["heartbeat_s"].value, registry=registry)
        except InvalidInput as error:
            said = [values[key] for key in _OF_THE_LEASE if key in str(error)]
            self.problem(f"{', '.join(one.place for one in said if not one.is_default)}: {error}")
            return False
        return True

    def _read(self, path: Path) -> None:
        """Read the tables of an agent.toml; their values are checked where they take effect."""
        root = self._root(path)
        if root is None:
            self._brokers = None
            return
        self._refuse_unknown(f"{path}: ", root, list(Section), "a table of agent.toml")
        self._sections = {
            section: self._table(f"{path}: {section}", section, root.get(section, {}))
            for section in (Section.STORE, Section.AGENT)
        }
        tables = root.get(Section.BROKER, [])
        if not isinstance(tables, list):
            self.problem(f"{path}: broker: write [[broker]] instead of [broker]: there may be several")
            self._brokers = None
            return
        self._brokers = [
            self._table(f"{path}: broker[{number}]", Section.BROKER, values)
            for number, values in enumerate(tables, 1)
        ]

    def _root(self, path: Path) -> dict[str, Any] | None:
        import tomllib  # noqa: PLC0415 - an agent whose settings are flags and variables has no use for it

        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            self.problem(f"{path}: cannot be read: {error.strerror}")
        except UnicodeDecodeError as error:
            self.problem(f"{path}: is no UTF-8: {error.reason} at byte {error.start}")
        except tomllib.TOMLDecodeError as error:
            self.problem(f"{path}: is no TOML: {error}")
        return None

    def _table(self, place: str, section: Section, values: object) -> _Table:
        if not isinstance(values, dict):
            self.problem(f"{place}: expected a table, got {toml_type(values)}")
            return _Table(f"{place}.", {})
        self._refuse_unknown(f"{place}.", values, list(options_in(section)), f"a setting of [{section}]")
        return _Table(f"{place}.", values)

    def _refuse_unknown(self, place: str, found: Iterable[str], known: Sequence[str], what: str) -> None:
        for key in found:
            if key not in known:
                hint = nearest(key, known) or f": they are {', '.join(known)}"
                self.problem(f"{place}{key}: is not {what}{hint}")
