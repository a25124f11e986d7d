"""Tells what a broker is, and when that changes: by its broker.conf, or by asking it if roles are elected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, TypedDict

from ...registry import Broker, InvalidInput
from ...registry.checks import split_address
from ..config import PROBE_ATTEMPTS, AgentConfig
from ..planner.events import RoleFound, RoleUnknown, Say
from ..rocketmq import broker_conf
from ..rocketmq.access import Access
from ..rocketmq.broker_client import BrokerCallError, BrokerClient, BrokerUnreachable, configuration
from ..rocketmq.broker_conf import BrokerConf
from ..topic_sources import file_watch
from .identity import Identity

_ASK_S: Final = 1.0
"""Between two questions to a broker whose role is elected."""

_RETRY_S: Final = 0.1
"""After a failure, as long as there were few of them."""


@dataclass(frozen=True, slots=True)
class PermissionFound:
    """The broker as a whole permits this now (RocketMQ: brokerPermission): for TopicSource.permit."""

    broker_permission: int


class _Said(TypedDict):
    """What an operator has set besides the broker.conf, as arguments of broker_conf.parse and its like."""

    address: str
    zone: str
    overrides: Mapping[str, str]


RoleEvent: TypeAlias = RoleFound | RoleUnknown | PermissionFound | Say


async def roles(
    config: AgentConfig, configured: Configured | None = None, access: Access | None = None
) -> AsyncGenerator[RoleEvent, None]:
    """Yield what the broker is, then every change of it, and each trouble once.

    Without a broker.conf to follow, and without an election, it ends after the first. What is known of a
    `configured` role goes on from one time to the next.
    """
    if config.elected:
        events = _elected(config, access)
    elif config.broker_conf_path is not None:
        known = configured if configured is not None else Configured(config)
        events = _configured(config, config.broker_conf_path, known)
    else:
        yield RoleFound(config.broker)
        return
    async with aclosing(events):
        async for event in events:
            yield event


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
                conf = broker_conf.parse(content, str(path), broker_conf.this_host(), **_said(config))
            except InvalidInput:  # it counts again when the broker is started with it
                continue
            if conf.broker.address != known:
                known = conf.broker.address
                yield known


class RoleKeeper:
    """Turns what is read again and again into what has changed: pure."""

    def __init__(self, broker: Broker) -> None:
        self._ours = broker
        self._permission: int | None = None
        self._told: RoleFound | RoleUnknown | None = None
        self._trouble = ""
        self._warned = False

    @property
    def problem(self) -> str:
        """What is wrong with where the role is read; empty = nothing, and what it says counts."""
        return self._trouble

    def begin(self) -> list[RoleEvent]:
        """Return the first finding: what the agent was started with is still so."""
        return self._tell(RoleFound(self._ours))

    def is_ours(self, broker: Broker) -> bool:
        """Whether it is the broker that the agent is for, whatever its role."""
        return (broker.broker_name, broker.cluster) == (self._ours.broker_name, self._ours.cluster)

    def found(self, conf: BrokerConf, source: str) -> list[RoleEvent]:
        """Take what the broker is said to be; another broker than ours is reported, and not followed."""
        ours, broker = self._ours, conf.broker
        warned = self._warn_of_name(conf, source)
        if not self.is_ours(broker):
            text = (
                f"{source}: is about broker {broker.broker_name!r} of cluster {broker.cluster!r}, and this "
                f"agent is for {ours.broker_name!r} of {ours.cluster!r}; restart the agent if that is wrong"
            )
            return [*warned, *self.trouble(text)]
        mended: list[RoleEvent] = [Say(logging.INFO, f"{source}: is in order again")] if self._trouble else []
        self._trouble = ""
        permission: list[RoleEvent] = []
        if conf.broker_permission != self._permission:
            self._permission = conf.broker_permission
            permission = [PermissionFound(conf.broker_permission)]
        return [*warned, *mended, *permission, *self._tell(RoleFound(broker))]

    def unknown(self, why: str) -> list[RoleEvent]:
        """Take that nobody can say what the broker is."""
        return self._tell(RoleUnknown(why))

    def trouble(self, text: str) -> list[RoleEvent]:
        """Report what is wrong, once; what was found before stays."""
        if text == self._trouble:
            return []
        self._trouble = text
        return [Say(logging.ERROR, text)]

    def _warn_of_name(self, conf: BrokerConf, source: str) -> list[RoleEvent]:
        if conf.named or self._warned:
            return []
        self._warned = True
        name = conf.broker.broker_name
        text = f"{source}: brokerName is not set, so that the broker is {name!r} after its host: set it"
        return [Say(logging.WARNING, text)]

    def _tell(self, event: RoleFound | RoleUnknown) -> list[RoleEvent]:
        if event == self._told:
            return []
        self._told = event
        return [event]


class Configured:
    """What is known of a broker whose role is configured; a method returns what has changed by it: pure."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._keeper = RoleKeeper(config.broker)
        self._identity = Identity(config.broker)
        self._told = ""
        self.begun = False
        """Whether anything was told yet."""

    @property
    def problem(self) -> str:
        """What is wrong with the broker.conf; empty = nothing, and what it says counts."""
        return self._keeper.problem

    @property
    def waiting(self) -> str:
        """What counts when the broker restarts; empty = nothing."""
        return self._identity.waiting

    def tell_anew(self) -> None:
        """Say all once more, as what was said last may have been lost with who was told."""
        self._keeper = RoleKeeper(self._config.broker)

    def begin(self) -> list[RoleEvent]:
        """Take that the file says what the agent was started with."""
        return self._keeper.begin()

    def filed(self, content: bytes | OSError, path: Path) -> list[RoleEvent]:
        """Take what the broker.conf holds."""
        try:
            conf = _parsed_conf(content, path, self._config)
        except InvalidInput as error:
            return self._keeper.trouble(f"going on with what {path} said before, it is wrong now:\n{error}")
        if not self._keeper.is_ours(conf.broker):
            return self._keeper.found(conf, str(path))
        return self._found(self._identity.filed(conf))

    def said(self, text: bytes | None, address: str) -> list[RoleEvent]:
        """Take what the running broker says of itself; None, and what is no word of this one, say nothing."""
        if text is None:
            return self._found(self._identity.said(None))
        try:
            conf = broker_conf.parse_running(text, address, broker_conf.this_host(), **_said(self._config))
        except InvalidInput:
            conf = None
        ours = conf is not None and not conf.elected and self._keeper.is_ours(conf.broker)
        return self._found(self._identity.said(conf if ours else None))

    def runs(self) -> None:
        """Take that the broker is there."""
        self._identity.runs()

    def ended(self) -> list[RoleEvent]:
        """Take that its process has ended."""
        return self._found(self._identity.ended())

    def _found(self, conf: BrokerConf | None) -> list[RoleEvent]:
        if conf is None:
            return []
        waiting, told = self._identity.waiting, self._told
        self._told = waiting
        path = str(self._config.broker_conf_path)
        said: list[RoleEvent] = (
            [Say(logging.WARNING, f"{path}: {waiting}")] if waiting not in ("", told) else []
        )
        return [*said, *self._keeper.found(conf, path)]


async def _configured(config: AgentConfig, path: Path, known: Configured) -> AsyncGenerator[RoleEvent, None]:
    """Follow a broker.conf; the broker rewrites it when an admin changes something."""
    known.tell_anew()
    first, known.begun = not known.begun, True
    async with aclosing(_settled(path, config.recheck_s)) as contents:
        async for content, is_settled in contents:
            if first and _says(content, path, config):
                for event in known.begin():
                    yield event
            first = False
            if is_settled:
                for event in known.filed(content, path):
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
            what = str(found) if isinstance(found, OSError) else found
            is_settled = what == seen and what != settled
            if is_settled:
                settled = what
            seen = what
            yield found, is_settled


def _says(content: bytes | OSError, path: Path, config: AgentConfig) -> bool:
    """Whether the file agrees with what is known: then one look is enough."""
    try:
        return _parsed_conf(content, path, config).broker == config.broker
    except InvalidInput:
        return False


def _parsed_conf(content: bytes | OSError, path: Path, config: AgentConfig) -> BrokerConf:
    if isinstance(content, OSError):
        raise InvalidInput(f"{path}: cannot be read: {content.strerror}")
    host = broker_conf.this_host()
    conf = broker_conf.parse(content, str(path), host, **_said(config))
    if conf.elected:
        raise InvalidInput(f"{path}: the role is elected now: restart the agent")
    return conf


async def _elected(config: AgentConfig, access: Access | None) -> AsyncGenerator[RoleEvent, None]:
    """Ask the broker every second what it is: roles change while it runs."""
    keeper = RoleKeeper(config.broker)
    host, port = split_address(config.probe_address)
    failures = 0
    while True:
        try:
            connecting = BrokerClient.connect(host, port, deadline_s=config.probe_deadline_s, access=access)
            async with await connecting as client:
                while True:
                    text = await configuration(client, config.probe_deadline_s)
                    failures = 0
                    for event in _from_running(keeper, text, client.address, config):
                        yield event
                    await asyncio.sleep(_ASK_S)
        except BrokerCallError as error:
            failures += 1
            # A lost connection or a pause of the garbage collector is no reason to take a broker away.
            refused = isinstance(error, BrokerUnreachable) and error.refused
            if refused or failures >= PROBE_ATTEMPTS:
                for event in keeper.unknown(str(error)):
                    yield event
        await asyncio.sleep(_RETRY_S if failures < PROBE_ATTEMPTS else _ASK_S)


def _from_running(keeper: RoleKeeper, text: bytes, address: str, config: AgentConfig) -> list[RoleEvent]:
    try:
        conf = broker_conf.parse_running(text, address, broker_conf.this_host(), **_said(config))
    except InvalidInput as error:
        why = f"what the broker says of itself is wrong: {error}"
        return [*keeper.trouble(why), *keeper.unknown(why)]
    if conf is None:
        return keeper.unknown(f"{address}: it has no role yet, or is changing it")
    events = keeper.found(conf, address)
    if not keeper.is_ours(conf.broker):
        events += keeper.unknown(f"{address}: another broker is there")
    return events


def _said(config: AgentConfig) -> _Said:
    return {"address": config.advertised, "zone": config.zone, "overrides": config.overrides}
