"""Follows what a broker is: by its broker.conf and its settings, or by asking it where roles are elected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Final

from ...registry import Broker, InvalidInput
from ...registry.checks import split_address
from ...remoting.broker.client import (
    Access,
    BrokerCallError,
    BrokerRefused,
    BrokerUnreachable,
    configuration,
    poll,
)
from .. import file_watch
from ..config import PROBE_ATTEMPTS, AgentConfig
from ..planner.events import RoleFound
from ..rocketmq import broker_conf
from .identity import ConfiguredRole, RoleChanges, RoleEvent, parse_conf, site_of

_ELECTED_S: Final = 1.0
"""Between two questions to a broker whose role is elected."""

_RETRY_S: Final = 0.1
"""After a failure, as long as there were few of them."""

_CONFIGURED_S: Final = 10.0
"""Between two questions to a broker whose role is configured."""

_MOST_S: Final = 320.0
"""The longest such time, after ever longer ones, where a broker does not answer, or refuses."""


def roles(
    config: AgentConfig, configured: ConfiguredRole | None = None, access: Access | None = None
) -> AsyncGenerator[RoleEvent, None]:
    """Yield what the broker is, then every change of it, and each trouble once.

    Without a broker.conf to follow, and without an election, it ends after the first. What is known of a
    `configured` role goes on from one time to the next.
    """
    if config.elected:
        return _elected(config, access)
    if config.broker_conf_path is not None:
        return _configured(config, config.broker_conf_path, configured or ConfiguredRole(config))
    return _given(config.broker)


async def _given(broker: Broker) -> AsyncGenerator[RoleEvent, None]:
    yield RoleFound(broker)


async def addresses(config: AgentConfig) -> AsyncGenerator[str, None]:
    """Yield where a broker whose role is elected listens by its broker.conf, whenever that has changed."""
    path, known = config.broker_conf_path, config.broker.address
    if not config.elected or path is None:
        return
    async with aclosing(_settled(path, config.recheck_s)) as contents:
        async for content, is_settled in contents:
            if not is_settled or isinstance(content, OSError):
                continue
            try:
                conf = broker_conf.parse(content, str(path), site_of(config))
            except InvalidInput:  # it counts again when the broker is started with it
                continue
            if conf.broker.address != known:
                known = conf.broker.address
                yield known


async def running_settings(
    config: AgentConfig, again: asyncio.Event, access: Access | None = None
) -> AsyncGenerator[bytes | None, None]:
    """Yield the settings that a broker with a configured role runs with, when they have changed.

    The file alone does not tell: the broker may not be able to write it. None = it does not answer any more.
    It is asked at first, every 10 s, when `again` is set, and when the connection was closed. One that does
    not answer, refuses or does not speak the protocol is asked less and less often, and that is not reported.
    """
    if config.elected or config.broker_conf_path is None:
        return
    known: bytes | None = None
    wait_s = _CONFIGURED_S

    def retry_s(error: BrokerCallError) -> float:
        nonlocal wait_s
        pause_s = _MOST_S if isinstance(error, BrokerRefused) else wait_s
        wait_s = min(pause_s * 2, _MOST_S)
        return pause_s

    answers = poll(
        split_address(config.probe_address),
        lambda client: configuration(client, config.probe_deadline_s),
        rest_s=lambda: _CONFIGURED_S,
        retry_s=retry_s,
        deadline_s=config.probe_deadline_s,
        access=access,
        woken=again,
    )
    async with aclosing(answers):
        async for answer in answers:
            text = None if isinstance(answer, BrokerCallError) else answer
            if text is not None:
                wait_s = _CONFIGURED_S
            if text != known:
                known = text
                yield text


async def _configured(
    config: AgentConfig, path: Path, role: ConfiguredRole
) -> AsyncGenerator[RoleEvent, None]:
    """Follow a broker.conf; the broker rewrites it when an admin changes something."""
    is_first_look = role.is_new
    role.begin_anew()
    async with aclosing(_settled(path, config.recheck_s)) as contents:
        async for content, is_settled in contents:
            if is_first_look and _agrees(content, path, config):
                for event in role.changes.begin():
                    yield event
            is_first_look = False
            if is_settled:
                for event in role.read(content, path):
                    yield event


async def _settled(path: Path, recheck_s: float) -> AsyncGenerator[tuple[bytes | OSError, bool], None]:
    """Yield what the file holds at each look, and whether it counts: once for each state.

    Half a file is a valid one with fewer settings: what counts has to be there at two looks.
    """
    seen: object = None
    settled: object = None
    async with aclosing(file_watch.contents(path, recheck_s=recheck_s)) as contents:
        async for content in contents:
            if content is None:
                continue
            found = content if isinstance(content, OSError) else bytes(content)
            state = str(found) if isinstance(found, OSError) else found
            is_settled = state == seen and state != settled
            if is_settled:
                settled = state
            seen = state
            yield found, is_settled


def _agrees(content: bytes | OSError, path: Path, config: AgentConfig) -> bool:
    """Whether the file says what the agent was started with: then one look is enough."""
    try:
        return parse_conf(content, path, config).broker == config.broker
    except InvalidInput:
        return False


async def _elected(config: AgentConfig, access: Access | None) -> AsyncGenerator[RoleEvent, None]:
    """Ask the broker every second what it is: roles change while it runs."""
    changes = RoleChanges(config.broker)
    failures = 0
    answers = poll(
        split_address(config.probe_address),
        lambda client: configuration(client, config.probe_deadline_s),
        rest_s=lambda: _ELECTED_S,
        retry_s=lambda _: _RETRY_S if failures < PROBE_ATTEMPTS else _ELECTED_S,
        deadline_s=config.probe_deadline_s,
        access=access,
    )
    async with aclosing(answers):
        async for answer in answers:
            if isinstance(answer, BrokerCallError):
                failures += 1
                # A lost connection or a pause of the garbage collector is no reason to take a broker away.
                is_refused = isinstance(answer, BrokerUnreachable) and answer.refused
                is_gone = is_refused or failures >= PROBE_ATTEMPTS
                events = changes.unknown(str(answer)) if is_gone else []
            else:
                failures = 0
                events = _answered(changes, answer, config)
            for event in events:
                yield event


def _answered(changes: RoleChanges, text: bytes, config: AgentConfig) -> list[RoleEvent]:
    address = config.probe_address
    try:
        conf = broker_conf.parse_running(text, address, site_of(config))
    except InvalidInput as error:
        why = f"what the broker says of itself is wrong: {error}"
        changes.failed(why)
        return changes.unknown(why)
    if conf is None:
        return changes.unknown(f"{address}: it has no role yet, or is changing it")
    events = changes.found(conf, address)
    if not changes.is_ours(conf.broker):
        events += changes.unknown(f"{address}: another broker is there")
    return events
