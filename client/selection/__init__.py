"""Which queue to use: whose turn it is for a producer, which are whose in a consumer group."""

from .allocation import (
    AllocateAveragely,
    AllocateAveragelyByCircle,
    AllocateByMachineRoom,
    AllocateConsistentHash,
    AllocateMachineRoomNearby,
    AllocateStrategy,
)
from .queues import TopicRing, find_address, publish_queues, subscribe_queues
from .strategy import Candidates, RoundRobin, Strategy, Weighted, ZoneAware
from .views import PublishView

__all__ = [
    "AllocateAveragely",
    "AllocateAveragelyByCircle",
    "AllocateByMachineRoom",
    "AllocateConsistentHash",
    "AllocateMachineRoomNearby",
    "AllocateStrategy",
    "Candidates",
    "PublishView",
    "RoundRobin",
    "Strategy",
    "TopicRing",
    "Weighted",
    "ZoneAware",
    "find_address",
    "publish_queues",
    "subscribe_queues",
]
