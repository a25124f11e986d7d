"""The sidecar itself: files, sockets, the store and the clock around the planner."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

from ..registry import MASTER_ID, AsyncRouteStore, Broker, InvalidInput, RegistryError
from ..registry.aiotasks import end
from ..registry.sweeping import sweep_on
from . import broker_conf, broker_link, watch
from .config import AgentConfig
from .events import (
    Action,
    CallFailed,
    Done,
    Event,
    Heartbeat,
    HeartbeatAnswered,
    Register,
    Registered,
    Say,
    Stop,
    StoreCall,
    TopicsLoaded,
    Unregister,
    Unregistered,
    WakeAt,
    Woken,
)
from .keeper import TopicsKeeper
from .planner import Planner
from .topics import TopicsFile

__all__ = ["BrokerAgent"]

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")


class BrokerAgent:
    """Keeps one broker's topics and lease in the registry for as long as the broker lives."""

    def __init__(self, config: AgentConfig, *, rng: random.Random | None = None) -> None:
        self._config = config
        self._rng = rng or random.Random()
        self._planner = Planner(config.broker, heartbeat_s=config.heartbeat_s, rng=self._rng)
        self._keeper = TopicsKeeper(str(config.topics_path), broker_permission=config.broker_permission)
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._call: asyncio.Task[None] | None = None
        self._wake_at_s: float | None = None
        self._stop_at_s: float | None = None
        self._ended = False

    def stop(self) -> None:
        """Ask `run` to unregister the broker and to end; to be called in the loop that `run` runs in."""
        self._events.put_nowait(Stop())

    async def run(self) -> None:
        """Work until `stop` is called; trouble with files, broker or store is logged and outlived.

        Raises InvalidInput for a redis_url that is none.
        """
        async with (
            AsyncRouteStore.from_url(self._config.redis_url, self._config.registry) as store,
            asyncio.TaskGroup() as group,
        ):
            helpers = [group.create_task(work) for work in self._helpers(store)]
            try:
                await self._follow_plan(store, group)
            finally:
                await end(*helpers, *([self._call] if self._call else []))

    def _helpers(self, store: AsyncRouteStore) -> list[Coroutine[None, None, None]]:
        helpers = [self._watch_broker(), sweep_on(store, self._rng)]
        if self._config.broker.broker_id != MASTER_ID:
            self._events.put_nowait(TopicsLoaded(TopicsFile({})))
            return helpers
        helpers.append(self._watch_topics(self._config.topics_path))
        if self._config.broker_conf_path is not None:
            helpers.append(self._watch_permission(self._config.broker_conf_path))
        return helpers

    async def _follow_plan(self, store: AsyncRouteStore, group: asyncio.TaskGroup) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            event, now = await self._next_event(), clock()
            if isinstance(event, Stop) and self._stop_at_s is None:
                self._stop_at_s = now + self._config.stop_deadline_s
            for action in self._planner.step(event, now):
                self._perform(action, store, group)
            if self._ended:
                return
            if self._stop_at_s is not None and now >= self._stop_at_s:
                _LOG.warning(
                    "%s: not unregistered, the store does not answer; the lease ends within %s s by itself",
                    self._config.broker.broker_name,
                    self._config.registry.lease_ttl_s,
                )
                return

    async def _next_event(self) -> Event:
        times_s = [at_s for at_s in (self._wake_at_s, self._stop_at_s) if at_s is not None]
        try:
            async with asyncio.timeout_at(min(times_s, default=None)):
                return await self._events.get()
        except TimeoutError:
            self._wake_at_s = None
            return Woken()

    def _perform(self, action: Action, store: AsyncRouteStore, group: asyncio.TaskGroup) -> None:
        match action:
            case Say():
                _say(action)
            case WakeAt(at_s):
                self._wake_at_s = at_s
            case Done():
                self._ended = True
            case _:
                self._call = group.create_task(self._answer(store, action))

    async def _answer(self, store: AsyncRouteStore, call: StoreCall) -> None:
        try:
            self._events.put_nowait(await _carry_out(store, self._config.broker, call))
        except RegistryError as error:
            self._events.put_nowait(CallFailed(error))

    async def _watch_broker(self) -> None:
        host, _, port = self._config.probe_address.rpartition(":")
        async for verdict in broker_link.verdicts(
            host.strip("[]"),
            int(port),
            deadline_s=self._config.probe_deadline_s,
            attempts=self._config.probe_attempts,
            rng=self._rng,
        ):
            self._events.put_nowait(verdict)

    async def _watch_topics(self, path: Path) -> None:
        clock = asyncio.get_running_loop().time
        async for content in watch.contents(path, recheck_s=self._config.recheck_s):
            if content is not None:
                self._take(self._keeper.offer(content, clock()))
            if self._keeper.wants_backup(clock()):
                self._take(self._keeper.offer_backup(await watch.read(path.with_name(path.name + ".bak"))))

    def _take(self, found: list[TopicsLoaded | Say]) -> None:
        for item in found:
            if isinstance(item, Say):
                _say(item)
            else:
                self._events.put_nowait(item)

    async def _watch_permission(self, path: Path) -> None:
        """Follow the brokerPermission of a broker.conf: the broker rewrites it when an admin changes it."""
        clock = asyncio.get_running_loop().time
        seen: watch.Content | None = None
        settled: bytes | None = None
        async for content in watch.contents(path, recheck_s=self._config.recheck_s):
            # Half a file is a valid one with fewer settings: what counts has to be there at two looks.
            if isinstance(content, bytes) and content == seen and content != settled:
                settled = content
                self._take_conf(path, content)
                topics = await watch.read(self._config.topics_path)
                self._take(self._keeper.offer(topics, clock()))
            seen = seen if content is None else content

    def _take_conf(self, path: Path, content: bytes) -> None:
        broker = self._config.broker
        try:
            conf = broker_conf.parse(content, str(path), broker_conf.this_host(), address=broker.address)
        except InvalidInput as error:
            _LOG.error("going on with what broker.conf said before, it is wrong now:\n%s", error)
            return
        ours = (broker.broker_name, broker.broker_id, broker.cluster)
        if (conf.broker.broker_name, conf.broker.broker_id, conf.broker.cluster) != ours:
            _LOG.error("%s names another broker than %s:%s of %s: restart the agent", path, *ours)
            return
        self._keeper.permit(conf.broker_permission)


async def _carry_out(store: AsyncRouteStore, broker: Broker, call: StoreCall) -> Event:
    match call:
        case Register(file, held, take_over):
            registration = await store.register(
                broker, file.topics, held=held, take_over=take_over, version=file.version
            )
            return Registered(file, registration)
        case Heartbeat(held):
            return HeartbeatAnswered(await store.heartbeat(held))
        case Unregister(held, reason):
            await store.unregister(held, reason=reason)
            return Unregistered()


def _say(say: Say) -> None:
    _LOG.log(say.level, say.text, extra=dict(say.fields))
