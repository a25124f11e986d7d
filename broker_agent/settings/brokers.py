"""The settings of one broker's agent: made with its broker.conf, which may come later than the agent."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ...registry import InvalidInput, RegistryConfig
from ..config import AGENT_OPTIONS, AgentConfig
from ..daemon_threads import in_thread
from ..rocketmq import broker_conf
from ..rocketmq.broker_conf import BrokerConf, OperatorSettings
from ..topic_sources import choose
from .sidecar_config import AwaitedBroker, BrokerSettings, SidecarConfig, Value

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")


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
    choice = choose(config, conf)
    return replace(config, topics_from=choice.source, topics_why=choice.why)


def settings_of(
    values: Mapping[str, Value], redis_url: str, registry: RegistryConfig
) -> BrokerSettings | AwaitedBroker:
    """Return what the values and the broker.conf make; raises InvalidInput with what is wrong there."""
    path = values["broker_conf"].value
    if path.is_fifo():  # to open one may wait for ever, and nobody can look at it twice
        raise InvalidInput(f"{path}: is no regular file: the broker's broker.conf is expected")
    try:
        path.open("rb").close()
    except OSError as error:
        # Not there, or not for us: whoever puts it there may be started after the agent.
        return AwaitedBroker(values, f"{path}: cannot be read: {error.strerror}")
    said = {one.attribute: values[one.key].value for one in AGENT_OPTIONS}
    operator = OperatorSettings(said["advertised"], said["zone"], said["overrides"])
    conf = broker_conf.read(path, operator)
    return BrokerSettings(values, agent_config(conf, redis_url=redis_url, registry=registry, **said))


def with_path(path: Path | None, problem: str) -> str:
    """Return what is wrong with the settings of a broker, with the path of its broker.conf."""
    return problem if problem.startswith(str(path)) else f"{path}: {problem}"


def twins(configs: Iterable[AgentConfig]) -> list[str]:
    """Return what is wrong where two are the same broker: a sentence each."""
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


@dataclass(slots=True)
class _Waiting:
    broker: AwaitedBroker
    why: str


class Awaiting:
    """Looks at files that could not be read; each problem with one is logged once."""

    def __init__(self) -> None:
        self._waiting: dict[Path, _Waiting] = {}

    @property
    def why(self) -> tuple[str, ...]:
        """Why brokers are waited for: a sentence each."""
        return tuple(f"{one.why}: waiting for it" for one in self._waiting.values())

    def wait_for(self, brokers: Sequence[AwaitedBroker]) -> None:
        """Wait for these, and for no others any more."""
        before, self._waiting = self._waiting, {}
        for broker in brokers:
            known = before.get(broker.path)
            if known is None:
                _LOG.warning("%s: waiting for it", broker.why)
            self._waiting[broker.path] = _Waiting(broker, known.why if known else broker.why)

    async def look(self, current: Callable[[], SidecarConfig]) -> AsyncGenerator[BrokerSettings, None]:
        """Look at every file once, and yield the brokers that can be started besides the `current` ones."""
        for path, waiting in list(self._waiting.items()):
            config = current()
            try:
                read = await in_thread(settings_of, waiting.broker.values, config.redis_url, config.registry)
            except InvalidInput as error:
                self._say(waiting, "; ".join(with_path(path, line) for line in str(error).splitlines()))
                continue
            if self._waiting.get(path) is not waiting:  # a reload came between
                continue
            if isinstance(read, AwaitedBroker):
                self._say(waiting, read.why)
            elif same := twins((*current().agents, read.config)):
                self._say(waiting, same[0])
            else:
                del self._waiting[path]
                yield read

    def _say(self, waiting: _Waiting, why: str) -> None:
        if why != waiting.why:
            waiting.why = why
            _LOG.warning("%s: waiting for it", why)
