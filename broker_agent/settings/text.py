"""Writes settings as an agent.toml that says of each value where it came from, with passwords masked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote_plus

import orjson

from ..option import OPTIONS, Kind, Option, Section, of
from .sidecar_config import DEFAULT, AwaitedBroker, BrokerSettings, SidecarConfig, Value

_MASK: Final = "***"
_USER_AND_PASSWORD: Final = re.compile(r"(?<=://)([^/?#@:]*):([^/?#]*)@")
_OPTION: Final = re.compile(r"([?&]([^=&#]*)=)[^&#]*")
_SECRETS: Final = frozenset(("password", "sentinel_password"))


def masked(url: str) -> str:
    """Return a store URL with *** in place of the passwords."""
    return _OPTION.sub(_masked_option, _USER_AND_PASSWORD.sub(rf"\1:{_MASK}@", url))


def _masked_option(option: re.Match[str]) -> str:
    is_secret = unquote_plus(option[2]).strip().lower() in _SECRETS
    return option[1] + _MASK if is_secret else option[0]


def as_toml(config: SidecarConfig) -> str:
    """Return the settings that count; what a broker.conf says stands there as a comment."""
    return "\n".join(_lines(config)) + "\n"


def _lines(config: SidecarConfig) -> Iterator[str]:
    for section in (Section.STORE, Section.AGENT):
        yield f"[{section}]"
        for option in OPTIONS:
            if option.section is section:
                yield _line(option, config.values[option.key], config)
        yield ""
    brokers: tuple[BrokerSettings | AwaitedBroker, ...] = (*config.brokers, *config.awaited)
    for broker in brokers:
        yield from _broker(broker, config)
        yield ""


def _broker(broker: BrokerSettings | AwaitedBroker, config: SidecarConfig) -> Iterator[str]:
    yield "[[broker]]"
    for option in of(Section.BROKER).values():
        value = broker.values[option.key]
        inherited = option.each_broker and value == config.values[option.key]
        if not inherited and value.value not in (None, "", {}):
            yield _line(option, value, config)
    if isinstance(broker, AwaitedBroker):
        yield f"# {' '.join(broker.why.split())}"
        return
    for name, said, place in _of_broker_conf(broker):
        yield f"# {name} = {_toml(said)}  # {place}"


def _of_broker_conf(broker: BrokerSettings) -> Iterator[tuple[str, str, str]]:
    """Yield what the broker.conf and RocketMQ's defaults make: name, value, and where that is said."""
    config, place = broker.config, broker.places
    its = config.broker
    yield "brokerName", its.broker_name, place("brokerName") or "default: the name of this host"
    yield from _id(broker)
    yield "brokerClusterName", its.cluster, place("brokerClusterName") or DEFAULT
    yield "brokerPermission", str(config.broker_permission), place("brokerPermission") or DEFAULT
    if broker.values["broker_address"].is_default:
        host = place("brokerIP1") or "default: the address of this host"
        port = place("listenPort") or "default"
        yield "broker_address", its.address, f"brokerIP1: {host}; listenPort: {port}"
    if broker.values["topics"].is_default:
        root = place("storePathRootDir") or "default: below this user's home"
        yield "topics", str(config.topics_path), root


def _id(broker: BrokerSettings) -> Iterator[tuple[str, str, str]]:
    """Yield the id; that of a master is 0, whatever stands there (RocketMQ: BrokerStartup)."""
    its, place = broker.config.broker, broker.places
    if broker.config.elected:
        by = place("enableControllerMode") or place("enableDLegerCommitLog")
        yield "brokerId", "elected while it runs", by
        return
    of_master = f"of a master; brokerRole: {place('brokerRole') or DEFAULT}"
    yield "brokerId", str(its.broker_id), place("brokerId") if its.broker_id else of_master


def _line(option: Option, value: Value, config: SidecarConfig) -> str:
    shown: Any = masked(value.value) if option.kind is Kind.URL else value.value
    if option.kind is Kind.SECRET and shown:
        shown = _MASK
    # What is not set has no value in TOML, and a secret is not taken from there.
    comment = "# " if shown is None or option.kind is Kind.SECRET else ""
    place = value.place
    if option.key == "call_deadline_s" and value.is_default and shown != config.registry.call_deadline_s:
        shown, place = config.registry.call_deadline_s, "default: at most heartbeat_s"
    return f"{comment}{option.key} = {_toml('' if shown is None else shown)}  # {place}"


def _toml(value: Any) -> str:
    """Return a string, a number, an array or a table of them as TOML writes it."""
    if isinstance(value, str | Path):
        return orjson.dumps(str(value)).decode().replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(key)} = {_toml(said)}" for key, said in value.items()) + " }"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)
