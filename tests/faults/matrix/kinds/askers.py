"""Clients that come besides, and ask when nobody answers: one gives up, one forks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Barrier, Event, Thread
from typing import Final

from sharedroutes.client import AsyncRouteClient, ClientConfig, NoRoute, RetryPolicy, RouteClient
from sharedroutes.registry import RegistryConfig, RegistryError
from sharedroutes.remoting import FrameReader, RemotingCommand, RequestCode
from tests.faults.checker.history import now_us
from tests.faults.matrix.kinds.kind import SHORT_S, Effect, Site, fault
from tests.faults.matrix.kinds.stores import paused
from tests.faults.matrix.settings import BOUNDS, CALL_S, FRONT_LEASE_MS, LEASE_S, SENT_TO
from tests.faults.matrix.stand_in import said_by
from tests.faults.matrix.visitor import ASK_AND_FORK, COPIES, chosen_in
from tests.nameserver.running import Peer

_ASKS_S: Final = 0.4
"""For so long a client waits for the store: shorter than until one that stands still is replaced."""

_GIVES_UP_S: Final = _ASKS_S / 2
_ENDS_S: Final = _GIVES_UP_S + 0.6
"""So long after it began at most a process that is not alone gives up."""

_AGAIN_S: Final = 0.02
"""Between two questions: without, who fails at once would leave the harness no time."""

_CROWD: Final = 100
"""More than a front lets wait for one connection (Limits.in_flight_per_connection)."""

_READ_BYTES: Final = 65_536
_BEGUN_S: Final = 10.0
_FORKED_S: Final = 0.5
"""Longer than it takes to send a question and to fork."""


class _Pair(ABC):
    """A client for threads and one for asyncio, which begin together to do what a subclass says."""

    def __init__(self, url: str, config: ClientConfig) -> None:
        self._url, self._config = url, config
        self.together = Barrier(3, timeout=_BEGUN_S)
        """Of both and who starts them: when they have begun, and when they are to ask."""

    def begin(self) -> None:
        """Start both, and wait until they have begun."""
        for run in (self._run_in_a_thread, lambda: asyncio.run(self._run_in_tasks())):
            Thread(target=run, daemon=True).start()  # perhaps it waits for ever
        self.together.wait()

    def _run_in_a_thread(self) -> None:
        with RouteClient.from_url(self._url, self._config) as client:
            self.together.wait()
            self.together.wait()
            self.from_a_thread(client)

    async def _run_in_tasks(self) -> None:
        async with AsyncRouteClient.from_url(self._url, self._config) as client:
            await asyncio.to_thread(self.together.wait)
            await asyncio.to_thread(self.together.wait)
            await self.from_tasks(client)

    @abstractmethod
    def from_a_thread(self, client: RouteClient) -> None:
        """Use the client."""

    @abstractmethod
    async def from_tasks(self, client: AsyncRouteClient) -> None:
        """Use the client."""


@fault("store")
def ask_without_store(site: Site) -> Iterator[Effect]:
    """Clients ask for a topic while the store stands still, and until it answers; one task gives up."""
    began_us, asking = now_us(), _Asking(site.fleet.store.url)
    try:
        asking.begin()
        with contextmanager(paused)(site, (0.0, 0.0)) as effect:
            asking.together.wait()
            site.wait_at_most(3 * _ASKS_S, asking.have_failed, "nobody is answered")
        promised = site.promised("who asks again is answered", 2 * CALL_S, asking.are_answered)
        yield replace(effect, lasts_s=site.lasts(SHORT_S), began_us=began_us, details=promised)
    finally:
        asking.is_over.set()


class _Asking(_Pair):
    """Both ask until there is an answer."""

    def __init__(self, url: str) -> None:
        registry = RegistryConfig(call_deadline_s=_ASKS_S, connect_deadline_s=_ASKS_S)
        super().__init__(url, ClientConfig(registry=registry))
        self._errors: list[str] = []
        self._answers: list[str] = []
        self.is_over = Event()

    def have_failed(self) -> bool:
        """Whether both have had no answer."""
        return {*self._errors} == {"thread", "task"}

    def are_answered(self) -> bool:
        """Whether both have had an answer."""
        return {*self._answers} == {"thread", "task"}

    def from_a_thread(self, client: RouteClient) -> None:
        """Ask until there is an answer."""
        while self._goes_on("thread"):
            with self._noted("thread"):
                client.route(SENT_TO)
            self.is_over.wait(_AGAIN_S)

    async def from_tasks(self, client: AsyncRouteClient) -> None:
        """Ask until there is an answer, each time with another one who gives up."""
        while self._goes_on("task"):
            first, second = (asyncio.create_task(client.route(SENT_TO)) for _ in range(2))
            await asyncio.wait([first], timeout=_GIVES_UP_S)
            first.cancel()
            with self._noted("task"):
                await second
            await asyncio.wait([first])
            await asyncio.sleep(_AGAIN_S)

    def _goes_on(self, who: str) -> bool:
        return not (who in self._answers or self.is_over.is_set())

    @contextmanager
    def _noted(self, who: str) -> Iterator[None]:
        try:
            yield
        except NoRoute:  # brokers have the topic all the time
            self.is_over.set()
        except RegistryError:
            self._errors.append(who)
        else:
            self._answers.append(who)


@fault("store")
def try_without_store(site: Site) -> Iterator[Effect]:
    """Clients try to send, and know no route, while the store stands still: they give up in time."""
    began_us, trying = now_us(), _Trying(site.fleet.store.url)
    trying.begin()
    with contextmanager(paused)(site, (0.0, 0.0)) as effect:
        trying.together.wait()
        promised = site.promised("attempts end by their deadline", _ENDS_S, trying.have_ended)
    yield replace(effect, lasts_s=site.lasts(SHORT_S), began_us=began_us, details=promised)


class _Trying(_Pair):
    """Both make attempts that have less time than a call of the store."""

    def __init__(self, url: str) -> None:
        super().__init__(url, ClientConfig(registry=RegistryConfig(call_deadline_s=10 * _ENDS_S)))
        self._policy = RetryPolicy(deadline_s=_GIVES_UP_S)
        self._ended: list[str] = []

    def have_ended(self) -> bool:
        """Whether both have given up."""
        return {*self._ended} == {"thread", "task"}

    def from_a_thread(self, client: RouteClient) -> None:
        """Ask for a queue."""
        with self._noted("thread"):
            for attempt in client.attempts(SENT_TO, policy=self._policy):
                with attempt:
                    pass

    async def from_tasks(self, client: AsyncRouteClient) -> None:
        """Ask for a queue."""
        with self._noted("task"):
            async for attempt in client.attempts(SENT_TO, policy=self._policy):
                async with attempt:
                    pass

    @contextmanager
    def _noted(self, who: str) -> Iterator[None]:
        with suppress(RegistryError):
            yield
        self._ended.append(who)


@fault("processes", "store")
def crowd_at_a_front(site: Site) -> Iterator[Effect]:
    """More requests of one connection wait for the store at a front than may: all are answered in the end."""
    began_us, front = now_us(), site.rng.choice(sorted(site.fleet.fronts))
    fields = said_by("nobody", "127.0.0.1:1", FRONT_LEASE_MS)
    reader, answers = FrameReader(), list[RemotingCommand]()
    with Peer(site.fleet.front_address(front), CALL_S) as peer:
        with contextmanager(paused)(site, (0.0, 0.0)) as effect:
            for _ in range(_CROWD):
                peer.send(RequestCode.BROKER_HEARTBEAT, fields)
            site.let_pass(_ASKS_S, "they wait")
        peer.socket.settimeout(0)

        def are_answered() -> bool:
            with suppress(BlockingIOError):
                answers.extend(reader.feed(peer.socket.recv(_READ_BYTES)))
            return len(answers) == _CROWD

        promised = site.promised("a front answers all that was asked", 2 * CALL_S, are_answered)
    yield replace(effect, target=front, lasts_s=0.2, began_us=began_us, details=promised)


@fault("processes", "network", "store")
def fork_and_ask(site: Site) -> Iterator[Effect]:
    """A client asks while the store stands still, and forks; then a broker dies: all copies let go of it."""
    fleet, broker, began_us = site.fleet, site.fleet.brokers["broker-c"], now_us()
    with fleet.visitor() as (visitor, said):
        site.wait_at_most(LEASE_S, lambda: len(chosen_in(said)) == 1, "a client has begun")
        with contextmanager(paused)(site, (0.0, 0.0)) as effect:
            visitor.signal(ASK_AND_FORK)
            site.let_pass(_FORKED_S, "it asks, and forks")
        site.wait_at_most(LEASE_S, lambda: len(chosen_in(said)) == COPIES, "there are copies of it")
        takes_us, within_s = now_us(), BOUNDS.arrival_ms / 1_000
        broker.kill()
        try:

            def have_let_go() -> bool:
                choices = chosen_in(said).values()
                return len(choices) == COPIES and all(
                    names and broker.name not in names for choice in choices for names in choice
                )

            promised = site.promised("a client and its forks let go of the dead", within_s, have_let_go)
            disturbs = (*effect.disturbs, broker.name)
            effect = replace(effect, target="a fork", disturbs=disturbs, takes=(broker.name,))
            effect = replace(effect, began_us=began_us, takes_us=takes_us, details=promised)
            yield replace(effect, lasts_s=site.lasts(SHORT_S))
        finally:
            site.start(broker)
