"""What a core that follows the stream can have done: one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Protocol, TypeAlias

from ..errors import RegistryError
from ..plans import Plan
from .position import BellState

MOST_AT_ONCE: Final = 1_000
"""So many doorbells are taken in, and so many changes read, before something else has its turn."""

Take: TypeAlias = Callable[[Any, float, float], None]
"""Takes in what was read, when, and how many seconds it took."""


class Do(Enum):
    """What is to be done."""

    HEAR = auto()
    """Wait for a doorbell, up to `wait_s`."""

    READ_PLACE = auto()
    """Read the id of the newest change."""

    READ_TAIL = auto()
    """Read up to MOST_AT_ONCE changes after `position`."""

    READ_TABLE = auto()

    READ_OTHER = auto()
    """Run a plan that has nothing to do with the stream."""

    SAVE = auto()
    """Do the `work`, which waits for the disk."""

    AWAIT_ROOM = auto()
    """Wait until items were taken, or the table may be read again, up to `wait_s`; hear what rings then."""

    PAUSE = auto()
    """Let `wait_s` go by: the store is in trouble."""

    STOP = auto()
    """Do nothing any more."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do, then to ask for the next."""

    do: Do
    wait_s: float = 0.0
    position: str = ""
    plan: Plan[Any] | None = field(default=None, compare=False)
    take: Take | None = field(default=None, compare=False)
    """What the result of the plan is given to."""

    failed: Callable[[RegistryError, float], None] | None = field(default=None, compare=False)
    """What a failure of the plan is given to if it concerns nothing else; None = `failed` of the core."""

    work: Callable[[], None] | None = field(default=None, compare=False)

    hears: bool = field(default=False, compare=False)
    """Whether to take in afterwards what rang meanwhile, which would pile up while there is much to read."""


class Core(Protocol):
    """What decides for a StreamReader; every `now` is in seconds of the monotonic clock."""

    @property
    def bell(self) -> BellState:
        """The state of the doorbell."""

    def next_step(self, now: float) -> Step:
        """Return what to do now."""

    def heard(self, message: bytes) -> None:
        """Take in a doorbell; empty = doorbells may have been missed."""

    def bell_failed(self, error: RegistryError, now: float) -> None:
        """Take in that there is no doorbell."""

    def failed(self, error: Exception, now: float) -> None:
        """Take in that a step failed."""
