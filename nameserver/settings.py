"""Puts the settings of the process together: flags before environment before namesrv.conf before defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..daemon.option import Kind, Option, Value, masked, nearest
from ..daemon.sources import Sources, unknown_variables
from ..registry import InvalidInput
from ..remoting.properties import MalformedEscape, parse
from .config import FRONT_OPTIONS, FRONT_PREFIX, FrontConfig
from .process_config import DEFAULT_LISTEN, OPTIONS, ProcessConfig, address_of

CONFIG_FLAG: Final = "--config"
CONFIG_VARIABLE: Final = f"{FRONT_PREFIX}CONFIG"

_HOST: Final = "bindAddress"
"""The host of `listen` has a key of its own in RocketMQ."""

_IN_THE_STORE: Final = "is in the shared store"
_NO_POOLS: Final = "there are no pools of threads: see workers"
_BY_ITSELF: Final = "the system and the event loop see to it"
NO_EFFECT: Final = {
    "rocketmqHome": "nothing is read there",
    "kvConfigPath": f"the key-value store {_IN_THE_STORE}",
    "configStorePath": "changes by mqadmin last until a restart",
    "configBlackList": "only what is harmless can be changed",
    "productEnvName": "there is no cluster test mode",
    "clusterTest": "there is no cluster test mode",
    "clientRequestThreadPoolNums": _NO_POOLS,
    "clientRequestThreadPoolQueueCapacity": _NO_POOLS,
    "defaultThreadPoolNums": _NO_POOLS,
    "defaultThreadPoolQueueCapacity": _NO_POOLS,
    "serverWorkerThreads": _NO_POOLS,
    "serverSelectorThreads": _NO_POOLS,
    "serverCallbackExecutorThreads": _NO_POOLS,
    "serverOnewaySemaphoreValue": _NO_POOLS,
    "serverAsyncSemaphoreValue": _NO_POOLS,
    "serverNettyWorkerGroupEnable": _NO_POOLS,
    "serverSocketSndBufSize": _BY_ITSELF,
    "serverSocketRcvBufSize": _BY_ITSELF,
    "serverSocketBacklog": _BY_ITSELF,
    "writeBufferHighWaterMark": _BY_ITSELF,
    "writeBufferLowWaterMark": _BY_ITSELF,
    "serverPooledByteBufAllocatorEnable": _BY_ITSELF,
    "useEpollNativeSelector": _BY_ITSELF,
    "enableShutdownGracefully": "every end is graceful",
    "scanNotActiveBrokerInterval": "leases end by themselves",
    "unRegisterBrokerQueueCapacity": "an unregistration is done when it is answered",
    "needWaitForService": "the first answer has every route",
    "waitSecondsForService": "the first answer has every route",
    "enableControllerInNamesrv": "run RocketMQ's controller as a process of its own",
}
"""Keys of RocketMQ that a front has no use for, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one process does."""

    values: Mapping[str, Value] = field(repr=False)  # may hold a password
    """Every setting by key."""

    process: ProcessConfig = field(repr=False)
    front: FrontConfig
    warnings: tuple[str, ...] = ()
    """Probable mistakes that do no other harm."""


def property_of(option: Option) -> str:
    """Return the name of a setting in namesrv.conf: RocketMQ's, or its own in the same style."""
    if option.original:
        return option.original
    first, *rest = option.flag.removeprefix("--").split("-")
    return first + "".join(word.capitalize() for word in rest)


_BY_PROPERTY: Final = {property_of(option): option for option in OPTIONS}


def load(flags: Mapping[str, str], environment: Mapping[str, str]) -> Settings:
    """Return the settings of flags (by name, as `--redis`), environment and namesrv.conf together.

    Raises InvalidInput with all problems: a line each, which names the flag, the variable or the key.
    """
    loader = _Loader(flags, environment)
    values = {option.key: loader.picked(option) for option in OPTIONS}
    if loader.problems:
        raise InvalidInput("\n".join(loader.problems))
    given = {option.attribute: values[option.key].value for option in OPTIONS}
    front = FrontConfig(**{option.attribute: given.pop(option.attribute) for option in FRONT_OPTIONS})
    try:
        process = ProcessConfig(**given)
    except InvalidInput as error:
        raise InvalidInput(_with_flag(str(error))) from None
    known = {one.variable for one in OPTIONS} | {CONFIG_VARIABLE}
    odd = unknown_variables(environment, known, prefix=FRONT_PREFIX, whose="the name server")
    warnings = (*loader.warnings, *odd)
    return Settings(values=values, process=process, front=front, warnings=warnings)


def switches(config: FrontConfig) -> dict[str, str]:
    """Return what may be changed at run time, by its name in namesrv.conf."""
    return {
        property_of(one): _text(one, getattr(config, one.attribute))
        for one in FRONT_OPTIONS
        if _is_switch(one)
    }


def _is_switch(option: Option) -> bool:
    return option.kind is Kind.SWITCH and option.is_live


def changed(config: FrontConfig, properties: Mapping[str, str]) -> FrontConfig:
    """Return the settings after a change of some at run time; raises InvalidInput for one that is fixed."""
    found: dict[str, Any] = {}
    for name, text in properties.items():
        option = _BY_PROPERTY.get(name)
        if option is None or not _is_switch(option):
            raise InvalidInput(f"{name}: cannot be changed while the front runs")
        try:
            found[option.attribute] = option.from_text(text)
        except InvalidInput as error:
            raise InvalidInput(f"{name}: {error}") from None
    return replace(config, **found)


def as_properties(process: ProcessConfig, front: FrontConfig) -> dict[str, str]:
    """Return every setting by its name in namesrv.conf, with passwords masked."""
    found = {_HOST: address_of(process.listen)[0]}
    for one in OPTIONS:
        value = getattr(front if one in FRONT_OPTIONS else process, one.attribute)
        found[property_of(one)] = _text(one, value)
    return found


def as_file(settings: Settings) -> str:
    """Return the settings in effect as a namesrv.conf, with the place of each."""
    texts, lines = as_properties(settings.process, settings.front), []
    for option in OPTIONS:
        name = property_of(option)
        lines.append(f"# {settings.values[option.key].place}")
        if name == "listenPort":
            lines.append(f"{_HOST}={texts[_HOST]}")
        lines.append(f"{'' if texts[name] else '# '}{name}={_escaped(texts[name])}")
    return "\n".join(lines) + "\n"


def _text(option: Option, value: Any) -> str:
    if option.original == "listenPort":
        return str(address_of(value)[1])
    if option.kind is Kind.URL:
        return masked(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\")


def _with_flag(problem: str) -> str:
    key, _, rest = problem.partition(": ")
    found = next((option.flag for option in OPTIONS if option.key == key), key)
    return f"{found}: {rest}"


class _Line(NamedTuple):
    """A key of namesrv.conf."""

    place: str
    text: str


class _Loader(Sources):
    """Finds the value of each setting, and collects the problems and what is odd about namesrv.conf."""

    def __init__(self, flags: Mapping[str, str], environment: Mapping[str, str]) -> None:
        super().__init__(flags, environment, flag=CONFIG_FLAG, variable=CONFIG_VARIABLE)
        self._file: dict[str, _Line] = {}
        self.warnings: list[str] = []
        if self.path is not None:
            self._read(self.path)

    def picked(self, option: Option) -> Value:
        """Return the value in effect."""
        line = self._file.get(property_of(option))
        return self.pick(option, (line.place, partial(option.from_text, line.text)) if line else None)

    def _read(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            self.problem(f"{path}: cannot be read: {error.strerror}")
            return
        try:
            for line, key, value in parse(content):
                if text := value.strip():
                    self._file[key] = _Line(f"{path}:{line}: {key}", text)
        except MalformedEscape as error:
            self.problem(f"{path}:{error.line}: {error}")
        self._put_host_before_port()
        self.warnings += [warning for key, line in self._file.items() if (warning := _warning(key, line))]

    def _put_host_before_port(self) -> None:
        host, port = self._file.pop(_HOST, None), self._file.get("listenPort")
        if host is not None:
            name = f"[{host.text}]" if ":" in host.text else host.text
            number = port.text if port else str(address_of(DEFAULT_LISTEN)[1])
            self._file["listenPort"] = _Line((port or host).place, f"{name}:{number}")


def _warning(key: str, line: _Line) -> str:
    """Return what is odd about a key of namesrv.conf; empty = nothing."""
    if key in _BY_PROPERTY:
        return ""
    if why := NO_EFFECT.get(key):
        return f"{line.place}: has no effect: {why}"
    return f"{line.place}: is not a setting and is ignored{nearest(key, [*_BY_PROPERTY])}"
