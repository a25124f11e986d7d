"""Which queue to use: whose turn it is for a producer, which are whose in a consumer group."""

from typing import TYPE_CHECKING

from ...registry.lazy_imports import lazy_imports
from .queues import TopicRing, find_address, publish_queues, subscribe_queues
from .strategy import Candidates, RoundRobin, Strategy, Weighted, ZoneAware
from .views import PublishView

if TYPE_CHECKING:
    from .allocation import (
        AllocateAveragely,
        AllocateAveragelyByCircle,
        AllocateByMachineRoom,
        AllocateConsistentHash,
        AllocateMachineRoomNearby,
        AllocateStrategy,
    )
else:  # producers need none of them
    __getattr__, __dir__ = lazy_imports(
        __name__,
        dict.fromkeys(
            (
                "AllocateAveragely",
                "AllocateAveragelyByCircle",
                "AllocateByMachineRoom",
                "AllocateConsistentHash",
                "AllocateMachineRoomNearby",
                "AllocateStrategy",
            ),
            "allocation",
        ),
    )

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
