"""The registry over an asyncio Redis client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar

from . import plans
from .concurrency_async import sleep
from .config import RegistryConfig
from .connection.links_async import (
    AsyncLink,
    AsyncReaderLink,
    AsyncRedisClient,
    AsyncReplicaLink,
    AsyncSubscription,
    open_links,
    open_reader,
)
from .connection.replies import (
    REDIS_ERRORS,
    ForeignKeyLog,
    check_client,
    doorbell_message,
    lease_channels,
    lease_gone,
    no_script,
    normal,
    translate,
)
from .connection.url import parse_url
from .errors import InvalidInput, SeenLease, log_corrupt
from .keys import Keys
from .model import (
    MASTER_ID,
    Broker,
    BrokerData,
    ClusterInfo,
    DataVersion,
    Group,
    LeaseStatus,
    Registration,
    Sweep,
    TopicConfig,
    TopicKind,
    TopicRoute,
    topic_table,
)
from .plans import (
    Batch,
    Call,
    ChangePage,
    Command,
    HistoryBounds,
    HistoryPage,
    Kept,
    Listing,
    Lookup,
    Plan,
    Reads,
    Reply,
)
from .store_parts_async import AsyncAdmin, AsyncKeyValues

if TYPE_CHECKING:
    from .change_stream.follower_async import AsyncFollower
    from .connection.reading import Place, Reading
    from .health.findings import HealthReport

T = TypeVar("T")


class AsyncRouteStore:
    """The shared table; for one event loop. Every method raises StoreUnavailable and StoreRefused."""

    def __init__(
        self,
        link: AsyncLink,
        replica: AsyncReplicaLink | None = None,
        config: RegistryConfig | None = None,
        *,
        owns_links: bool = False,
        url: str | None = None,
        reader: AsyncReaderLink | None = None,
    ) -> None:
        self.config = config or RegistryConfig()
        self.keys = Keys(self.config.namespace)
        self._link = link
        self._replica = replica
        self._owns_links = owns_links
        self._url = url
        self._reader = reader
        self._schema_is_known = False
        self._foreign_keys = ForeignKeyLog()
        self.kv = AsyncKeyValues(self.config, self.run)
        self.admin = AsyncAdmin(self.config, self.run)

    @classmethod
    def from_url(
        cls, url: str, config: RegistryConfig | None = None, *, namespace: str | None = None
    ) -> Self:
        """Return a store with connections of its own for a URL: one server, Sentinels or a Cluster.

        docs/operating.md has the forms. Nothing is connected yet. `namespace`: which
        registry of the store; None = as the settings say. Raises InvalidInput.
        """
        config = RegistryConfig.of(config, namespace)
        config = replace(config, store_user=parse_url(url).username or config.store_user)
        return cls(*open_links(url, config, Keys(config.namespace)), config, owns_links=True, url=url)

    @classmethod
    def from_client(
        cls,
        client: AsyncRedisClient,
        config: RegistryConfig | None = None,
        *,
        namespace: str | None = None,
        replica: AsyncRedisClient | None = None,
    ) -> Self:
        """Return a store over clients that stay the caller's; their own timeouts and retries apply.

        `replica`: a client of a replica, for reads that may be stale. Raises InvalidInput for an unfit
        client.
        """
        check_client(client)
        config = RegistryConfig.of(config, namespace)
        keys = Keys(config.namespace)
        if replica is not None:
            check_client(replica)
        return cls(
            AsyncLink(client, keys), AsyncReplicaLink(replica, keys) if replica is not None else None, config
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections if they are the store's own."""
        own = (self._link, self._replica) if self._owns_links else (self._reader,)
        for link in filter(None, own):
            await link.aclose()

    def at_replicas(self, place: Place, spread_s: float) -> tuple[Self, Reading]:
        """Return this store for one client that reads and listens at a replica, and what is known of where.

        `place`: the client's place in the stream. `spread_s`: when all clients lose their last replica at
        once, they go to the primary within this time. The caller closes the store that is returned, before
        this one. Raises InvalidInput.
        """
        if self._url is None:
            raise InvalidInput("read_from: replicas are found by a URL only, and not by a Redis client")
        reader = open_reader(self._url, self.config, self.keys, place, spread_s)
        return type(self)(self._link, None, self.config, reader=reader), reader.where

    async def register(
        self,
        broker: Broker,
        topics: Iterable[TopicConfig] | Mapping[str, TopicConfig],
        *,
        held: Registration | None = None,
        take_over: bool = True,
        admit: bool = True,
        instead_of: SeenLease | None = None,
        version: DataVersion | None = None,
    ) -> Registration:
        """Make `topics` the broker's whole table and give it a lease; see plans.register."""
        table = topics if isinstance(topics, Mapping) else topic_table(topics)
        return await self.run(
            plans.register(
                self.config,
                broker,
                table,
                held=held,
                take_over=take_over,
                admit=admit,
                instead_of=instead_of,
                version=version or DataVersion(),
            )
        )

    async def owner(self, broker_name: str, broker_id: int = MASTER_ID) -> Registration | None:
        """Return the registration that holds a broker at the moment, without its topics; see plans.owner."""
        return await self.run(plans.owner(self.keys, broker_name, broker_id))

    async def heartbeat(self, held: Registration, *, listings: bool = False) -> LeaseStatus:
        """Renew a lease; see plans.heartbeat."""
        return await self.run(plans.heartbeat(self.config, held, listings=listings))

    async def unregister(self, held: Registration, *, reason: str = "unregistered") -> bool:
        """End a lease at once; see plans.unregister."""
        return await self.run(plans.unregister(self.config, held, reason=reason))

    async def sweep(self, holder: str) -> Sweep:
        """Announce the brokers whose leases have ended; see plans.sweep."""
        return await self.run(plans.sweep(self.config, holder))

    async def expire(self, broker_name: str, broker_id: int) -> bool:
        """Announce that one lease has ended, unless that was done; see plans.expire."""
        return await self.run(plans.expire(self.config, broker_name, broker_id))

    async def routes(self, topics: Sequence[str], *, stale: bool = False) -> dict[str, TopicRoute]:
        """Return the routes of those topics that a live broker holds; corrupt keys are logged; see `run`."""
        found = await self.lookup(topics, stale=stale)
        log_corrupt(found.corrupt)
        return found.routes()

    async def lookup(
        self,
        topics: Sequence[str],
        known: Mapping[str, Group] | None = None,
        anew: Iterable[str] = (),
        *,
        stale: bool = False,
    ) -> Lookup:
        """Return the rows and live brokers of topics, read at one moment; see plans.lookup, and `run`."""
        return await self.run(plans.lookup(self.keys, topics, known, anew), stale=stale)

    async def topics(self, cluster: str | None = None, kind: TopicKind = TopicKind.ALL) -> list[str]:
        """Return the topics that a live broker holds, sorted; corrupt keys are logged; see plans.topics."""
        return await self._found(plans.topics(self.keys, cluster, kind))

    async def cluster_info(self) -> ClusterInfo:
        """Return the live brokers by name and by cluster; corrupt keys are logged; see plans.cluster_info."""
        return await self._found(plans.cluster_info(self.keys))

    async def member_group(self, broker_name: str) -> BrokerData | None:
        """Return the live replicas of a broker, without promotion; see plans.member_group."""
        return await self.run(plans.member_group(self.keys, broker_name))

    async def brokers(self) -> list[BrokerData]:
        """Return the live brokers, sorted by name; corrupt keys are logged."""
        return await self._found(plans.brokers(self.keys))

    async def hint(self, client_id: str, broker_names: Iterable[str], *, ttl_s: float) -> dict[str, str]:
        """Announce for `ttl_s` which brokers a client cannot reach; none takes that back; see plans.hint."""
        return await self.run(plans.hint(self.keys, client_id, broker_names, ttl_s))

    async def hints(self) -> dict[str, frozenset[str]]:
        """Return which clients cannot reach a broker; corrupt entries are logged; see plans.hints."""
        found, corrupt = await self.run(plans.hints(self.keys))
        log_corrupt(corrupt)
        return found

    async def changes_since(self, position: str = plans.ORIGIN, limit: int = 1_000) -> ChangePage:
        """Return up to `limit` changes after a position of the stream; see plans.changes_since."""
        return await self.run(plans.changes_since(self.keys, position, limit))

    async def history(
        self, after: str = plans.ORIGIN, until: str = plans.NEWEST, limit: int = 10_000
    ) -> HistoryPage:
        """Return up to `limit` changes after an id of the stream, undecoded; see plans.history."""
        (page,) = await self.run(plans.history(self.keys, plans.HistoryRange(after, until, limit)))
        return page

    async def history_bounds(self) -> HistoryBounds:
        """Return where the stream of changes begins and ends, and its length; see plans.history_bounds."""
        return await self.run(plans.history_bounds(self.keys))

    def follow(
        self,
        position: str | None = None,
        *,
        table: bool = True,
        idle_s: float | None = None,
        tail_s: float = 1.0,
    ) -> AsyncFollower:
        """Iterate over what happens: first a Reset with the whole table, then every Change, in order.

        With a `position` (of a Reset, a Change or an Idle) it continues there; a Reset comes first only if
        the stream no longer has that place. It survives failures of the store; when changes were missed or
        could not be read, a Reset says so. `table=False`: a Reset comes without the table. `idle_s`: after so
        long without an item, an Idle comes. `tail_s`: how often the stream is read even if the doorbell is
        silent. Raises InvalidInput, and StoreRefused while it is iterated, if the store refuses at the first
        contact.
        """
        from .change_stream.follower_async import AsyncFollower

        return AsyncFollower(self, position, table=table, idle_s=idle_s, tail_s=tail_s)

    async def health(self) -> HealthReport:
        """Report on the registry and its server, with advice, in about 0.1 s; see health.findings."""
        from .health.findings import CLOCK_PAUSE_S, health

        first_us = await self._run(plans.server_time(), stale=False)  # whatever the schema: it is reported
        await sleep(CLOCK_PAUSE_S)
        return await self._run(health(self.config, first_us), stale=False)

    def doorbell(self) -> AsyncSubscription[bytes]:
        """Return a new subscription to the channel on which every change is published; the caller closes it.

        Its `wait` returns empty bytes when earlier messages may have been missed.
        """
        link = self._reader or self._link
        return AsyncSubscription(link, doorbell_message, channel=self.keys.changes)

    def lease_events(self) -> AsyncSubscription[tuple[str, int]]:
        """Return a new subscription to the keyspace events of all leases; the caller closes it.

        They need notify-keyspace-events Kgxe. Its `wait` returns broker name and id of a lease that is gone.
        """
        prefix = lease_channels(self._link.client, self.keys)
        return AsyncSubscription(self._link, partial(lease_gone, prefix), prefix=prefix)

    async def _found(self, plan: Plan[Listing[T]]) -> T:
        listing = await self.run(plan)
        log_corrupt(listing.corrupt)
        return listing.found

    async def run(self, plan: Plan[T], *, stale: bool = False) -> T:
        """Run any plan; raises StoreUnavailable, StoreRefused and what the plan raises.

        With `stale`, reads go to a replica if one can be reached. It lags behind the primary: meanwhile it
        may serve an address that was withdrawn or whose lease was ended, or miss a new one. A lease that is
        not renewed ends there by its TTL as well.
        """
        with closing(plan):
            if not self._schema_is_known:
                await self._run(plans.check_schema(self.keys), stale=stale)
                self._schema_is_known = True
            return await self._run(plan, stale=stale)

    async def _run(self, plan: Plan[T], *, stale: bool) -> T:
        try:
            batch = next(plan)
            while True:
                batch = plan.send(await self._send(batch, stale=stale))
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            plan.close()

    async def _send(self, batch: Batch, *, stale: bool = False) -> list[Reply]:
        try:
            replies = await (self._call(batch) if isinstance(batch, Call) else self._read(batch, stale=stale))
        except REDIS_ERRORS as error:
            raise translate(error) from error
        except UnicodeEncodeError as error:
            raise InvalidInput(f"a name cannot be written as UTF-8: {error}") from None
        tolerant = isinstance(batch, Reads) and batch.tolerant
        return [normal(reply, tolerant=tolerant) for reply in replies]

    async def _read(self, batch: Reads, *, stale: bool) -> list[Any]:
        if self._reader is not None and not batch.at_primary:
            return await self._reader.send(batch.commands)
        if stale and self._replica is not None:
            replies = await self._replica.attempt(batch.commands)
            if replies is not None:
                return replies
        return await self._link.send(batch.commands)

    async def _call(self, call: Call) -> list[Any]:
        by_sha = (("EVALSHA", one.script.sha, *_words(one)) for one in chain((call,), call.following))
        replies = await self._link.send(Kept(by_sha) if call.following else [*by_sha])
        done = next((place for place, reply in enumerate(replies) if no_script(reply)), len(replies))
        if done < len(replies):
            replies[done:] = await self._link.send(
                [
                    ("EVAL", one.script.source, *_words(one))
                    for one in islice(chain((call,), call.following), done, None)
                ]
            )
        self._foreign_keys.look(replies, monotonic())
        return replies


def _words(call: Call) -> Command:
    """Return what follows the name of the script in its command."""
    return (len(call.keys), *call.keys, *call.args)
