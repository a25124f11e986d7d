"""The connections of brokers to this front, and what follows when one of them ends."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol, TypeAlias

from ..registry import AsyncRouteStore, Broker, InvalidInput, RegistryConfig, RegistryError, StoreUnavailable
from ..registry.concurrency_async import end
from ..registry.plans import fronts
from ..registry.plans.fronts import Ending
from .server.connection import Connection

_LOG: Final = logging.getLogger("sharedroutes.nameserver")
BEAT_S: Final = 1.0
_LIVES_MS: Final = 3_000
"""A front that has said nothing for so long holds no brokers."""

_LOOKED_AGAIN_S: Final = 3.5
"""After the end of a session: the one that still holds the broker may be that of a front that has died."""

_SLOW_S: Final = 0.1
"""A beat that takes longer was perhaps repeated."""

_AGAIN_S: Final = (0.05, 0.5)
"""Between two tries to end what the store could not be told of, drawn at random."""

_END_S: Final = 1.0
_LOOKS: Final = 2
_MOST_REPLICAS: Final = 256
"""Of one connection: a container has some dozens of brokers, and each ends by a call of its own."""

_GIVEN_UP_S: Final = 120.0
"""Then the leases have ended by themselves."""


class Election(Protocol):
    """Is told at each beat whether this front is the one that asks brokers whether they live."""

    def __call__(self, *, is_elected: bool) -> None:
        """Begin to ask, go on, or stop."""


@dataclass(frozen=True, slots=True)
class _Session:
    """A replica on a connection."""

    broker: Broker
    spoke_s: float
    """When it last registered there itself, by the monotonic clock."""


Restore: TypeAlias = Callable[[], Awaitable[None]]
"""Brings back what the store has lost of the replicas that are connected here."""


class Sessions:
    """Which replicas are connected here; each connection of one is a session in the store."""

    def __init__(self, store: AsyncRouteStore, front: str, election: Election, rng: random.Random) -> None:
        self._store = store
        self._front = front
        self._election = election
        self._rng = rng
        self._of: dict[int, dict[tuple[str, int], _Session]] = {}
        self._in_use: Counter[int] = Counter()
        self._ended: set[int] = set()
        """Connections that were closed while they are in use."""

        self._registering = defaultdict[tuple[str, int], list[Connection]](list)
        """By replica: the connections on which it waits to be registered."""

        self._tasks: set[asyncio.Task[None]] = set()
        self._beats: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._restores = self._is_restoring = False

    def __len__(self) -> int:
        return len(self._of)

    async def start(self, restore: Restore) -> None:
        """Begin to say that this front lives; whenever the store does not know it any more, `restore`."""
        self._beats = asyncio.create_task(self._beat_for_ever(restore), name="sharedroutes front")

    async def aclose(self) -> None:
        """Say that this front ends: it takes no broker with it, and its sessions hold nobody any more."""
        self._stopping.set()
        await wait_for_end(*self._tasks, *([self._beats] if self._beats is not None else []))
        try:
            await self._beat(0)
        except RegistryError as error:
            _LOG.info("the other fronts are not told that this one ends: %s", error)

    @contextmanager
    def in_use(self, number: int) -> Iterator[None]:
        """Remember in a `with` block whether the connection of a number ends meanwhile."""
        self._in_use[number] += 1
        try:
            yield
        finally:
            self._in_use[number] -= 1
            if not self._in_use[number]:
                del self._in_use[number]
                self._ended.discard(number)

    @contextmanager
    def registering(self, connection: Connection, broker: Broker) -> Iterator[None]:
        """Remember in a `with` block that a replica is about to register on a connection, and use that."""
        replica = broker.broker_name, broker.broker_id
        self._registering[replica].append(connection)
        try:
            with self.in_use(connection.number):
                yield
        finally:
            self._registering[replica].remove(connection)
            if not self._registering[replica]:
                del self._registering[replica]

    def is_over(self, number: int) -> bool:
        """Whether a connection in use was closed meanwhile."""
        return number in self._ended

    def open(self, number: int, broker: Broker, *, speaks: bool = True) -> tuple[str, int]:
        """Return the session of a replica on a connection in use, and how many ms ago it registered there.

        Whoever vouches notes it in the store. `speaks`: whether it registers now, and is not brought back.
        Raises InvalidInput for more replicas than a process has.
        """
        spoke_s = now_s = monotonic()
        if not self.is_over(number):
            here, replica = self._of.setdefault(number, {}), (broker.broker_name, broker.broker_id)
            if replica not in here and len(here) >= _MOST_REPLICAS:
                raise InvalidInput(f"a connection may register {_MOST_REPLICAS} replicas: use another one")
            spoke_s = here[replica].spoke_s if replica in here and not speaks else now_s
            here[replica] = _Session(broker, spoke_s)
        return self._name(number), round(1_000 * (now_s - spoke_s))

    def has(self, number: int, broker: Broker) -> bool:
        """Whether the replica has a session on the connection."""
        return (broker.broker_name, broker.broker_id) in self._of.get(number, {})

    def id_at(self, connection: Connection, broker_name: str, address: str) -> int | None:
        """Return the id of the replica of a group at an address that has a session on a connection."""
        here = [session.broker for session in self._of.get(connection.number, {}).values()]
        return next(
            (one.broker_id for one in here if (one.broker_name, one.address) == (broker_name, address)), None
        )

    def holds(self, broker_name: str, broker_id: int) -> bool:
        """Whether the replica has a session on any connection here."""
        return any((broker_name, broker_id) in here for here in self._of.values())

    def connected(self) -> list[tuple[int, Broker]]:
        """Return the replicas that are connected, each with the number of its connection."""
        return [(number, session.broker) for number, here in self._of.items() for session in here.values()]

    def closed(self, connection: Connection) -> None:
        """End the sessions on a connection that was closed, and the leases that nobody else holds."""
        if connection.number in self._in_use:
            self._ended.add(connection.number)
        for session in self._of.pop(connection.number, {}).values():
            self.let_go(connection.number, session.broker)

    def let_go(self, number: int, broker: Broker) -> None:
        """End one session in the background, until the store has done it."""
        begin(self._tasks, self._end_until_done(broker, self._name(number)))

    async def farewell(self, connection: Connection, broker: Broker, config: RegistryConfig) -> bool:
        """End what a replica that says goodbye had; return whether its lease was ended."""
        number, replica = connection.number, (broker.broker_name, broker.broker_id)
        had_session = self._of.get(number, {}).pop(replica, None)
        sessions = [self._name(number)] if had_session is not None else []
        try:
            return await self._release(broker, sessions, Ending.GOODBYE, "unregistered", config)
        except BaseException:
            if had_session is not None:  # it ends with the connection, which is told after this request
                self._of.setdefault(number, {}).setdefault(replica, had_session)
            raise

    def _name(self, number: int) -> str:
        return f"{self._front}.{number}"

    async def _end_until_done(self, broker: Broker, session: str) -> None:
        until = asyncio.get_running_loop().time() + _GIVEN_UP_S
        looks = 0
        while asyncio.get_running_loop().time() < until and not self._stopping.is_set():
            try:
                why = "its connections were closed"
                ended = await self._release(broker, [session], Ending.CLOSED, why, self._store.config)
            except StoreUnavailable:
                await wait_for_event(self._stopping, self._rng.uniform(*_AGAIN_S))
            except RegistryError as error:
                _LOG.error("%s:%d: cannot be taken out: %s", broker.broker_name, broker.broker_id, error)
                return
            else:
                looks += 1
                if ended:
                    _LOG.info("%s:%d: %s", broker.broker_name, broker.broker_id, why)
                if ended or looks == _LOOKS or self.holds(broker.broker_name, broker.broker_id):
                    return
                await wait_for_event(self._stopping, _LOOKED_AGAIN_S)

    async def _release(
        self,
        broker: Broker,
        sessions: list[str],
        why: Ending,
        reason: str,
        config: RegistryConfig,
    ) -> bool:
        replica = broker.broker_name, broker.broker_id
        comes = any(one.is_open for one in self._registering.get(replica, ()))
        is_here = why is Ending.CLOSED and (comes or self.holds(*replica))
        plan = fronts.release(config, broker, sessions, why, reason, is_here=is_here)
        return await self._store.run(plan)

    def _restore_soon(self, restore: Restore) -> None:
        """Restore in the background; what is under way may have passed over what is lost now: then again."""
        self._restores = True
        if not self._is_restoring:
            self._is_restoring = True
            begin(self._tasks, self._restore_until_done(restore))

    async def _restore_until_done(self, restore: Restore) -> None:
        try:
            while self._restores and not self._stopping.is_set():
                self._restores = False
                try:
                    await restore()
                except StoreUnavailable:
                    self._restores = True
                    await wait_for_event(self._stopping, self._rng.uniform(*_AGAIN_S))
        finally:
            self._is_restoring = False

    async def _beat_for_ever(self, restore: Restore) -> None:
        failed = ""
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            began_s = loop.time()
            try:
                is_new = await self._beat(_LIVES_MS)
                # A call that was repeated may have been answered before: what was new then is not new now.
                if self._of and (is_new or failed or loop.time() - began_s > _SLOW_S):
                    self._restore_soon(restore)
            except RegistryError as error:
                self._election(is_elected=False)
                if str(error) != failed:
                    _LOG.warning("cannot tell the other fronts that this one lives: %s", error)
                failed = str(error)
            else:
                failed = ""
            await wait_for_event(self._stopping, BEAT_S)

    async def _beat(self, lives_ms: int) -> bool:
        beat = await self._store.run(fronts.front_beat(self._store.config, self._front, lives_ms))
        self._election(is_elected=beat.asks_brokers)
        return beat.is_new


async def wait_for_event(event: asyncio.Event, most_s: float) -> None:
    """Return when an event has come, or after so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await event.wait()


def begin(tasks: set[asyncio.Task[None]], work: Coroutine[None, None, None]) -> None:
    """Begin work in the background; its task is among these until it has ended."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def wait_for_end(*tasks: asyncio.Task[None]) -> None:
    """Wait for the end of tasks that were told to stop; those that do not in time are cancelled.

    A call of the store that is cancelled while it connects leaves its socket open.
    """
    if tasks:
        await asyncio.wait(tasks, timeout=_END_S)
    await end(*tasks)
