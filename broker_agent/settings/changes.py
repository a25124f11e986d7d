"""Compares two configurations of the process: what a reload can apply, and what has to wait for a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from ...registry import InvalidInput
from ..config import AgentConfig
from ..option import OPTIONS
from .sidecar_config import AwaitedBroker, BrokerSettings, SidecarConfig, Value

_RESTART: Final = "restart the agent to apply it"
_AS_BEFORE: Final = "its agent goes on with what it has read before"
_LIVE: Final = frozenset(("log_format", "log_level"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a reload does; brokers are the same when their broker.conf has the same path."""

    config: SidecarConfig
    """What counts from now on: the new log, the new brokers, and all else as it was."""

    new: tuple[AgentConfig, ...]
    gone: frozenset[Path | None]
    """The broker.conf of the brokers that are no longer there."""

    need_restart: tuple[str, ...]
    """What has changed and is not applied: a sentence each."""


def changes(old: SidecarConfig, new: SidecarConfig) -> Changes:
    """Return what is to be done to get from one configuration to another.

    New brokers get the store as it was. Raises InvalidInput when one of them cannot be used with that.
    """
    before = {broker.config.broker_conf_path: broker for broker in old.brokers}
    after = {broker.config.broker_conf_path: broker for broker in new.brokers}
    unread = {broker.path: broker for broker in new.awaited}
    added = [_with_store_of(old, broker) for path, broker in after.items() if path not in before]
    unchanged = [broker for path, broker in before.items() if path in unread]
    stays = [broker for path, broker in before.items() if path in after]
    need_restart = _of_process(old, new)
    need_restart += [f"{one.why}: {_AS_BEFORE}" for path, one in unread.items() if path in before]
    for broker in stays:
        need_restart += _of_broker(broker, after[broker.config.broker_conf_path])
    return Changes(
        config=replace(
            old,
            log_format=new.log_format,
            log_level=new.log_level,
            values={**old.values, **{key: new.values[key] for key in _LIVE}},
            brokers=(*stays, *unchanged, *added),
            awaited=tuple(_awaited(old, broker) for path, broker in unread.items() if path not in before),
            warnings=new.warnings,
        ),
        new=tuple(broker.config for broker in added),
        gone=frozenset(before.keys() - after.keys() - unread.keys()),
        need_restart=tuple(need_restart),
    )


def _with_store_of(old: SidecarConfig, broker: BrokerSettings) -> BrokerSettings:
    try:
        config = replace(broker.config, registry=old.registry, redis_url=old.redis_url)
    except InvalidInput as error:
        why = f"{error} (what [store] says now counts after a restart)"
        raise InvalidInput(f"{broker.config.broker_conf_path}: {why}") from error
    return replace(broker, config=config)


def _awaited(old: SidecarConfig, broker: AwaitedBroker) -> AwaitedBroker:
    return replace(broker, read=partial(_read, old, broker))


def _read(old: SidecarConfig, broker: AwaitedBroker) -> BrokerSettings | AwaitedBroker:
    found = broker.read()
    return found if isinstance(found, AwaitedBroker) else _with_store_of(old, found)


def _of_process(old: SidecarConfig, new: SidecarConfig) -> list[str]:
    keys = [option.key for option in OPTIONS if option.key in old.values and not option.each_broker]
    return [
        f"{_named(key, new.values)} has changed: {_RESTART}"
        for key in keys
        if key not in _LIVE and old.values[key].value != new.values[key].value
    ]


def _of_broker(old: BrokerSettings, new: BrokerSettings) -> list[str]:
    return [
        f"{_named(key, new.values)} of {old.config.broker_conf_path} has changed: {_RESTART}"
        for key in old.values
        if old.values[key].value != new.values[key].value
    ]


def _named(key: str, values: Mapping[str, Value]) -> str:
    place = values[key].place
    return key if values[key].is_default else f"{key} ({place})"
