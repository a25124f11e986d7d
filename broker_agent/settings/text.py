"""Writes settings as an agent.toml with the place of each value, and with passwords masked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from ...daemon.option import DEFAULT, MASK, Kind, Option, Value, masked
from ..config import Section
from ..rocketmq.properties import OVERRIDE, of_file
from .sidecar_config import (
    OPTIONS,
    AwaitedBroker,
    BrokerSettings,
    SidecarConfig,
    options_in,
)


def as_toml(config: SidecarConfig) -> str:
    """Return the settings in effect; those of a broker.conf are comments."""
    return "\n".join(_lines(config)) + "\n"


def _lines(config: SidecarConfig) -> Iterator[str]:
    for section in (Section.STORE, Section.AGENT):
        yield f"[{section}]"
        for option in OPTIONS:
            if option.section is section:
                yield _line(option, config.values[option.key])
        yield ""
    brokers: tuple[BrokerSettings | AwaitedBroker, ...] = (*config.brokers, *config.awaited)
    for broker in brokers:
        yield from _broker(broker, config)
        yield ""


def _broker(broker: BrokerSettings | AwaitedBroker, config: SidecarConfig) -> Iterator[str]:
    yield "[[broker]]"
    for option in options_in(Section.BROKER).values():
        value = broker.values[option.key]
        inherited = option.each_broker and value == config.values[option.key]
        if not inherited and value.value not in (None, "", {}):
            yield _line(option, value)
    if isinstance(broker, AwaitedBroker):
        yield f"# {' '.join(broker.why.split())}"
        return
    for name, said, place in _of_broker_conf(broker):
        yield f"# {name} = {_toml(said)}  # {place}"


def _of_broker_conf(broker: BrokerSettings) -> Iterator[tuple[str, str, str]]:
    """Yield what comes from the broker.conf and RocketMQ's defaults: name, value, place."""
    config, places = broker.config, _Places(broker)
    its = config.broker
    yield "brokerName", its.broker_name, places.of("brokerName", "default: the name of this host")
    if config.elected:
        by = places.of("enableControllerMode", "") or places.of("enableDLegerCommitLog")
        yield "brokerId", "elected while it runs", by
    elif its.broker_id:
        yield "brokerId", str(its.broker_id), places.of("brokerId")
    else:  # whatever stands there (RocketMQ: BrokerStartup)
        yield "brokerId", "0", f"of a master; brokerRole: {places.of('brokerRole')}"
    yield "brokerClusterName", its.cluster, places.of("brokerClusterName")
    yield "brokerPermission", str(config.broker_permission), places.of("brokerPermission")
    if broker.values["broker_address"].is_default:
        host = places.of("brokerIP1", "default: the address of this host")
        yield "broker_address", its.address, f"brokerIP1: {host}; listenPort: {places.of('listenPort')}"
    if broker.values["topics"].is_default:
        root = places.of("storePathRootDir", "default: below this user's home")
        yield "topics", str(config.topics_path), root


class _Places:
    """Where the broker.conf, or an override of it, sets a setting of the broker."""

    def __init__(self, broker: BrokerSettings) -> None:
        path, self._overrides = broker.values["broker_conf"].value, broker.values["overrides"]
        try:
            content = path.read_bytes()
        except OSError:  # it was there a moment ago
            content = b""
        self._conf = of_file(content, str(path), self._overrides.value)

    def of(self, key: str, otherwise: str = DEFAULT) -> str:
        place = self._conf.place_of(key) or otherwise
        return self._overrides.place if place == OVERRIDE else place


def _line(option: Option, value: Value) -> str:
    shown: Any = masked(value.value) if option.kind is Kind.URL else value.value
    if option.kind is Kind.SECRET and shown:
        shown = MASK
    # What is not set has no value in TOML, and a secret is not taken from there.
    comment = "# " if shown is None or option.kind is Kind.SECRET else ""
    return f"{comment}{option.key} = {_toml('' if shown is None else shown)}  # {value.place}"


def _toml(value: Any) -> str:
    """Return a string, a number, an array or a table of them as TOML writes it."""
    if isinstance(value, str | Path):
        return orjson.dumps(str(value)).decode().replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(key)} = {_toml(said)}" for key, said in value.items()) + " }"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)
