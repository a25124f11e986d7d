"""The registry over a blocking Redis client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from . import plans
from .admin import Admin
from .config import RegistryConfig
from .connection.links import Link, RedisClient, ReplicaLink, open_links
from .connection.redispy import (
    REDIS_ERRORS,
    LeftOut,
    check_client,
    no_script,
    normal,
    report,
    ring,
    translate,
)
from .connection.subscription import Subscription
from .errors import InvalidInput, SeenLease, StaleEpoch
from .keys import Keys
from .kv import KeyValues
from .leaseevents import LeaseEvents, lease_events
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
from .plans import Batch, Call, ChangePage, HistoryBounds, HistoryPage, Lookup, Plan, Reads, Reply

if TYPE_CHECKING:
    from .change_stream.follower import Follower
    from .health.report import HealthReport

T = TypeVar("T")

Doorbell: TypeAlias = Subscription[bytes]
"""A subscription to the channel that every change rings; for one thread.

`wait` returns empty bytes when earlier messages may have been missed.
"""


class RouteStore:
    """The shared table; thread-safe. Every method raises StoreUnavailable and StoreRefused."""

    def __init__(
        self,
        link: Link,
        replica: ReplicaLink | None = None,
        config: RegistryConfig | None = None,
        *,
        owns_links: bool = False,
    ) -> None:
        self.config = config or RegistryConfig()
        self.keys = Keys(self.config.namespace)
        self._link = link
        self._replica = replica
        self._owns_links = owns_links
        self._schema_is_known = False
        self._left_out = LeftOut()
        self.kv = KeyValues(self.config, self.run)
        self.admin = Admin(self.config, self.run)

    @classmethod
    def from_url(
        cls, url: str, config: RegistryConfig | None = None, *, namespace: str | None = None
    ) -> Self:
        """Return a store with connections of its own for a URL: one server, Sentinels or a Cluster.

        The forms are in connect.FORMS and docs/operating.md. Nothing is connected yet. `namespace`: which
        registry of the store; None = as the settings say. Raises InvalidInput.
        """
        config = RegistryConfig.of(config, namespace)
        return cls(*open_links(url, config, Keys(config.namespace)), config, owns_links=True)

    @classmethod
    def from_client(
        cls,
        client: RedisClient,
        config: RegistryConfig | None = None,
        *,
        namespace: str | None = None,
        replica: RedisClient | None = None,
    ) -> Self:
        """Return a store over clients that stay the caller's; their own timeouts and retries apply.

        `replica` is who may be asked what may be stale. Raises InvalidInput for a client that does not fit.
        """
        check_client(client)
        config = RegistryConfig.of(config, namespace)
        keys = Keys(config.namespace)
        if replica is not None:
            check_client(replica)
        return cls(Link(client, keys), ReplicaLink(replica, keys) if replica is not None else None, config)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections if they are the store's own."""
        if self._owns_links:
            for link in filter(None, (self._link, self._replica)):
                link.close()

    def register(
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
        return self.run(
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

    def register_topic(self, held: Registration, topic: TopicConfig) -> Registration:
        """Add or change one topic of a broker; see plans.register_topic."""
        return self.run(plans.register_topic(self.config, held, topic))

    def owner(self, broker_name: str, broker_id: int = MASTER_ID) -> Registration | None:
        """Return the registration that holds a broker at the moment, without its topics; see plans.owner."""
        return self.run(plans.owner(self.keys, broker_name, broker_id))

    def query_data_version(
        self, broker_name: str, version: DataVersion, broker_id: int = MASTER_ID
    ) -> tuple[bool, DataVersion | None]:
        """Return whether a version is not the registered one, and that one; see plans.query_data_version."""
        return self.run(plans.query_data_version(self.keys, broker_name, broker_id, version))

    def heartbeat(self, held: Registration, *, listings: bool = False) -> LeaseStatus:
        """Renew a lease; see plans.heartbeat."""
        return self.run(plans.heartbeat(self.config, held, listings=listings))

    def unregister(self, held: Registration, *, reason: str = "unregistered") -> bool:
        """End a lease at once; see plans.unregister."""
        return self.run(plans.unregister(self.config, held, reason=reason))

    def unregister_many(
        self, held: Iterable[Registration], *, reason: str = "unregistered"
    ) -> tuple[StaleEpoch, ...]:
        """End many leases; return why some were not; see plans.unregister_many."""
        return self.run(plans.unregister_many(self.config, held, reason=reason))

    def sweep(self, holder: str) -> Sweep:
        """Announce the brokers whose lease has ended; see plans.sweep."""
        return self.run(plans.sweep(self.config, holder))

    def expire(self, broker_name: str, broker_id: int) -> bool:
        """Announce that one lease has ended, if that was not done; see plans.expire."""
        return self.run(plans.expire(self.config, broker_name, broker_id))

    def routes(self, topics: Sequence[str], *, stale: bool = False) -> dict[str, TopicRoute]:
        """Return the routes of those topics that a live broker holds; corrupt keys are logged; see `run`."""
        found = self.lookup(topics, stale=stale)
        report(found.corrupt)
        return found.routes()

    def lookup(
        self,
        topics: Sequence[str],
        known: Mapping[str, Group] | None = None,
        anew: Iterable[str] = (),
        *,
        stale: bool = False,
    ) -> Lookup:
        """Return all that one look at the table tells about the topics; see plans.lookup, and `run`."""
        return self.run(plans.lookup(self.keys, topics, known, anew), stale=stale)

    def topics(self, cluster: str | None = None, kind: TopicKind = TopicKind.ALL) -> list[str]:
        """Return the topics that a live broker holds, sorted; corrupt keys are logged; see plans.topics."""
        listing = self.run(plans.topics(self.keys, cluster, kind))
        report(listing.corrupt)
        return listing.found

    def system_topics(self) -> list[str]:
        """Return the names of all live clusters and brokers, sorted; corrupt keys are logged."""
        listing = self.run(plans.system_topics(self.keys))
        report(listing.corrupt)
        return listing.found

    def cluster_info(self) -> ClusterInfo:
        """Return the live brokers by name and by cluster; corrupt keys are logged; see plans.cluster_info."""
        info, corrupt = self.run(plans.cluster_info(self.keys))
        report(corrupt)
        return info

    def member_group(self, broker_name: str) -> BrokerData | None:
        """Return the live replicas of a broker, without promotion; see plans.member_group."""
        return self.run(plans.member_group(self.keys, broker_name))

    def brokers(self) -> list[BrokerData]:
        """Return the live brokers, sorted by name; corrupt keys are logged."""
        listing = self.run(plans.brokers(self.keys))
        report(listing.corrupt)
        return listing.found

    def hint(self, client_id: str, broker_names: Iterable[str], *, ttl_s: float) -> dict[str, str]:
        """Say for a while which brokers a client cannot reach, none withdraws; see plans.hint."""
        return self.run(plans.hint(self.keys, client_id, broker_names, ttl_s))

    def hints(self) -> dict[str, frozenset[str]]:
        """Return who cannot reach which broker; what is corrupt is logged; see plans.hints."""
        found, corrupt = self.run(plans.hints(self.keys))
        report(corrupt)
        return found

    def changes_since(self, position: str = plans.ORIGIN, limit: int = 1_000) -> ChangePage:
        """Return up to `limit` changes after a position of the stream; see plans.changes_since."""
        return self.run(plans.changes_since(self.keys, position, limit))

    def history(
        self, after: str = plans.ORIGIN, until: str = plans.NEWEST, limit: int = 10_000
    ) -> HistoryPage:
        """Return up to `limit` changes after an id of the stream, undecoded; see plans.history."""
        (page,) = self.run(plans.history(self.keys, plans.HistoryRange(after, until, limit)))
        return page

    def history_bounds(self) -> HistoryBounds:
        """Return where the stream of changes begins and ends, and its length; see plans.history_bounds."""
        return self.run(plans.history_bounds(self.keys))

    def follow(
        self,
        position: str | None = None,
        *,
        table: bool = True,
        idle_s: float | None = None,
        tail_s: float = 1.0,
    ) -> Follower:
        """Tell what happens to the registry: first a Reset with the whole table, then every Change, in order.

        With a `position` (of a Reset, a Change or an Idle) it goes on there; a Reset comes first only if that
        place is gone. Whatever happens to the store, following goes on; what was missed, or could not be
        read, is said by a Reset.
        `table=False`: a Reset comes without the table. `idle_s`: after so long without an item, Idle comes.
        `tail_s`: how often the stream is read, doorbell or not.
        Raises InvalidInput, and StoreRefused while it is iterated, if the store refuses at the first contact.
        """
        from .change_stream.follower import Follower  # noqa: PLC0415 - few follow

        return Follower(self, position, table=table, idle_s=idle_s, tail_s=tail_s)

    def health(self) -> HealthReport:
        """Report on the registry and its server, with advice, in about 0.1 s; see plans.health."""
        first_us = self._run(plans.server_time(), stale=False)  # whatever the schema: it is reported
        time.sleep(plans.CLOCK_PAUSE_S)
        return self._run(plans.health(self.config, first_us), stale=False)

    def doorbell(self) -> Doorbell:
        """Return a new subscriber of the change doorbell; the caller closes it."""
        return Subscription(self._link, ring, channel=self.keys.changes)

    def lease_events(self) -> LeaseEvents:
        """Return a new subscriber of the keyspace events of all leases; the caller closes it."""
        return lease_events(self._link, self.keys)

    def run(self, plan: Plan[T], *, stale: bool = False) -> T:
        """Run any plan; raises StoreUnavailable, StoreRefused and what the plan raises.

        With `stale`, what only reads is sent to a replica, if there is one that can be reached. It is behind
        the primary by the replication lag: for so long it may serve an address that was withdrawn or whose
        lease was ended, or miss a new one. A lease that nobody renews ends there by its TTL all the same.
        """
        with closing(plan):
            if not self._schema_is_known:
                self._run(plans.check_schema(self.keys), stale=stale)
                self._schema_is_known = True
            return self._run(plan, stale=stale)

    def _run(self, plan: Plan[T], *, stale: bool) -> T:
        try:
            batch = next(plan)
            while True:
                batch = plan.send(self._send(batch, stale=stale))
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            plan.close()

    def _send(self, batch: Batch, *, stale: bool = False) -> list[Reply]:
        try:
            replies = self._call(batch) if isinstance(batch, Call) else self._read(batch, stale=stale)
        except REDIS_ERRORS as error:
            raise translate(error) from error
        except UnicodeEncodeError as error:
            raise InvalidInput(f"a name cannot be written as UTF-8: {error}") from None
        tolerant = isinstance(batch, Reads) and batch.tolerant
        return [normal(reply, tolerant=tolerant) for reply in replies]

    def _read(self, batch: Reads, *, stale: bool) -> list[Any]:
        if stale and self._replica is not None:
            replies = self._replica.attempt(batch.commands)
            if replies is not None:
                return replies
        return self._link.send(batch.commands)

    def _call(self, call: Call) -> list[Any]:
        arguments = (len(call.keys), *call.keys, *call.args)
        replies = self._link.send([("EVALSHA", call.script.sha, *arguments)])
        if no_script(replies[0]):
            replies = self._link.send([("EVAL", call.script.source, *arguments)])
        self._left_out.look(replies, monotonic())
        return replies
