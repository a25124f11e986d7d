"""The settings of a route client; units are in the names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..registry.checks import check_seconds
from ..registry.config import RegistryConfig
from ..registry.errors import InvalidInput
from .faults import LADDER, Ladder

__all__ = ["ClientConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How a route client keeps its view fresh; raises InvalidInput for values that do not fit."""

    registry: RegistryConfig = field(default_factory=RegistryConfig)

    tail_s: float = 1.0
    """How often the tail of the change stream and the leases in use are read, doorbell or not."""

    refresh_s: float = 30.0
    """How often everything in use is read again (RocketMQ: pollNameServerInterval)."""

    jitter_s: float = 0.5
    """Clients spread over so many seconds what all of them would otherwise do at once."""

    missing_retry_s: float = 1.0
    """A topic without a live broker is not asked for again within this time, unless the feed names it."""

    guard_share: float = 0.5
    """An answer that loses more than this share of the live brokers is not believed at once."""

    guard_hold_s: float = 30.0
    """For how long such an answer, or a store that lost its data, leaves the last known routes in use."""

    sweep: bool = False
    """Whether to take part in making the end of leases known, as the agents do; needs their permissions."""

    snapshot_path: Path | None = None
    """A file that keeps the last known routes for the next start; None = no file."""

    ladder: Ladder = LADDER
    """How long a slow or failing broker is left alone."""

    def __post_init__(self) -> None:
        for name in ("tail_s", "refresh_s"):
            check_seconds(name, getattr(self, name), 0.01)
        for name in ("jitter_s", "missing_retry_s", "guard_hold_s"):
            check_seconds(name, getattr(self, name), 0)
        if not 0 <= self.guard_share <= 1:
            raise InvalidInput(f"guard_share: {self.guard_share!r} is not within 0..1")
        if self.tail_s > self.refresh_s:
            raise InvalidInput(f"tail_s: {self.tail_s} is longer than refresh_s: {self.refresh_s}")
