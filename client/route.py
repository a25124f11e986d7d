"""The route of a topic as a client serves it."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from ..registry.model import TopicRoute


@dataclass(frozen=True, slots=True, eq=False)
class Route(TopicRoute):
    """Who holds a topic, and how far that can be trusted; never changes, the client makes a new one.

    It equals any TopicRoute that says the same, however old.
    """

    generation: int = 0
    """Grows whenever the topic's route becomes another one; only routes of one client can be compared."""

    as_of: float | None = None
    """When the store last confirmed it, in seconds of the monotonic clock; None = not in this process."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicRoute):
            return NotImplemented
        ours, theirs = (self.queue_datas, self.broker_datas), (other.queue_datas, other.broker_datas)
        return self.topic == other.topic and ours == theirs

    def __hash__(self) -> int:
        return hash((self.topic, self.queue_datas, self.broker_datas))

    @property
    def age_s(self) -> float | None:
        """Seconds since the store last confirmed it; None = it is from a snapshot file."""
        return None if self.as_of is None else monotonic() - self.as_of


@dataclass(frozen=True, slots=True)
class RouteChange:
    """A topic has another route than before."""

    topic: str
    route: Route | None
    """None: no live broker holds it any more."""
