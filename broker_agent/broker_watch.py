"""Watches a broker: its connection, its role, its topics, and the address that clients are told."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Final, TypeVar

from ..registry import DataVersion, InvalidInput, TopicConfig
from ..registry.checks import split_address
from ..registry.concurrency_async import end
from ..remoting.broker import liveness
from ..remoting.broker.client import Access
from ..remoting.broker.probing import BrokerGone, BrokerUp, Probing, Rules, Verdict
from .config import HANG_SUCCESSES, PROBE_ATTEMPTS, AgentConfig, TopicsFrom
from .planner.events import Event, RoleFound
from .planner.status import AgentStatus
from .rocketmq.access import AgentAccess
from .roles import advertised, role
from .roles.identity import ConfiguredRole, PermissionFound, RoleEvent
from .topic_sources.files import FileTopics, FreshTopics
from .topic_sources.remote import RemoteTopics
from .topic_sources.source import EffectiveTopics, ProgramTopics, ReadTopics, TopicSource, choose

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")

T = TypeVar("T")


class BrokerWatch:
    """Hands each finding to `take`; every watch goes on until `run` is cancelled."""

    def __init__(self, config: AgentConfig, rng: random.Random, take: Callable[[Event], None]) -> None:
        self._advice = ""
        self._config = config = choose(config)
        """As it was given, but for the address of the broker, which may change."""

        self._advertised = config.broker.address
        """What clients are told; where its role is elected, it comes from the broker itself."""

        self._rng = rng
        self._take = take
        self._again = asyncio.Event()
        self._configured = ConfiguredRole(config)
        self._ask_again = asyncio.Event()
        self._probing = Probing(_rules(config))
        self._runs = False
        self._moves_to = ""
        """Where an elected broker will listen when it restarts."""

        self._access = AgentAccess(config)
        self._remote = RemoteTopics(
            *split_address(config.probe_address),
            recheck_s=config.recheck_s,
            rng=rng,
            silence=logging.DEBUG if config.topics_from is TopicsFrom.AUTO else logging.ERROR,
            access=self._access,
        )
        self._topics = self._source_of(config.topics_from)
        self._effective = EffectiveTopics(config.broker_permission)

    def completed(self, status: AgentStatus) -> AgentStatus:
        """Return the status with what the watch knows: where the topics come from, and what is wrong."""
        waiting = self._configured.identity.waiting
        if self._moves_to:
            waiting = f"broker.conf says {self._moves_to} now: it counts when the broker restarts"
        access = self._access
        troubles = access.trouble, self._topics.trouble, self._configured.changes.problem
        return replace(
            status,
            waiting=waiting,
            source=self._source(),
            source_trouble="; ".join(filter(None, troubles)),
            advice=self._advice,
            hang_check=f"not asked: {access.trouble}" if access.is_closed else self._probing.asks,
        )

    def _source(self) -> str:
        config = self._config
        kind, why, path = config.topics_from, config.topics_why, config.topics_path
        if isinstance(self._topics, FreshTopics) and self._topics.asks:
            kind, why = TopicsFrom.BROKER, f"it has not written {path} yet, which is read from then on"
        match kind:
            case TopicsFrom.PROGRAM:
                return f"{kind}: {why}"
            case TopicsFrom.BROKER:
                return f"{kind}: asking {config.probe_address} for its topics: {why}"
        return f"{TopicsFrom.FILES}: reading {path}: {why}"

    async def run(self) -> None:
        """Watch the broker until cancelled."""
        await self._access.load()
        while True:
            self._again.clear()
            async with asyncio.TaskGroup() as group:
                watches = [group.create_task(watch) for watch in self._watches()]
                await self._again.wait()
                await end(*watches)

    async def reload(self) -> str:
        """Read credentials and certificates and look at everything anew; return what cannot be read."""
        await self._access.load()
        self.restart()
        return self._access.problem

    def restart(self) -> None:
        """Look at everything anew, now."""
        self._again.set()

    def take_topics(self, topics: Iterable[TopicConfig], version: DataVersion) -> None:
        """Take the topics from the program; raises InvalidInput where they come from elsewhere."""
        if not isinstance(self._topics, ProgramTopics):
            raise InvalidInput(f"topics: they are not told by the program: {self._source()}")
        self._topics.give(topics, version)

    def _source_of(self, kind: TopicsFrom) -> TopicSource:
        path = self._config.topics_path
        if kind is TopicsFrom.BROKER:
            return self._remote
        if kind is TopicsFrom.PROGRAM or path is None:
            return ProgramTopics()
        files = FileTopics(path, recheck_s=self._config.recheck_s)
        return files if kind is TopicsFrom.FILES else FreshTopics(path, files, self._remote)

    def _watches(self) -> list[Coroutine[None, None, None]]:
        config, access = self._config, self._access
        findings = advertised.findings(self._advertised, config.probe_address, store_url=config.redis_url)
        return [
            _each(self._link(), self._take_verdict),
            _each(role.roles(config, self._configured, access), self._take_followed_role),
            _each(role.running_settings(config, self._ask_again, access), self._take_settings),
            _each(role.addresses(config), self._move_when_ended),
            _each(self._topics.found(), self._take_topics),
            _each(findings, self._advise),
        ]

    def _link(self) -> AsyncGenerator[Verdict, None]:
        config = self._config
        host, port = split_address(config.probe_address)
        # That the broker has answered once is not forgotten: else a reload would bring back one that hangs.
        rules = _rules(config)
        access: Access = self._access
        if access.is_closed:  # then the connection alone tells whether the broker is there
            rules, access = replace(rules, check_s=0.0), Access()
        self._probing = probing = Probing(rules, speaks=self._probing.speaks)
        return liveness.verdicts(
            host, port, probing, deadline_s=config.probe_deadline_s, rng=self._rng, access=access
        )

    async def _take_verdict(self, verdict: Verdict) -> None:
        if self._again.is_set():  # it is about where the broker was
            return
        self._take(verdict)
        match verdict:
            case BrokerUp():
                self._runs = True
                self._configured.identity.started()
                self._remote.wake()
                self._ask_again.set()
            case BrokerGone(hangs=False):
                self._runs = False
                await self._take_roles(self._configured.ended())
                if self._moves_to:
                    self._move(self._moves_to)

    async def _take_topics(self, topics: ReadTopics) -> None:
        loaded = await self._effective.read(topics)
        if loaded is not None:
            self._take(loaded)

    async def _take_followed_role(self, event: RoleEvent) -> None:
        await self._take_role(event)
        if self._configured.identity.waiting:  # the broker may run with it already
            self._ask_again.set()

    async def _take_settings(self, text: bytes | None) -> None:
        await self._take_roles(self._configured.answered(text, self._config.probe_address))

    async def _take_roles(self, events: Iterable[RoleEvent]) -> None:
        for event in events:
            await self._take_role(event)

    async def _take_role(self, event: RoleEvent) -> None:
        match event:
            case PermissionFound(broker_permission):
                loaded = await self._effective.permit(broker_permission)
                if loaded is not None:
                    self._take(loaded)
                return
            case RoleFound(broker) if broker.address != self._advertised:
                self._advertised, self._advice = broker.address, ""
                self.restart()
                # A broker that was asked is where it was asked, whatever address it says.
                if not self._config.elected:
                    self._move(broker.address)
        self._take(event)

    def _move_when_ended(self, address: str) -> None:
        """Look for an elected broker at this address when the running one ends, which is not there."""
        self._moves_to = address if address != self._config.broker.address else ""
        if self._moves_to and not self._runs:
            self._move(address)

    def _move(self, address: str) -> None:
        """Look for the broker at this address, unless the operator has named one."""
        config = self._config
        self._moves_to = ""
        self._config = replace(config, broker=replace(config.broker, address=address))
        self._remote.move(*split_address(self._config.probe_address))
        self.restart()

    def _advise(self, found: str | None) -> None:
        self._advice = found or ""
        if found is not None:
            _LOG.warning("%s: %s", self._config.broker.broker_name, found)


def _rules(config: AgentConfig) -> Rules:
    return Rules(
        attempts=PROBE_ATTEMPTS,
        check_s=config.hang_check_s,
        deadline_s=config.hang_deadline_s,
        failures=config.hang_failures,
        successes=HANG_SUCCESSES,
    )


async def _each(found: AsyncGenerator[T, None], take: Callable[[T], Awaitable[None] | None]) -> None:
    async with aclosing(found):
        async for item in found:
            taking = take(item)
            if taking is not None:
                await taking
