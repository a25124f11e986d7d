"""Puts the settings of the process together: flags before environment before agent.toml before defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ...registry import Broker, InvalidInput, RegistryConfig
from ...registry.checks import check_address
from ...registry.connection.url import parse_url
from ..config import AgentConfig
from ..option import CONFIG_FLAG, CONFIG_VARIABLE, OPTIONS, Kind, Option, Section, of
from . import agent_toml
from .agent_toml import NO_FILE, Table
from .brokers import settings_of, twins
from .sidecar_config import (
    DEFAULT,
    AwaitedBroker,
    BrokerSettings,
    HttpAddress,
    SettingsInvalid,
    SidecarConfig,
    Value,
)
from .variables import unknown

_ANY_BROKER: Final = Broker("any", "127.0.0.1:1")
_SHORTEST_CALL_S: Final = 0.05
"""The registry allows no shorter call_deadline_s."""

_LONGEST: Final = RegistryConfig(lease_ttl_s=86_400, call_deadline_s=_SHORTEST_CALL_S)
"""Lets a setting of an agent be looked at alone: no heartbeat is too long for it."""

_OF_THE_LEASE: Final = ("heartbeat_s", "lease_ttl_s", "call_deadline_s")
"""The settings that have to fit together."""

_NO_BROKER: Final = (
    "no broker is named: --broker-conf, SHAREDROUTES_BROKER_CONF, or a [[broker]] in agent.toml (--config)"
)


def load(flags: Mapping[str, str], environment: Mapping[str, str]) -> SidecarConfig:
    """Return what the flags, by their names as in `--redis`, the environment and agent.toml say together.

    A broker.conf that cannot be read is awaited. Raises SettingsInvalid with all the problems of all of
    them, and of every broker.conf.
    """
    path = flags.get(CONFIG_FLAG) or environment.get(CONFIG_VARIABLE)
    loader = _Loader(flags, environment, agent_toml.read(Path(path)) if path else NO_FILE)
    values = loader.of_process()
    brokers = loader.of_brokers(values)
    config = loader.config(values, brokers)
    if loader.problems or config is None:
        raise SettingsInvalid(loader.problems)
    return config


class _Loader:
    """Puts values together and collects the problems."""

    def __init__(
        self, flags: Mapping[str, str], environment: Mapping[str, str], file: agent_toml.AgentToml
    ) -> None:
        self._flags = flags
        self._environment = environment
        self._file = file
        self._folder = file.folder
        self._process: Mapping[str, Value] = {}
        self.problems = list(file.problems)

    def of_process(self) -> dict[str, Value]:
        """Return the settings of the sections store and agent."""
        return {
            option.key: self._pick(option, self._file.sections[option.section])
            for option in OPTIONS
            if option.section is not Section.BROKER
        }

    def of_brokers(self, process: Mapping[str, Value]) -> list[dict[str, Value]]:
        """Return the settings of every broker; those of `process` count where it has none of its own."""
        tables = self._file.brokers or ()
        if len(tables) > 1:
            self._refuse_for_one(len(tables))
        return [self._of_broker(table, process) for table in tables or (Table("", {}),)]

    def config(
        self, values: Mapping[str, Value], brokers: Sequence[Mapping[str, Value]]
    ) -> SidecarConfig | None:
        """Return what it all makes, or None when there are problems."""
        self._process = values
        registry = self._registry(values, brokers)
        made = [self._broker(broker, values["url"].value, registry) for broker in brokers]
        found = tuple(one for one in made if isinstance(one, BrokerSettings))
        for problem in twins(broker.config for broker in found):
            self._problem(problem)
        if self.problems:
            return None
        return SidecarConfig(
            redis_url=values["url"].value,
            registry=registry,
            http=HttpAddress.parse(values["http"].value),
            http_control=values["http_control"].value,
            log_format=values["log_format"].value,
            log_level=values["log_level"].value,
            values=values,
            brokers=found,
            awaited=tuple(one for one in made if isinstance(one, AwaitedBroker)),
            warnings=tuple(unknown(self._environment)),
        )

    def _pick(self, option: Option, *tables: Table, otherwise: Value | None = None) -> Value:
        """Return the value that counts; one that cannot be used is a problem, and the next stands in."""
        for place, read in self._said(option, tables):
            try:
                value = read()
                _check(option, value)
            except InvalidInput as error:
                self._problem(f"{place}: {str(error).removeprefix(option.key + ': ')}")
            else:
                return Value(value, place)
        return otherwise or Value(option.default, DEFAULT)

    def _said(self, option: Option, tables: Iterable[Table]) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield who says something, the first that counts first; an empty text says nothing."""
        if text := self._flags.get(option.flag):
            yield option.flag, partial(option.from_text, text)
        if text := self._environment.get(option.variable):
            yield option.variable, partial(option.from_text, text)
        for table in tables:
            if option.key in table.values:
                yield (
                    table.place + option.key,
                    partial(option.from_toml, table.values[option.key], self._folder),
                )

    def _of_broker(self, table: Table, process: Mapping[str, Value]) -> dict[str, Value]:
        """Return the settings of a broker; a value in its own table counts more than that of [agent]."""
        values = {
            option.key: self._pick(option, table, otherwise=process.get(option.key))
            for option in of(Section.BROKER).values()
        }
        if values["broker_conf"].is_default and table.place:
            self._problem(f"{table.place}broker_conf: is missing")
        elif values["broker_conf"].is_default and self._file.brokers is not None:
            self._problem(_NO_BROKER)
        return values

    def _refuse_for_one(self, brokers: int) -> None:
        """Note what flags and variables say of one broker where there are several."""
        for option in OPTIONS:
            if option.section is Section.BROKER:
                for place, _ in self._said(option, ()):
                    self._problem(f"{place}: names one broker, and agent.toml has {brokers}: say it there")

    def _registry(
        self, values: Mapping[str, Value], brokers: Sequence[Mapping[str, Value]]
    ) -> RegistryConfig:
        """Return the settings of the registry, of which each has been looked at alone."""
        settings = {option.key: values[option.key].value for option in of(Section.STORE).values()}
        del settings["url"]
        if values["call_deadline_s"].is_default:
            shortest_s = min(broker["heartbeat_s"].value for broker in brokers)
            settings["call_deadline_s"] = max(_SHORTEST_CALL_S, min(settings["call_deadline_s"], shortest_s))
        return RegistryConfig(**settings)

    def _broker(
        self, values: Mapping[str, Value], redis_url: str, registry: RegistryConfig
    ) -> BrokerSettings | AwaitedBroker | None:
        """Return the settings of a broker; None = there are problems."""
        path = values["broker_conf"].value
        if path is None:
            return None
        if not self._fit(values, registry):
            registry = _LONGEST  # what else is wrong is to be found, too
        try:
            return settings_of(values, redis_url, registry)
        except InvalidInput as error:
            several = len(self._file.brokers or ()) > 1
            for line in str(error).splitlines():
                named = not several or line.startswith(str(path))
                self._problem(line if named else f"{path}: {line}")
            return None

    def _fit(self, broker: Mapping[str, Value], registry: RegistryConfig) -> bool:
        """Whether lease and heartbeat fit together; if not, all that somebody said of them is named."""
        try:
            AgentConfig(broker=_ANY_BROKER, heartbeat_s=broker["heartbeat_s"].value, registry=registry)
        except InvalidInput as error:
            said = {key: {**self._process, **broker}[key] for key in _OF_THE_LEASE if key in str(error)}
            places = [value.place for value in said.values() if not value.is_default]
            self._problem(f"{', '.join(places)}: {error}")
            return False
        return True

    def _problem(self, text: str) -> None:
        """Note a problem, once: what is said of all brokers is looked at for each of them."""
        if text not in self.problems:
            self.problems.append(text)


def _check(option: Option, value: Any) -> None:
    """Raise InvalidInput for a value that could not be used whatever the other settings are."""
    if option.key == "url":
        parse_url(value)
    elif option.key == "http":
        HttpAddress.parse(value)
    elif option.kind is Kind.ADDRESSES:
        for address in value:
            check_address(option.key.replace("_", " "), address)
    elif option.key == "master_hook":
        AgentConfig(broker=_ANY_BROKER, master_hook=value)
    elif option.kind is Kind.ADDRESS:
        check_address(option.key.replace("_", " "), value)
    elif option.section is Section.STORE:
        RegistryConfig(**{option.key: value})
    elif option.each_broker:
        AgentConfig(broker=_ANY_BROKER, topics_path=Path(), registry=_LONGEST, **{option.key: value})
