"""What one look at the table tells: rows and live brokers, joined into routes; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ..errors import CorruptData
from ..model import MASTER_ID, BrokerData, Group, MemberTraits, Perm, QueueData, TopicRoute

_NO_WRITE: Final = ~int(Perm.WRITE)
_NO_TRAITS: Final = MemberTraits()

_SYNC_MEMBER_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics of RocketMQ in which a broker wants to see who is really the master."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What one look at the table found; all of it read after the call began."""

    rows: dict[str, tuple[QueueData, ...]] = field(default_factory=dict)
    """The queue data of every topic that was found, of live and of dead brokers, as the brokers set them."""

    missing: tuple[str, ...] = ()
    """Topics that nobody holds."""

    groups: dict[str, Group] = field(default_factory=dict)
    """Every broker that the rows name and that was ever registered."""

    alive: dict[str, BrokerData] = field(default_factory=dict)
    """The brokers with a live lease, and only the replicas that have one."""

    corrupt: tuple[CorruptData, ...] = ()
    """Keys that hold something else than they should; the rest is served."""

    def routes(self) -> dict[str, TopicRoute]:
        """Return the routes of the topics with at least one live broker."""
        live = {id(rows): _Live.of(rows, self.alive) for rows in distinct(self.rows)}
        return {
            topic: found.route(topic) for topic, rows in self.rows.items() if (found := live[id(rows)]).rows
        }


def route_of(topic: str, rows: tuple[QueueData, ...], alive: Mapping[str, BrokerData]) -> TopicRoute:
    """Join the rows of a topic with the live brokers (RocketMQ: pickupTopicRouteData).

    A broker whose write permission was wiped is not writable. A slave that stands in for a lost master has
    the id of the master, 0, and is not writable either.
    """
    return _Live.of(rows, alive).route(topic)


def live_broker(group: Group, addresses: Mapping[int, str]) -> BrokerData:
    """Return a group with the addresses of its live replicas; the lowest id speaks for the group."""
    if not group.traits:
        return BrokerData(group.cluster, group.broker_name, addresses, wiped=group.wiped)
    first = group.traits.get(min(addresses), _NO_TRAITS)
    return BrokerData(
        group.cluster,
        group.broker_name,
        addresses,
        first.zone_name,
        first.enable_acting_master,
        group.wiped,
        {
            address: traits.filter_servers
            for broker_id, address in addresses.items()
            if (traits := group.traits.get(broker_id)) and traits.filter_servers
        },
    )


def distinct(rows: Mapping[str, tuple[QueueData, ...]]) -> Iterable[tuple[QueueData, ...]]:
    """Return each tuple once: the codec gives topics of one shape the same one."""
    return {id(found): found for found in rows.values()}.values()


class _Live(NamedTuple):
    """What all topics with the same rows have in common."""

    rows: tuple[QueueData, ...]
    brokers: tuple[BrokerData, ...]
    promoted: tuple[BrokerData, ...]
    """The brokers with a stand-in as master where that one is lost."""

    @classmethod
    def of(cls, rows: tuple[QueueData, ...], alive: Mapping[str, BrokerData]) -> _Live:
        try:
            brokers = tuple([alive[row.broker_name] for row in rows])
        except KeyError:  # some broker is dead: rare, so the usual case pays nothing for it
            rows = tuple([row for row in rows if row.broker_name in alive])
            brokers = tuple([alive[row.broker_name] for row in rows])
        if not any(broker.wiped or broker.headless for broker in brokers):
            return cls(rows, brokers, brokers)
        return cls(
            tuple(map(_without_write, rows, brokers)), brokers, tuple(map(_with_acting_master, brokers))
        )

    def route(self, topic: str) -> TopicRoute:
        same = self.promoted is self.brokers or topic.startswith(_SYNC_MEMBER_PREFIX)
        return TopicRoute(topic, self.rows, self.brokers if same else self.promoted)


def _without_write(row: QueueData, broker: BrokerData) -> QueueData:
    return replace(row, perm=row.perm & _NO_WRITE) if broker.wiped or broker.headless else row


def _with_acting_master(broker: BrokerData) -> BrokerData:
    """Return a group in which the lowest id has become id 0, if it has no master."""
    if not broker.headless:
        return broker
    acting = broker.min_broker_id
    slaves = {member: address for member, address in broker.broker_addrs.items() if member != acting}
    return replace(broker, broker_addrs={MASTER_ID: broker.broker_addrs[acting], **slaves})
