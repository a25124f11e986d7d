"""What changes while the process runs: reloads of its settings, and brokers whose broker.conf comes later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ...daemon.option import Value
from ...registry import InvalidInput
from ..config import AgentConfig
from .loader import settings_of, twins, with_path
from .sidecar_config import OPTIONS, AwaitedBroker, BrokerSettings, SidecarConfig

_RESTART: Final = "restart the agent to apply it"
_AS_BEFORE: Final = "its agent continues with what it read before"
_LIVE: Final = frozenset(one.key for one in OPTIONS if one.is_live)
_OF_BROKERS: Final = frozenset(one.key for one in OPTIONS if one.each_broker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a reload does; brokers are the same when their broker.conf has the same path."""

    config: SidecarConfig
    """The settings from now on: live settings and brokers are new, all else is as it was."""

    new: tuple[AgentConfig, ...]
    gone: frozenset[Path | None]
    """The broker.conf of the brokers that are no longer there."""

    need_restart: tuple[str, ...]
    """A sentence for each change that is not applied."""


def changes(old: SidecarConfig, new: SidecarConfig) -> Changes:
    """Return the changes from one configuration to another.

    New brokers get the store as it was. Raises InvalidInput when one of them cannot be used with that.
    """
    before = {broker.config.broker_conf_path: broker for broker in old.brokers}
    after = {broker.config.broker_conf_path: broker for broker in new.brokers}
    unread = {broker.path: broker for broker in new.awaited}
    known = {broker.path: broker for broker in old.awaited}  # why it is awaited was logged
    added = [_with_store_of(old, broker) for path, broker in after.items() if path not in before]
    need_restart = _changed(old.values, new.values, "", _LIVE | _OF_BROKERS)
    need_restart += [f"{one.why}: {_AS_BEFORE}" for path, one in unread.items() if path in before]
    for path, broker in before.items():
        if path in after:
            need_restart += _changed(broker.values, after[path].values, f" of {path}")
    return Changes(
        config=replace(
            old,
            values={**old.values, **{key: new.values[key] for key in _LIVE}},
            brokers=(
                *(broker for path, broker in before.items() if path in after),
                *(broker for path, broker in before.items() if path in unread),
                *added,
            ),
            awaited=tuple(
                replace(broker, why=known[path].why) if path in known else broker
                for path, broker in unread.items()
                if path not in before
            ),
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
        why = f"{error} (a change of [store] takes effect after a restart)"
        raise InvalidInput(with_path(broker.config.broker_conf_path, why)) from error
    return replace(broker, config=config)


def _changed(
    old: Mapping[str, Value], new: Mapping[str, Value], whose: str, besides: frozenset[str] = frozenset()
) -> list[str]:
    """Return a sentence for each setting that waits for a restart."""
    return [
        f"{key}{'' if said.is_default else f' ({said.place})'}{whose} has changed: {_RESTART}"
        for key, said in new.items()
        if key not in besides
        and old[key].value != said.value
        # A default that follows other settings needs no word of its own.
        and not (old[key].is_default and said.is_default)
    ]


def looked_again(broker: AwaitedBroker, config: SidecarConfig) -> BrokerSettings | AwaitedBroker:
    """Read the broker.conf of an awaited broker; return it with another `why` where it cannot be started."""
    try:
        found = settings_of(broker.values, config.redis_url, config.registry)
    except InvalidInput as error:
        why = "; ".join(with_path(broker.path, line) for line in str(error).splitlines())
        return AwaitedBroker(broker.values, why)
    if isinstance(found, BrokerSettings) and (same := twins((*config.agents, found.config))):
        return AwaitedBroker(broker.values, same[0])
    return found
