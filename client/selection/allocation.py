"""Which queues a member of a consumer group reads: the answers of RocketMQ's AllocateMessageQueue strategies.

Every member computes its own part; they agree when they see the same queues and the same members.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Final, Protocol, TypeVar

from ...registry.checks import check_int
from ...registry.errors import InvalidInput
from ...registry.model import MessageQueue

_T = TypeVar("_T")

_MAX_VIRTUAL_NODES: Final = 10_000
_ROOM_AND_NAME: Final = 2


class AllocateStrategy(Protocol):
    """Gives each queue to one member; the order in which queues and members are given must not matter."""

    def allocate(
        self,
        consumer_group: str,
        member_id: str,
        queues: Collection[MessageQueue],
        member_ids: Collection[str],
    ) -> tuple[MessageQueue, ...]:
        """Return the queues of one member; none if the group does not know it (yet).

        Raises InvalidInput for an empty member id.
        """
        ...


class _ByPlace(ABC):
    """A strategy that goes by the place of a member in the group, whatever the group."""

    __slots__ = ()

    def allocate(
        self,
        consumer_group: str,  # noqa: ARG002 - the interface is RocketMQ's
        member_id: str,
        queues: Collection[MessageQueue],
        member_ids: Collection[str],
    ) -> tuple[MessageQueue, ...]:
        """Return the queues of one member; see AllocateStrategy."""
        members = _members(member_id, member_ids)
        if member_id not in members:
            return ()
        return tuple(self._part(members.index(member_id), members, _ordered(queues)))

    @abstractmethod
    def _part(self, place: int, members: list[str], queues: list[MessageQueue]) -> list[MessageQueue]:
        """Return the queues of the member at a place."""


@dataclass(frozen=True, slots=True)
class AllocateAveragely(_ByPlace):
    """Equal runs of neighbouring queues (RocketMQ: AllocateMessageQueueAveragely, its default)."""

    def _part(self, place: int, members: list[str], queues: list[MessageQueue]) -> list[MessageQueue]:
        each, left_over = divmod(len(queues), len(members))  # the first members have one queue more
        start = place * each + min(place, left_over)
        return queues[start : start + each + (place < left_over)]


@dataclass(frozen=True, slots=True)
class AllocateAveragelyByCircle(_ByPlace):
    """Queues dealt out like cards (RocketMQ: AllocateMessageQueueAveragelyByCircle)."""

    def _part(self, place: int, members: list[str], queues: list[MessageQueue]) -> list[MessageQueue]:
        return queues[place :: len(members)]


@dataclass(frozen=True, slots=True)
class AllocateConsistentHash(_ByPlace):
    """Few queues change hands when members come and go (RocketMQ: AllocateMessageQueueConsistentHash).

    The ring is that of ConsistentHashRouter: the first four bytes of MD5. Raises InvalidInput for a number of
    virtual nodes outside 1..10000.
    """

    virtual_nodes: int = 10
    """Places on the ring for each member, up to 10,000; more = more even shares, and slower. All members of a
    group need the same."""

    def __post_init__(self) -> None:
        check_int("virtual_nodes", self.virtual_nodes, 1, _MAX_VIRTUAL_NODES)

    def _part(self, place: int, members: list[str], queues: list[MessageQueue]) -> list[MessageQueue]:
        ring = {_hash(f"{member}-{node}"): member for member in members for node in range(self.virtual_nodes)}
        points = sorted(ring)

        def holder(queue: MessageQueue) -> str:
            return ring[points[bisect_left(points, _hash(_as_java_prints(queue))) % len(points)]]

        return [queue for queue in queues if holder(queue) == members[place]]


@dataclass(frozen=True, slots=True)
class AllocateByMachineRoom(_ByPlace):
    """Only queues of brokers that are named `<room>@<name>`, of these rooms.

    Source: AllocateMessageQueueByMachineRoom; there the rooms are called consumeridcs.
    """

    rooms: frozenset[str]

    def _part(self, place: int, members: list[str], queues: list[MessageQueue]) -> list[MessageQueue]:
        ours = [queue for queue in queues if self._is_ours(queue)]
        each = len(ours) // len(members)
        left_over = ours[each * len(members) :]
        return ours[place * each : (place + 1) * each] + left_over[place : place + 1]

    def _is_ours(self, queue: MessageQueue) -> bool:
        parts = queue.broker_name.rstrip("@").split("@")  # Java's split drops empty parts at the end
        return len(parts) == _ROOM_AND_NAME and parts[0] in self.rooms


@dataclass(frozen=True, slots=True)
class AllocateMachineRoomNearby:
    """Queues stay in their zone while it has a member; those of other zones are shared by all.

    Source: AllocateMachineRoomNearby and its MachineRoomResolver.
    """

    inner: AllocateStrategy
    """Allocates the queues of one zone."""

    zone_of_queue: Callable[[MessageQueue], str]
    zone_of_member: Callable[[str], str]

    def allocate(
        self,
        consumer_group: str,
        member_id: str,
        queues: Collection[MessageQueue],
        member_ids: Collection[str],
    ) -> tuple[MessageQueue, ...]:
        """Return those of the own zone, then those of zones without a member.

        Raises InvalidInput for an empty member id or an empty zone.
        """
        members = _members(member_id, member_ids)
        if member_id not in members:
            return ()
        queues_by_zone = _by_zone(_ordered(queues), self.zone_of_queue)
        members_by_zone = _by_zone(members, self.zone_of_member)
        own = self.zone_of_member(member_id)
        found = self.inner.allocate(
            consumer_group, member_id, queues_by_zone.get(own, ()), members_by_zone[own]
        )
        for zone in sorted(queues_by_zone.keys() - members_by_zone.keys(), key=_as_java_sorts):
            found += self.inner.allocate(consumer_group, member_id, queues_by_zone[zone], members)
        return found


def _members(member_id: str, member_ids: Iterable[str]) -> list[str]:
    """Return the members in the order that all of them use (RebalanceImpl sorts before it allocates)."""
    if not member_id:
        raise InvalidInput("member_id: must not be empty")
    return sorted(set(member_ids), key=_as_java_sorts)


def _ordered(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Sort as MessageQueue.compareTo: topic, broker name, queue id."""

    def place(queue: MessageQueue) -> tuple[bytes, bytes, int]:
        return _as_java_sorts(queue.topic), _as_java_sorts(queue.broker_name), queue.queue_id

    return sorted(queues, key=place)


def _as_java_sorts(text: str) -> bytes:
    """Return what sorts as Java's String.compareTo, which compares UTF-16 units and not code points."""
    return text.encode("utf-16-be", "surrogatepass")


def _as_java_prints(queue: MessageQueue) -> str:
    topic, broker_name, queue_id, _ = queue
    return f"MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]"


def _by_zone(things: Iterable[_T], zone_of: Callable[[_T], str]) -> dict[str, Sequence[_T]]:
    zones: dict[str, list[_T]] = {}
    for thing in things:
        zone = zone_of(thing)
        if not zone:
            raise InvalidInput(f"zone of {thing!r}: must not be empty")
        zones.setdefault(zone, []).append(thing)
    return dict(zones)


def _hash(name: str) -> int:
    return int.from_bytes(md5(name.encode(), usedforsecurity=False).digest()[:4])
