"""What brokers say: that they are there, with which topics, that they live, and that they end."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from ..daemon.threads import in_thread, in_thread_if, nothing_collected
from ..registry import (
    AsyncRouteStore,
    Broker,
    BrokerOwned,
    DataVersion,
    NotFound,
    Registration,
    RegistryConfig,
    RegistryError,
    SeenLease,
    StaleEpoch,
    StoreUnavailable,
    TopicConfig,
    codec,
    plans,
)
from ..registry.model import EXPIRED, MASTER_ID, Change, ChangeKind
from ..registry.plans import fronts
from ..registry.plans.fronts import Claimed, Holder, Vouched
from ..registry.plans.table import looked_for
from ..remoting import RemotingCommand, ResponseCode, response_to
from ..remoting.broker.owner import OwnerAnswer, probe_owner
from . import answers, bodies, header
from .compressed import BodyError
from .config import Current
from .server.connection import Connection
from .sessions import Sessions

Settled: TypeAlias = Callable[[], Awaitable[None]]
"""Waits until this front's own answers say what has been written."""

_LOG: Final = logging.getLogger("sharedroutes.nameserver")
_TRIES: Final = 200
_LARGE_BYTES: Final = 65_536
"""Bodies from this size on are read in a thread, so that nobody waits for them."""

_CLAIM_MS: Final = 3_000
"""A registration that has taken so long was given up by whoever began it."""

_MEANWHILE_S: Final = (0.01, 0.05)
_KEPT: Final = 4
_NEVER: Final = ("", b"")
_RESTORED_AT_ONCE: Final = 8

_OWNERS_ASKED: Final = 3
"""So often a registration asks whether the owner of a lease is gone: each time of a newer lease."""

_LARGE_AT_ONCE: Final = 1
"""Large bodies that are read at once: one of 16 MiB takes half a gigabyte for a moment."""

_JSON: Final = b"{"


@dataclass(slots=True)
class _Known:
    """What this front knows of the table of a replica."""

    address: str
    topics: Mapping[str, bytes] = field(default_factory=dict)
    """All that it has said, with encoded configurations."""

    said: dict[bytes, tuple[str, bytes]] = field(default_factory=dict)
    """Registrations, by their digest, to the token of the table that has all of one, and to its member."""

    whole: bytes = b""
    """The digest of the last registration that said all topics."""

    version: DataVersion = field(default_factory=DataVersion)
    filter_servers: tuple[str, ...] | None = None
    """What else the replica said last."""

    corrupt_keys: tuple[str, ...] = ()
    """Route index keys of another type: their topics are not listed."""

    is_out: bool = False
    """Whether it was taken out, by whomever, and not only forgotten."""


class Registrar:
    """Brings what brokers say into the store; one for a front."""

    def __init__(
        self,
        store: AsyncRouteStore,
        sessions: Sessions,
        current: Current,
        settled: Settled,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._current = current
        self._settled = settled
        self._rng = rng
        self._known: dict[tuple[str, int], _Known] = {}
        self._turns = WeakValueDictionary[tuple[str, int], asyncio.Lock]()
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    async def register(
        self, request: RemotingCommand, connection: Connection, config: RegistryConfig
    ) -> RemotingCommand:
        """Register a broker with its topics, with the settings of who writes (RocketMQ: REGISTER_BROKER)."""
        expected = header.number(request, "bodyCrc32", 0)
        broker, number, said = header.broker_of(request), connection.number, _Said(request, config)
        with self._sessions.registering(connection, broker):
            async with self._turn(broker):
                # It would come, and go at once, before the one that waits behind it.
                if not connection.is_open:
                    return response_to(request, ResponseCode.SYSTEM_ERROR, {}, remark="connection closed")
                crc = await self._checksum(said, broker)
                if expected not in (0, crc):
                    return response_to(request, ResponseCode.SYSTEM_ERROR, {}, remark="crc32 not match")
                found = await self._registered(said, broker, number)
        fields = {"haServerAddr": found.master_ha_address, "masterAddr": found.master_address}
        given = {name: value for name, value in fields.items() if value}
        return response_to(request, ResponseCode.SUCCESS, given, body=self._order_body())

    async def restore(self) -> None:
        """Register again the replicas that are connected here and that the store has lost.

        A store that comes back empty has all of them again before they say it themselves, every 30 s.
        """
        left = self._sessions.connected()

        async def restore_some() -> None:
            while left:
                try:
                    await self._restore_one(*left.pop())
                except StoreUnavailable:
                    left.clear()  # the next try has them all
                    raise

        some = (restore_some() for _ in range(_RESTORED_AT_ONCE))
        # None of them goes on beside the next try.
        for error in await asyncio.gather(*some, return_exceptions=True):
            if error is not None:
                raise error

    def _turn(self, broker: Broker) -> asyncio.Lock:
        """Return the lock of a replica: it is not restored while it registers another table, or has left."""
        return self._turns.setdefault((broker.broker_name, broker.broker_id), asyncio.Lock())

    async def _restore_one(self, number: int, broker: Broker) -> None:
        async with self._turn(broker):
            known = self._known.get((broker.broker_name, broker.broker_id))
            is_there = self._sessions.has(number, broker)
            # While its first registration is under way, nothing is known of it that could be brought back.
            if known is None or not known.said or known.is_out or not is_there:
                return
            if known.address != broker.address:
                return
            try:
                with self._sessions.in_use(number):
                    await self._registered(_Remembered(known, self._store.config), broker, number)
            except StoreUnavailable:
                raise
            except RegistryError as error:
                _LOG.error("%s:%d: not registered again: %s", broker.broker_name, broker.broker_id, error)

    def heard(self, change: Change) -> None:
        """Note what others have changed of the replicas that this front knows."""
        if change.kind in (ChangeKind.UP, ChangeKind.DOWN):
            replica = (change.broker_name, change.broker_id)
            known, is_down = self._known.get(replica), change.kind is ChangeKind.DOWN
            if known is not None:
                known.is_out = is_down and change.reason != EXPIRED
            if is_down and not self._sessions.holds(*replica):
                self._known.pop(replica, None)
        elif change.kind is ChangeKind.DELETED:
            for (name, _), known in self._known.items():
                if name in change.brokers:
                    gone = {*change.removed}
                    known.topics = {topic: of for topic, of in known.topics.items() if topic not in gone}

    async def unregister(
        self, request: RemotingCommand, connection: Connection, config: RegistryConfig
    ) -> RemotingCommand:
        """End a broker that says so (RocketMQ: UNREGISTER_BROKER); its address counts, and not its id."""
        header.number(request, "brokerId")
        named = header.broker_of(request, MASTER_ID)
        broker_id = await self._id_at(named.broker_name, named.address)
        if broker_id is None:  # the store has lost it, perhaps
            broker_id = self._sessions.id_at(connection, named.broker_name, named.address)
        if broker_id is not None:
            broker = replace(named, broker_id=broker_id)
            async with self._turn(broker):  # else it is registered anew meanwhile where the store had lost it
                if await self._sessions.farewell(connection, broker, config):
                    await self._settled()
        return response_to(request, ResponseCode.SUCCESS)

    async def heartbeat(self, request: RemotingCommand) -> RemotingCommand:
        """Renew the lease of a broker, if it has one (RocketMQ: BROKER_HEARTBEAT)."""
        name, address, _ = (header.text(request, one) for one in ("brokerName", "brokerAddr", "clusterName"))
        broker_id = await self._id_at(name, address)
        if broker_id is not None:
            await self._vouch(header.broker_of(request, broker_id))
        return response_to(request, ResponseCode.SUCCESS)

    async def query_data_version(self, request: RemotingCommand) -> RemotingCommand:
        """Compare the version of a broker's table; it is a heartbeat, too (RocketMQ: QUERY_DATA_VERSION)."""
        said_id, version = header.number(request, "brokerId"), bodies.data_version(request.body)
        broker = header.broker_of(request, max(said_id, MASTER_ID))
        if not isinstance(await self._vouch(broker), Vouched):  # its address counts, and not its id
            broker_id = await self._id_at(broker.broker_name, broker.address)
            if broker_id is None:
                return response_to(request, ResponseCode.SUCCESS, {"changed": "true"})
            broker = replace(broker, broker_id=broker_id)
            await self._vouch(broker)
        plan = plans.query_data_version(
            self._store.keys, broker.broker_name, broker.broker_id, version or DataVersion()
        )
        changed, stored = await self._store.run(plan)
        body = b"" if stored is None else answers.data_version(stored)
        said = "true" if changed or version is None else "false"
        return response_to(request, ResponseCode.SUCCESS, {"changed": said}, body=body)

    async def register_topic(self, request: RemotingCommand, config: RegistryConfig) -> RemotingCommand:
        """Add or change one topic of each broker that is named (RocketMQ: REGISTER_TOPIC_IN_NAMESRV)."""
        topic, rows = header.text(request, "topic"), bodies.topic_route_queues(request.body)
        owners = [await self._owner(row.broker_name) for row in rows]  # all, before anything is written
        for row, owner in zip(rows, owners, strict=True):
            topic_config = TopicConfig(
                topic, row.read_queue_nums, row.write_queue_nums, row.perm, row.topic_sys_flag
            )
            await self._store.run(plans.register_topic(config, owner, topic_config))
        await self._settled()
        return response_to(request, ResponseCode.SUCCESS)

    async def _owner(self, broker_name: str) -> Registration:
        owner = await self._store.owner(broker_name)
        if owner is None:
            raise NotFound(f"{broker_name}: no live master of this name")
        return owner

    async def _registered(self, said: _Said | _Remembered, broker: Broker, number: int) -> Vouched:
        """Bring a registration into the store, until this front vouches for what is there."""
        done = False
        for _ in range(_TRIES):
            known = self._known.get((broker.broker_name, broker.broker_id))
            token, member = known.said.get(said.digest, _NEVER) if known is not None else _NEVER
            topics = self._looked_for(broker, known)
            vouching = self._vouch(broker, number, member, topics, speaks=said.speaks)
            # Nothing is told of it: so what was written can be heard of at the same time.
            found = (await asyncio.gather(vouching, self._settled()))[0] if done else await vouching
            if isinstance(found, Vouched) and (done or _is_known(broker, found, token)):
                # What an agent has the say over is not read the next time.
                self._known.setdefault((broker.broker_name, broker.broker_id), _Known(broker.address))
                return found
            if isinstance(found, Claimed) and found.age_ms < _CLAIM_MS:
                await asyncio.sleep(self._rng.uniform(*_MEANWHILE_S))
                continue
            try:
                await self._write(said, broker, found if isinstance(found, Vouched) else None)
            except StaleEpoch:
                continue
            done = True
        raise StoreUnavailable(f"{broker.broker_name}: is registered by others again and again")

    async def _checksum(self, said: _Said, broker: Broker) -> int:
        """Return the checksum of a body; that of a replica which nobody knows here is read meanwhile."""

        async def read() -> None:
            with suppress(BodyError):  # raised where it is needed: first its checksum counts
                await said.body(broker.broker_name, {}, self._large)

        if not said.is_large or (broker.broker_name, broker.broker_id) in self._known:
            return await said.check()
        crc, _ = await asyncio.gather(said.check(), read())
        return crc

    async def _write(self, said: _Said | _Remembered, broker: Broker, found: Vouched | None) -> None:
        """Write what a broker says and the store lacks; raise StaleEpoch when another front was faster."""
        known = self._known.get((broker.broker_name, broker.broker_id))
        if known is None or known.address != broker.address:
            known = _Known(broker.address)
        body = await said.body(broker.broker_name, known.topics, self._large)
        for refused in body.refused:
            _LOG.warning("%s: not registered: %s", broker.broker_name, refused)
        joins = found is not None and found.holder is Holder.FRONTS
        held = _joined(broker, found) if joins and found is not None else None
        rest = self._rest(body)
        if rest is plans.Rest.STAYS and found is None:  # the store may have lost what was said before
            body = replace(body, topics={**known.topics, **body.topics})
        registered = await self._register(
            replace(broker, filter_servers=body.filter_servers), body, held, said.config, rest
        )
        is_all = found is None or rest is plans.Rest.GOES
        self._known[broker.broker_name, broker.broker_id] = known
        known.topics = body.topics if is_all else {**known.topics, **body.topics}
        if rest is not plans.Rest.STAYS:
            known.whole = said.digest
        known.version, known.filter_servers = body.version, body.filter_servers
        known.corrupt_keys = registered.corrupt_keys
        member = codec.encode_member(replace(broker, filter_servers=registered.filter_servers))
        now = {said.digest: (registered.table_token, member)}
        known.said = {**dict([*known.said.items()][1 - _KEPT :]), **now}

    def _rest(self, body: bodies.RegisterBody) -> plans.Rest:
        """Return what becomes of topics that a registration lacks.

        Who comes back to an empty group has what it says now, as in RocketMQ, and not what was there before.
        One topic alone is a change of one, which may come first; RocketMQ refuses it then.
        """
        if self._current.config.delete_topic_with_registration:
            return plans.Rest.GOES
        return plans.Rest.STAYS if len(body.topics) == 1 else plans.Rest.GOES_OF_FORMERS

    async def _register(
        self,
        broker: Broker,
        body: bodies.RegisterBody,
        held: Registration | None,
        config: RegistryConfig,
        rest: plans.Rest,
    ) -> Registration:
        """Register, also in the place of an owner that is gone; its lease may be renewed meanwhile."""
        register = partial(
            plans.register,
            config,
            broker,
            body.topics,
            held=held,
            admit=False,
            version=body.version,
            joint=True,
            rest=rest,
        )
        gone: SeenLease | None = None
        for _ in range(_OWNERS_ASKED):
            try:
                return await self._store.run(register(instead_of=gone))
            except BrokerOwned as error:
                if error.lease is None:
                    raise
                found = await probe_owner(error.lease.address, broker.address)
                if found.answer is not OwnerAnswer.NONE:
                    raise
                gone = error.lease
                _LOG.warning("%s: takes over from %s: %s", broker.broker_name, gone.address, found.why)
        return await self._store.run(register(instead_of=gone))

    def _looked_for(self, broker: Broker, known: _Known | None) -> Sequence[str]:
        if known is None or broker.broker_id != MASTER_ID:  # a slave's own may count for nothing
            return ()
        return looked_for(self._store.keys, known.topics, known.corrupt_keys)

    async def _vouch(
        self,
        broker: Broker,
        number: int | None = None,
        member: bytes = b"",
        topics: Sequence[str] = (),
        *,
        speaks: bool = True,
    ) -> fronts.Vouch:
        """Renew the lease of a broker; one that registers has a session on the connection of this number.

        The session of a connection that is closed meanwhile ends at once.
        """
        session, silent_ms = "", 0
        if number is not None:
            session, silent_ms = self._sessions.open(number, broker, speaks=speaks)
        try:
            config, anew = self._store.config, number is not None
            plan = fronts.vouch(
                config, broker, session, anew=anew, silent_ms=silent_ms, member=member, topics=topics
            )
            return await self._store.run(plan)
        finally:
            if number is not None and not self._sessions.has(number, broker):
                self._sessions.let_go(number, broker)

    async def _id_at(self, broker_name: str, address: str) -> int | None:
        return await self._store.run(fronts.id_at(self._store.keys, broker_name, address))

    def _order_body(self) -> bytes:
        table = self._current.order_configs
        if table is None or not self._current.config.return_order_topic_config:
            return b""
        return answers.kv_table(table)


class _Said:
    """A registration as it was sent; its body is read when it is needed, which it seldom is."""

    speaks: Final = True

    def __init__(self, request: RemotingCommand, config: RegistryConfig) -> None:
        self._request = request
        self.config = config
        """To write with; it names who said it."""

        self.is_large = len(request.body) > _LARGE_BYTES
        self.digest = b""
        """Of all that it says, once that was checked."""

        self._body: bodies.RegisterBody | None = None

    async def check(self) -> int:
        """Take the digest; return the checksum of the body."""
        crc, self.digest = await in_thread_if(self.is_large, _fingerprint, self._request)
        return crc

    async def body(
        self, broker_name: str, previous: Mapping[str, bytes], large: asyncio.Semaphore
    ) -> bodies.RegisterBody:
        """Return what the body says, of large ones a few at a time; raises BodyError."""
        if self._body is None:
            request = self._request
            read = partial(
                bodies.registration,
                request.body,
                version=request.version,
                compressed=bool(header.flag(request, "compressed")),
                broker_name=broker_name,
                previous=previous,
            )
            is_small = not self.is_large and request.body.startswith(_JSON)
            if is_small or not request.body:
                self._body = read()
            else:
                async with large:
                    with nothing_collected():
                        self._body = await in_thread(read)
        return self._body


class _Remembered:
    """All that a replica has said, for a store that has lost it."""

    speaks: Final = False

    def __init__(self, known: _Known, config: RegistryConfig) -> None:
        self._known = known
        self.config = config
        self.digest = known.whole

    async def body(self, *_: object) -> bodies.RegisterBody:
        """Return it as one body."""
        known = self._known
        return bodies.RegisterBody(dict(known.topics), known.version, known.filter_servers)


def _fingerprint(request: RemotingCommand) -> tuple[int, bytes]:
    """Return the checksum of the body, and the digest of all that a registration says.

    It tells what a broker says from what it said before, and nobody else: processors have SHA-1 in hardware.
    """
    digest = hashlib.sha1(request.body, usedforsecurity=False)
    digest.update(repr(request.ext_fields).encode())
    return bodies.crc32(request.body), digest.digest()


def _is_known(broker: Broker, found: Vouched, token: str) -> bool:
    """Whether the store has what the broker says, in the table of this token, or its agent has the say."""
    if found.holder is Holder.AGENT:
        return True
    # A slave that stands in looks each time: what it may write changes with its master.
    has_say = broker.broker_id == MASTER_ID or bool(found.master_address)
    return has_say and found.is_same and found.holder is Holder.FRONTS and token == found.table_token


def _joined(broker: Broker, found: Vouched) -> Registration:
    """Return the registration that the fronts share; others write its table, too, so it is looked at."""
    return Registration(broker, found.epoch, found.table_token, {}, complete=False)
