"""What a name server front answers, code by code."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

from ..client import AsyncRouteClient, ClientConfig
from ..registry import AsyncRouteStore, CorruptData, RegistryConfig, RegistryError, StoreUnavailable, plans
from ..registry.concurrency_async import end
from ..registry.model import Change, ChangeKind
from ..remoting import RemotingCommand, RequestCode, ResponseCode, encode, response_to
from . import header
from .access import AllowList
from .config import Current
from .listings import Listings
from .notices import MinBrokerIds
from .operators import Operation, Operators
from .prober import Prober
from .registrar import Registrar
from .routes import RouteAnswers
from .server.connection import Connection
from .sessions import Sessions
from .settings import Settings, changed, switches
from .status import FrontStatus

_LOG: Final = logging.getLogger("sharedroutes.nameserver")
_REREAD_S: Final = (0.5, 2.0)

_SETTLED_S: Final = 2.0
"""Longer nobody waits for the feed: an answer that is late is worse than one that is old for a moment."""

_RECONNECT_S: Final = _SETTLED_S / 2
"""Of all clients of a store fronts are few, and while one cannot follow, brokers wait for its answers."""

_MOMENT_S: Final = 0.001

_LISTS: Final = frozenset(
    (
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        RequestCode.GET_BROKER_MEMBER_GROUP,
    )
)
_CHANGES: Final = frozenset(
    (
        RequestCode.PUT_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        RequestCode.UPDATE_NAMESRV_CONFIG,
    )
)
"""What a front that is read-only refuses."""

_OF_BROKERS: Final = frozenset((RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER))
_OF_OPERATORS: Final = _CHANGES - _OF_BROKERS - {RequestCode.REGISTER_TOPIC_IN_NAMESRV}


_Handler: TypeAlias = Callable[[RemotingCommand, Connection], Awaitable[RemotingCommand]]


class Front:
    """One name server front: the parts that answer, and what keeps them fresh; `name` is its alone."""

    def __init__(
        self, store: AsyncRouteStore, settings: Settings, name: str, rng: random.Random | None = None
    ) -> None:
        rng = rng or random.Random()
        self.name = name
        self._store = store
        self._rng = rng
        self._current = Current(settings.front)
        self._allows = AllowList(settings.process.allow).allows
        config = ClientConfig(registry=store.config, reconnect_s=_RECONNECT_S, sweep=True)
        self._client = AsyncRouteClient(store, config)
        self._routes = RouteAnswers(self._client, store, self._current)
        self._listings = Listings(store, self._current)
        self._operators = Operators(store, settings.process, self._current)
        self._prober = Prober(store, self._current, rng)
        self._sessions = Sessions(store, self.name, self._prober.elect, rng)
        self._registrar = Registrar(store, self._sessions, self._current, self._settled, rng)
        self._unread = asyncio.Queue[Change | None]()
        self._turns = asyncio.Semaphore(max(1, store.config.max_connections // 2))
        self._min_ids = MinBrokerIds(store)
        self._of_code = self._handlers()
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to follow the registry, and to say that this front lives."""
        self._client.on_feed(self._heard)
        await self._client.start()
        await self._sessions.start(self._restore)
        self._following = asyncio.create_task(self._follow(), name="sharedroutes: front")

    async def aclose(self) -> None:
        """Stop; brokers that are connected stay."""
        if self._following is not None:
            await end(self._following)
        await self._prober.aclose()
        await self._sessions.aclose()
        await self._min_ids.aclose()
        await self._client.aclose()

    def status(self) -> FrontStatus:
        """Return what is known about the work of this front."""
        health = self._client.health()
        unready = [] if health.age_s is not None else ["it has not reached the store yet"]
        return FrontStatus(
            unready=tuple(unready),
            feed_age_s=health.age_s,
            topics=health.topics,
            sessions=len(self._sessions),
            held=len(health.held_losses),
            is_prober=self._prober.is_asking,
            switches=switches(self._current.config),
            failure=self._failure(),
        )

    def change(self, properties: Mapping[str, str]) -> None:
        """Change settings as an operator does; raises InvalidInput."""
        self._current.config = changed(self._current.config, properties)

    def answer(
        self, request: RemotingCommand, connection: Connection
    ) -> bytes | Awaitable[RemotingCommand | None] | None:
        """Return the answer to a request, or what becomes it."""
        if request.is_response:
            return None
        code = request.code
        if refusal := self._refusal(request, connection):
            return encode(response_to(request, ResponseCode.NO_PERMISSION, remark=refusal))
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            found = self._routes.answer(request)
            return found if isinstance(found, bytes) else self._done(request, found)
        handler = self._of_code.get(code)
        if handler is None:
            remark = f" request type {code} not supported"
            return encode(response_to(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))
        return self._in_turn(handler, request, connection)

    def quick_answer(self, data: bytes, connection: Connection) -> bytes | None:
        """Return the route that somebody asks for with the bytes of an earlier request."""
        answer = self._routes.quick_answer(data)
        if answer is None or not self._allows(_host(connection), RequestCode.GET_ROUTEINFO_BY_TOPIC):
            return None
        return answer

    def learn(self, data: bytes, request: RemotingCommand) -> None:
        """Remember the bytes of a request for a route."""
        self._routes.learn(data, request)

    def closed(self, connection: Connection) -> None:
        """End the sessions of a connection that was closed."""
        self._sessions.closed(connection)

    def _refusal(self, request: RemotingCommand, connection: Connection) -> str:
        """Return why a request is refused; empty = it is not."""
        if self._current.config.read_only and request.code in _CHANGES:
            return "this name server is read-only"
        host = _host(connection)
        return "" if self._allows(host, request.code) else f"{host} may not send request {request.code}"

    def _failure(self) -> str:
        """Return what has ended although nothing ended it; empty = all works."""
        following = self._following
        if following is None or not following.done() or following.cancelled():
            return ""
        return f"the front no longer follows the registry: {following.exception()!r}"

    def _handlers(self) -> dict[int, _Handler]:
        """Return what answers each request code, but for that of routes."""
        registrar, acting_for = self._registrar, self._acting_for

        def named(operation: Operation) -> _Handler:
            return lambda asked, by: operation(asked, acting_for(by))

        return {
            **dict.fromkeys(_LISTS, lambda asked, _: self._listings.answer(asked)),
            **{code: named(operation) for code, operation in self._operators.operations.items()},
            RequestCode.REGISTER_BROKER: lambda asked, by: registrar.register(asked, by, acting_for(by)),
            RequestCode.UNREGISTER_BROKER: self._unregister,
            RequestCode.BROKER_HEARTBEAT: lambda asked, _: registrar.heartbeat(asked),
            RequestCode.QUERY_DATA_VERSION: lambda asked, _: registrar.query_data_version(asked),
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: named(registrar.register_topic),
        }

    async def _unregister(self, asked: RemotingCommand, connection: Connection) -> RemotingCommand:
        """End a broker that says so; one that was taken out is waited for no longer."""
        answer = await self._registrar.unregister(asked, connection, self._acting_for(connection))
        self._prober.farewell(header.text(asked, "brokerName"), header.text(asked, "brokerAddr"))
        return answer

    def _acting_for(self, connection: Connection) -> RegistryConfig:
        """Return the settings to write with for a peer, which its records name."""
        return _acting_for(self._store.config, connection.peer)

    async def _in_turn(
        self, handler: _Handler, request: RemotingCommand, connection: Connection
    ) -> RemotingCommand:
        """Answer a request when it is its turn: a burst of brokers must not use up the store."""
        async with self._turns:
            return await self._done(request, handler(request, connection))

    async def _done(self, request: RemotingCommand, work: Awaitable[RemotingCommand]) -> RemotingCommand:
        """Return what the work answers; an error of the registry is an answer, too."""
        try:
            answer = await work
            if request.code in _OF_OPERATORS:
                await self._settled()
        except RegistryError as error:
            has_header = request.code in (RequestCode.REGISTER_BROKER, RequestCode.GET_KV_CONFIG)
            fields: dict[str, str] | None = {} if has_header else None
            return response_to(request, ResponseCode.SYSTEM_ERROR, fields, remark=str(error))
        return answer

    async def _settled(self) -> None:
        """Wait until what this front answers itself has all that is written by now: the feed takes 1 ms."""
        position = await self._store.run(plans.last_change_id(self._store.keys))
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLED_S):
                while not self._client.has_taken_in(position):  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(_MOMENT_S)
                await self._unread.join()

    async def _restore(self) -> None:
        """Register again what the store has lost, but not who was taken out while it could not be reached.

        The feed may be back later than the first beat: so what it has missed is read before.
        """
        position = self._client.health().position
        with suppress(CorruptData):  # the feed tells of it
            while position is not None:
                page = await self._store.changes_since(position)
                for change in () if page.lost else page.changes:
                    self._registrar.heard(change)
                position = None if page.lost or page.complete else page.position
        await self._registrar.restore()

    def _heard(self, changes: Sequence[Change] | None) -> None:
        """Take in changes that the client has heard of; None = some may have been missed."""
        for change in (None,) if changes is None else changes:
            self._listings.changed(change)
            if change is not None:
                self._registrar.heard(change)
                self._prober.heard(change)
            self._unread.put_nowait(change)

    async def _follow(self) -> None:
        """Read what changes are about, for as long as the front runs; why that fails is logged once."""
        failed = ""
        while True:
            change = await self._unread.get()
            try:
                await self._take(change)
                failed = ""
            except RegistryError as error:
                if str(error) != failed:
                    failed = str(error)
                    level = logging.WARNING if isinstance(error, StoreUnavailable) else logging.ERROR
                    _LOG.log(level, "changes cannot be followed: %s", failed)
                await asyncio.sleep(self._rng.uniform(*_REREAD_S))
                self._unread.put_nowait(None)
            self._unread.task_done()

    async def _take(self, change: Change | None) -> None:
        tells = self._prober.is_elected and self._current.config.notify_min_broker_id_changed
        if change is None:
            await self._read_order_configs()
            await self._min_ids.look_at_all(tells=tells)
        elif change.kind is ChangeKind.KV and change.namespace == plans.ORDER_TOPIC_CONFIG:
            await self._read_order_configs()
        else:
            self._min_ids.changed(change, tells=tells)

    async def _read_order_configs(self) -> None:
        try:
            self._current.order_configs = await self._store.kv.entries(plans.ORDER_TOPIC_CONFIG)
        except CorruptData as error:
            _LOG.error("the order of topics cannot be read: %s", error)


@lru_cache(maxsize=4_096)
def _acting_for(config: RegistryConfig, peer: str) -> RegistryConfig:
    """Return settings that name the peer; they are checked, which takes time, once a connection."""
    return replace(config, actor=f"{peer} at {config.actor}")


def _host(connection: Connection) -> str:
    return connection.peer.rpartition(":")[0].strip("[]")


def new_name() -> str:
    """Return a name that no other front has, and no front before; a dot ends it where it is a part of one."""
    host = socket.gethostname()[:64].replace(".", "-")
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
