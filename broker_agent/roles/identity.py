"""Decides what a broker is, and what of that has changed; the file and the broker are read elsewhere."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from ...registry import MASTER_ID, Broker, InvalidInput
from ..config import AgentConfig
from ..planner.events import RoleFound, RoleUnknown
from ..planner.intent import is_same_replica
from ..rocketmq import broker_conf
from ..rocketmq.broker_conf import BrokerConf, Site, this_site


@dataclass(frozen=True, slots=True)
class PermissionFound:
    """The broker as a whole permits this now (RocketMQ: brokerPermission): for TopicSource.permit."""

    broker_permission: int


RoleEvent: TypeAlias = RoleFound | RoleUnknown | PermissionFound

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")


def site_of(config: AgentConfig) -> Site:
    """Return what counts besides the broker.conf, as it is now."""
    return this_site(advertised=config.advertised, zone=config.zone, overrides=config.overrides)


class Identity:
    """What a broker with a configured role is, from its file, its own answers, and whether it runs.

    RocketMQ reads broker.conf when it starts. So another address or id counts when the broker has ended, or
    when it answers the same; all else counts at once. While it answers, it knows its permission best, and
    whether its release knows of acting masters: RocketMQ 5 says so, whatever its file leaves out.
    """

    def __init__(self, broker: Broker) -> None:
        self._file: BrokerConf | None = None
        self._answer: BrokerConf | None = None
        self._broker = broker
        self._runs = False
        self._acting: bool | None = None
        """The last answer about acting masters; None = none, as of RocketMQ 4."""

    @property
    def waiting(self) -> str:
        """What the file says and the running broker is not: for the operator; empty = nothing."""
        if self._file is None or is_same_replica(self._file.broker, self._broker):
            return ""
        new, old = self._file.broker, self._broker
        text = f"broker.conf says id {new.broker_id} at {new.address} now, and the running broker is"
        return f"{text} {old.broker_id} at {old.address}: it counts when the broker restarts"

    def read(self, conf: BrokerConf) -> BrokerConf:
        """Take what the file says; return what the broker is."""
        self._file = conf
        return self._now(conf)

    def answered(self, conf: BrokerConf | None) -> BrokerConf | None:
        """Take what the running broker says of itself, None = nothing; return what it is, if known."""
        self._answer = conf
        if conf is not None:
            self._acting = conf.broker.enable_acting_master
        return None if self._file is None else self._now(self._file)

    def started(self) -> None:
        """Note that the broker runs."""
        self._runs = True

    def ended(self) -> BrokerConf | None:
        """Note that its process has ended; return what it is from now on, if known."""
        self._runs = False
        return self.answered(None)

    def _now(self, file: BrokerConf) -> BrokerConf:
        permission = file.broker_permission if self._answer is None else self._answer.broker_permission
        if not self._runs or is_same_replica(file.broker, self._broker) or self._confirms(file.broker):
            self._broker = file.broker
        broker = replace(self._broker, enable_acting_master=self._acting_master())
        return replace(file, broker=broker, broker_permission=permission)

    def _acting_master(self) -> bool | None:
        """Return whether it may stand in as master: by its answer, then its file, then its last answer."""
        in_file = self._broker.enable_acting_master
        answer = self._acting if self._answer is not None or in_file is None else in_file
        # To a master "no" and "not said" are one, which is not worth another registration.
        is_same = self._broker.broker_id == MASTER_ID and bool(answer) == bool(in_file)
        return in_file if is_same else answer

    def _confirms(self, broker: Broker) -> bool:
        """Whether the running broker says that it is this one: the file may leave its host to a default."""
        answer = self._answer.broker if self._answer is not None else None
        if answer is None or answer.broker_id != broker.broker_id:
            return False
        return broker.address in (answer.address, self._broker.address)


class RoleChanges:
    """Turns what is read again and again into what has changed; each problem is logged once."""

    def __init__(self, broker: Broker) -> None:
        self.problem = ""
        """What is wrong with where the role is read; empty = nothing, and what it says counts."""

        self._ours = broker
        self._permission: int | None = None
        self._last: RoleFound | RoleUnknown | None = None
        self._is_warned = False

    def begin(self) -> list[RoleEvent]:
        """Return the first role: the broker is what the agent was started with."""
        return self._change(RoleFound(self._ours))

    def is_ours(self, broker: Broker) -> bool:
        """Whether it is the agent's broker, whatever its role."""
        return (broker.broker_name, broker.cluster) == (self._ours.broker_name, self._ours.cluster)

    def found(self, conf: BrokerConf, source: str) -> list[RoleEvent]:
        """Take what the broker is; another one than ours is logged, and not followed."""
        ours, broker = self._ours, conf.broker
        if not conf.named and not self._is_warned:
            self._is_warned = True
            text = "%s: brokerName is not set, so that the broker is %r after its host: set it"
            _LOG.warning(text, source, broker.broker_name)
        if not self.is_ours(broker):
            self.failed(
                f"{source}: is about broker {broker.broker_name!r} of cluster {broker.cluster!r}, and this "
                f"agent is for {ours.broker_name!r} of {ours.cluster!r}; restart the agent if that is wrong"
            )
            return []
        if self.problem:
            self.problem = ""
            _LOG.info("%s: is in order again", source)
        events: list[RoleEvent] = []
        if conf.broker_permission != self._permission:
            self._permission = conf.broker_permission
            events.append(PermissionFound(conf.broker_permission))
        return [*events, *self._change(RoleFound(broker))]

    def unknown(self, why: str) -> list[RoleEvent]:
        """Note that it is unknown what the broker is."""
        return self._change(RoleUnknown(why))

    def failed(self, problem: str) -> None:
        """Log a problem, once; what was found before stays."""
        if problem != self.problem:
            self.problem = problem
            _LOG.error("%s", problem)

    def _change(self, event: RoleFound | RoleUnknown) -> list[RoleEvent]:
        if event == self._last:
            return []
        self._last = event
        return [event]


class ConfiguredRole:
    """What a broker with a configured role is; a method returns what has changed by it."""

    def __init__(self, config: AgentConfig) -> None:
        self.identity = Identity(config.broker)
        self.changes = RoleChanges(config.broker)
        self.is_new = True
        """Whether it was never followed."""

        self._config = config
        self._warned = ""

    def begin_anew(self) -> None:
        """Return every change once more: those that were returned last may have been lost."""
        self.is_new = False
        self.changes = RoleChanges(self._config.broker)

    def read(self, content: bytes | OSError, path: Path) -> list[RoleEvent]:
        """Take what the broker.conf holds."""
        try:
            conf = parse_conf(content, path, self._config)
        except InvalidInput as error:
            self.changes.failed(f"going on with what {path} said before, it is wrong now:\n{error}")
            return []
        if not self.changes.is_ours(conf.broker):
            return self.changes.found(conf, str(path))
        return self._found(self.identity.read(conf))

    def answered(self, text: bytes | None, address: str) -> list[RoleEvent]:
        """Take the settings of the running broker; None, and those of another broker, say nothing."""
        conf = None
        if text is not None:
            with suppress(InvalidInput):
                conf = broker_conf.parse_running(text, address, site_of(self._config))
        ours = conf is not None and not conf.elected and self.changes.is_ours(conf.broker)
        return self._found(self.identity.answered(conf if ours else None))

    def ended(self) -> list[RoleEvent]:
        """Note that the broker's process has ended."""
        return self._found(self.identity.ended())

    def _found(self, conf: BrokerConf | None) -> list[RoleEvent]:
        if conf is None:
            return []
        path, waiting, warned = str(self._config.broker_conf_path), self.identity.waiting, self._warned
        self._warned = waiting
        if waiting not in ("", warned):
            _LOG.warning("%s: %s", path, waiting)
        return self.changes.found(conf, path)


def parse_conf(content: bytes | OSError, path: Path, config: AgentConfig) -> BrokerConf:
    """Return what the broker.conf of a broker with a configured role says; raises InvalidInput."""
    if isinstance(content, OSError):
        raise InvalidInput(f"{path}: cannot be read: {content.strerror}")
    conf = broker_conf.parse(content, str(path), site_of(config))
    if conf.elected:
        raise InvalidInput(f"{path}: the role is elected now: restart the agent")
    return conf
