"""What a client shows of its state: how far its view can be trusted, and how brokers do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .events import IsolationReason, Source

LossReason: TypeAlias = Literal["mass loss", "changes lost"]

FaultReason: TypeAlias = IsolationReason | Literal["suspected"]
"""suspected: other clients cannot reach it."""


@dataclass(frozen=True, slots=True)
class HeldLoss:
    """A broker or a topic that is served although the store's last answer lacked it, or a part of it."""

    kind: Literal["broker", "topic"]
    name: str
    held_s: float
    """Seconds since the first answer that lacked it."""

    left_s: float
    """For so many seconds it is served at most, from now on, while the store answers, and loses no more."""

    why: LossReason | Literal["not announced"]
    """mass loss: too many brokers are gone at once; changes lost: the store forgot changes, and maybe more;
    not announced: the stream has not told of it; it has to be read, and a second answer to agree."""


@dataclass(frozen=True, slots=True)
class Health:
    """How far a client's view can be trusted."""

    source: Source

    age_s: float | None
    """Seconds since the store last answered; None = it never did."""

    last_error: str | None
    """Why the store does not answer now; None = it does."""

    position: str | None
    """The id of the last change that was taken in."""

    held_losses: tuple[HeldLoss, ...]
    """What is served although the store's last answer lacked it, brokers first, each by name."""

    topics: int
    """Topics in the cache."""

    server: str = ""
    """Where a client reads that may read at replicas (`ClientConfig.read_from`), as host:port."""

    role: Literal["primary", "replica"] | None = None
    """What that server is; None = there is none."""

    lag_s: float | None = None
    """What is read there is at most so much older than what the primary has; None = no pulse was heard."""

    @property
    def held_brokers(self) -> tuple[str, ...]:
        """Brokers that are served although the store's last answer lacked them, or a replica of theirs."""
        return tuple(loss.name for loss in self.held_losses if loss.kind == "broker")

    @property
    def held_topics(self) -> tuple[str, ...]:
        """Topics that are served although the store's last answer lacked them, or a broker of theirs."""
        return tuple(loss.name for loss in self.held_losses if loss.kind == "topic")

    @property
    def held(self) -> tuple[str, ...]:
        """All that is served although the last answer lacked it: the brokers, then the topics."""
        return self.held_brokers + self.held_topics


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultState:
    """What is known of one broker; times are in seconds."""

    broker_name: str

    isolated_for_s: float
    """How much longer it is left alone, unless a probe finds it sooner; 0 = it is not isolated."""

    reason: FaultReason | None
    """Why it is left alone; None = it is not."""

    reachable: bool
    """RocketMQ's reachable flag."""

    suspected: bool
    """Whether it is avoided because other clients cannot reach it."""

    share: float
    """The share of its turns that it takes; below 1 during slow start, 0 while it is left alone."""

    success_rate: float | None
    """The share of good answers within the window; None = there is none."""

    consecutive_failures: int
    """Failures since the last success."""

    ejections: int
    """How many ejections are not made up for yet; the next one lasts so many times longer."""
