"""Makes the settings of one broker's agent from what was said of it and from its broker.conf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from ...registry import InvalidInput, RegistryConfig
from ..config import AgentConfig, TopicsFrom
from ..option import OPTIONS
from ..rocketmq import broker_conf
from ..rocketmq.broker_conf import BrokerConf
from ..rocketmq.conf_values import OVERRIDE, of_file
from .from_broker_conf import agent_config
from .sidecar_config import AwaitedBroker, BrokerSettings, Value


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
        why = f"{path}: cannot be read: {error.strerror}"
        return AwaitedBroker(values, why, partial(settings_of, values, redis_url, registry))
    conf = broker_conf.read(
        path,
        address=values["broker_address"].value,
        zone=values["zone"].value,
        overrides=values["overrides"].value,
    )
    return BrokerSettings(values, _config(conf, values, redis_url, registry), partial(_place, values))


def _place(values: Mapping[str, Value], key: str) -> str:
    """Return where a setting of the broker is said, by its key in broker.conf; '' = nowhere."""
    path, overrides = values["broker_conf"].value, values["overrides"]
    try:
        place = of_file(path.read_bytes(), str(path), overrides.value).place_of(key)
    except OSError:  # it was there a moment ago
        return ""
    return overrides.place if place == OVERRIDE else place


def _config(
    conf: BrokerConf, values: Mapping[str, Value], redis_url: str, registry: RegistryConfig
) -> AgentConfig:
    return agent_config(
        conf,
        topics_path=values["topics"].value,
        broker_conf_path=values["broker_conf"].value,
        advertised=values["broker_address"].value,
        zone=values["zone"].value,
        overrides=values["overrides"].value,
        topics_from=TopicsFrom(values["topics_from"].value),
        probe=values["probe"].value,
        master_file=values["master_file"].value,
        master_hook=values["master_hook"].value,
        filter_servers=values["filter_servers"].value,
        redis_url=redis_url,
        registry=registry,
        **{option.key: values[option.key].value for option in OPTIONS if option.each_broker},
    )


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
