"""The sidecar itself: broker, files, store and clock around the planner."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final, Self

from ..registry import AsyncRouteStore, Broker, DataVersion, NotFound, RegistryError, TopicConfig, plans
from ..registry.concurrency_async import end
from ..registry.sweeper_async import AsyncSweeper
from .broker_watch import BrokerWatch
from .config import AgentConfig
from .doorbells import bells_of
from .planner.events import (
    Answered,
    CallFailed,
    Drain,
    Event,
    HandOver,
    Heartbeat,
    OwnerLeft,
    OwnerProbed,
    Pause,
    ProbeOwner,
    Register,
    Resume,
    RoleFound,
    SetWritePerm,
    Stop,
    StoreCall,
    Unregister,
    Withdraw,
    Woken,
)
from .planner.planner import Planner
from .planner.status import AgentStatus, Phase
from .roles.master import MasterFollower, MasterNotice

_NEEDED: Final = (plans.register, plans.heartbeat, plans.unregister, plans.withdraw)
"""Imported here already: when an agent first calls them, an upgrade may have replaced the files."""


class BrokerAgent:
    """Keeps one broker's topics and lease in the registry for as long as the broker lives.

    `run` works until `stop`. As an async context manager the agent works in the background, and unregisters
    its broker at the end. Call its methods only in the event loop that runs it. A `store` that is passed in
    stays open, and the agent announces no ended leases there.
    """

    def __init__(
        self, config: AgentConfig, *, store: AsyncRouteStore | None = None, rng: random.Random | None = None
    ) -> None:
        broker = config.broker
        name = broker.broker_name if config.elected else f"{broker.broker_name}:{broker.broker_id}"
        self.config = config
        self._store = store
        self._rng = rng or random.Random()
        self._filter_servers = config.filter_servers
        self._notice = MasterNotice(config.master_file, config.master_hook)
        self._master = MasterFollower(self._notice.send)
        self._planner = Planner(
            None if config.elected else self._with_filter_servers(broker),
            name=name,
            heartbeat_s=config.heartbeat_s,
            lease_ttl_s=config.registry.lease_ttl_s,
            stop_deadline_s=config.stop_deadline_s,
            rng=self._rng,
        )
        self._broker_watch = BrokerWatch(config, self._rng, self._take)
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._stepped = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._call: asyncio.Task[None] | None = None
        self._probe: asyncio.Task[None] | None = None
        self._wake_at_s = math.inf
        self._ended = False
        self._hears_bell = False

    async def __aenter__(self) -> Self:
        self._work = asyncio.create_task(
            self.run(), name=f"sharedroutes agent of {self.config.broker.broker_name}"
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        if self._work is not None:
            await self._work

    def status(self) -> AgentStatus:
        """Return what the agent is doing at the moment."""
        master = self._master.known
        return replace(
            self._broker_watch.completed(self._planner.status(asyncio.get_running_loop().time())),
            master_address=master.address if master else None,
            master_ha_address=master.ha_address if master else None,
        )

    async def until(self, *phases: Phase) -> AgentStatus:
        """Wait until the agent is in one of the phases; raises RuntimeError when it has ended."""
        while (status := self.status()).phase not in phases:
            if self._ended:
                raise RuntimeError(f"{status.name}: the agent has ended, it was {status.phase}")
            self._stepped.clear()
            await self._stepped.wait()
        return status

    def set_topics(self, topics: Iterable[TopicConfig], *, version: DataVersion | None = None) -> None:
        """Replace all topics of the broker, if its own program provides them (TopicsFrom.PROGRAM).

        Raises InvalidInput if the topics are read from elsewhere, or a name occurs twice.
        """
        self._broker_watch.take_topics(topics, version or DataVersion())

    def set_filter_servers(self, servers: Iterable[str]) -> None:
        """Replace the broker's filter servers, host:port; raises InvalidInput."""
        known = self.status().broker
        broker = replace(known or self.config.broker, filter_servers=tuple(servers))
        self._filter_servers = broker.filter_servers
        if known is not None:
            self._events.put_nowait(RoleFound(broker))

    def stop(self) -> None:
        """Ask `run` to unregister the broker, which another agent may then register, and to end."""
        self._events.put_nowait(Stop())

    def hand_over(self, watch_s: float | None = None) -> None:
        """Ask `run` to end, and to leave a broker that goes on to the next agent.

        While the broker is up its lease is renewed, for `watch_s` seconds (by default `stop_watch_s`), and
        once more at the end. A broker that ends meanwhile, or is drained or paused, is taken out at once.
        A second call with a shorter time ends the watch sooner.
        """
        self._events.put_nowait(HandOver(self.config.stop_watch_s if watch_s is None else watch_s))

    def drain(self, wait_s: float | None = None) -> None:
        """Take the write permission away, wait, and take the broker out of the registry until `resume`."""
        self._events.put_nowait(Drain(self.config.drain_wait_s if wait_s is None else wait_s))

    def pause(self) -> None:
        """Take the broker out of the registry at once, until `resume`."""
        self._events.put_nowait(Pause())

    def resume(self) -> None:
        """Let the broker come back after `drain` or `pause`."""
        self._events.put_nowait(Resume())

    async def reload(self) -> str:
        """Read the broker's files and ask the broker again, now.

        Returns why its credentials or certificates cannot be read: those read before stay. Empty = they can.
        """
        return await self._broker_watch.reload()

    async def run(self) -> None:
        """Work until `stop` is called; log and outlive any trouble with files, broker or store.

        Raises InvalidInput if redis_url is not valid.
        """
        try:
            if self._store is not None:
                await self._run(self._store)
                return
            async with AsyncRouteStore.from_url(self.config.redis_url, self.config.registry) as store:
                await self._run(store, AsyncSweeper(store, self._rng, quiet=True).run())
        finally:
            self._ended = True
            self._stepped.set()

    async def _run(self, store: AsyncRouteStore, *more: Coroutine[None, None, None]) -> None:
        async with asyncio.TaskGroup() as group:
            works = (self._broker_watch.run(), self._master.run(store), self._notice.run(), *more)
            helpers = [group.create_task(work) for work in works]
            try:
                await self._follow_plan(store, group)
            finally:
                await bells_of(store).leave(self)
                await end(*helpers, *(task for task in (self._call, self._probe) if task))

    async def _follow_plan(self, store: AsyncRouteStore, group: asyncio.TaskGroup) -> None:
        clock = asyncio.get_running_loop().time
        while not self._ended:
            event = await self._next_event()
            if isinstance(event, RoleFound):
                self._master.note_role(event.broker, store)
            step = self._planner.step(event, clock())
            self._wake_at_s, self._ended = step.wake_at_s, step.done
            if step.probe is not None:
                self._probe = group.create_task(self._probe_owner(step.probe))
            if step.call is not None:
                self._call = group.create_task(self._answer(store, step.call))
            self._stepped.set()
            await self._follow_bell(store)

    async def _follow_bell(self, store: AsyncRouteStore) -> None:
        """Subscribe to the doorbell while this agent is a standby: the owner's end is then known at once."""
        is_standby = self._planner.is_standby
        if is_standby == self._hears_bell:
            return
        self._hears_bell, name = is_standby, self.config.broker.broker_name
        if is_standby:
            bells_of(store).join(store, self, name, lambda: self._events.put_nowait(OwnerLeft()))
        else:
            await bells_of(store).leave(self)

    async def _next_event(self) -> Event:
        try:
            async with asyncio.timeout_at(self._wake_at_s):
                return await self._events.get()
        except TimeoutError:
            return Woken()

    async def _answer(self, store: AsyncRouteStore, call: StoreCall) -> None:
        try:
            self._events.put_nowait(await _carry_out(store, call))
        except RegistryError as error:
            self._events.put_nowait(CallFailed(error))

    async def _probe_owner(self, probe: ProbeOwner) -> None:
        from ..remoting.broker.owner import probe_owner  # noqa: PLC0415 - few agents ever find their broker elsewhere

        found = await probe_owner(probe.lease.address, probe.own_address)
        self._events.put_nowait(OwnerProbed(probe.lease, found.answer, found.why))

    def _take(self, found: Event) -> None:
        if isinstance(found, RoleFound):
            found = RoleFound(self._with_filter_servers(found.broker))
        self._events.put_nowait(found)

    def _with_filter_servers(self, broker: Broker) -> Broker:
        """Return the broker with the filter servers that were set, if any were, else with its own."""
        servers = self._filter_servers
        return broker if servers is None else replace(broker, filter_servers=servers)


async def _carry_out(store: AsyncRouteStore, call: StoreCall) -> Answered:
    """Make the call; raises what the store raises."""
    match call:
        case Register(broker, table, held, take_over, admit, instead_of):
            registration = await store.register(
                broker,
                table.topics,
                held=held,
                take_over=take_over,
                admit=admit,
                instead_of=instead_of,
                version=table.version,
            )
            wiped = False
            if held is None:  # else this was asked before
                with suppress(RegistryError):  # the registration has succeeded all the same
                    wiped = await _is_wiped(store, broker.broker_name)
            return Answered(registration, wiped=wiped)
        case Heartbeat(held, listings):
            return Answered(await store.heartbeat(held, listings=listings))
        case Unregister(held, reason):
            await store.unregister(held, reason=reason)
        case Withdraw(broker, reason):
            await store.admin.withdraw(broker, reason=reason)
        case SetWritePerm(broker_name, allowed):
            return Answered(await _set_write_perm(store, broker_name, allowed=allowed))
    return Answered()


async def _set_write_perm(store: AsyncRouteStore, broker_name: str, *, allowed: bool) -> bool:
    """Return whether this changed anything: what an operator has wiped is not this agent's to give back."""
    if not allowed and await _is_wiped(store, broker_name):
        return False
    try:
        await (store.admin.add_write_perm if allowed else store.admin.wipe_write_perm)(broker_name)
    except NotFound:  # the store lost its data: nothing is wiped there
        return False
    return True


async def _is_wiped(store: AsyncRouteStore, broker_name: str) -> bool:
    group = await store.member_group(broker_name)
    return group is not None and group.wiped
