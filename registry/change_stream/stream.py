"""Where a reader stands in the change stream, how its doorbell does, and the steps it can be told; pure."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Protocol, TypeAlias

from ..codec import decode_change
from ..errors import CorruptData, RegistryError, StoreRefused
from ..model import Change
from ..plans import ORIGIN, ChangePage, Plan

MOST_AT_ONCE: Final = 1_000
"""So many doorbells are taken in, and so many changes read, before something else has its turn."""

REFUSED_PAUSE_S: Final = 60.0
"""What the store refuses is asked for again after so long: rights can be granted later."""

DEAF_AFTER: Final = 3
"""When so many reads in a row found what no doorbell had told of, the doorbell is taken for dead."""

_FIRST_PAUSE_S: Final = 0.025
_MAX_PAUSE_S: Final = 1.0
_MAX_DOUBLINGS: Final = 16

_NO_STREAM: Final = b"- - "
"""What a doorbell begins with without a stream, in the place of two ids (`announce` in _common.lua)."""

_CHANGE_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")

Say: TypeAlias = Callable[..., None]


def order(change_id: str) -> tuple[int, int] | None:
    """Return what ids of the stream are compared by; None for what is no id."""
    if not _CHANGE_ID.fullmatch(change_id):
        return None
    ms, _, sequence = change_id.partition("-")
    return int(ms), int(sequence)


def pause_s(failures: int, rng: random.Random) -> float:
    """Return seconds to wait after so many failures in a row: growing, with jitter, up to a second."""
    ceiling = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(failures, _MAX_DOUBLINGS))
    return rng.uniform(ceiling / 2, ceiling)


class BellState:
    """Whether changes can be heard of; if not, when the next doorbell is to be tried.

    `say` is a method of a logger, told once of each time without a doorbell; `meanwhile`: what is done then.
    """

    def __init__(self, say: Say, meanwhile: str, rng: random.Random | None = None) -> None:
        self._say = say
        self._meanwhile = meanwhile
        self._rng = rng or random.Random()
        self.is_missing = False
        self.due_at = 0.0
        """When a new one may be tried, if there is none."""

        self._failures = 0
        self._unheard = 0

    @property
    def is_deaf(self) -> bool:
        """Whether it has to be renewed although it does not fail: its connection is half open."""
        return self._unheard >= DEAF_AFTER

    def rang(self) -> None:
        """Take in that it works."""
        self.is_missing = False
        self._failures = self._unheard = 0

    def kept_silent(self) -> None:
        """Take in that it should have told of something and did not."""
        self._unheard += not self.is_missing

    def renew(self) -> None:
        """Take in that a deaf one is given up for a new one."""
        self._say("changes are not heard of any more: the doorbell is renewed")
        self._unheard = 0

    def failed(self, error: Exception, now: float) -> None:
        """Take in that there is none."""
        self._unheard = 0
        self._failures += 1
        refused = isinstance(error, StoreRefused)
        self.due_at = now + (REFUSED_PAUSE_S if refused else pause_s(self._failures, self._rng))
        if not self.is_missing:
            self.is_missing = True
            self._say("no doorbell, %s meanwhile: %s", self._meanwhile, error)


class StreamPosition:
    """The place of one reader: doorbells in sequence advance it, anything else makes a read due.

    `key` is that of the stream, which is read every `tail_s`, doorbell or not. Every `now` is in seconds of
    the monotonic clock.
    """

    def __init__(self, key: str, tail_s: float, say: Say, rng: random.Random | None = None) -> None:
        self.key = key
        self.id: str | None = None
        """The id of the last change that was taken in; None before the first contact, and after a loss."""

        self.must_read = True
        """Whether doorbells may have been missed, so that the stream is to be read at once."""

        self.is_foreign = False
        """Whether something else stood in the place of the stream when it was last read."""

        self._missed = False
        """Whether something may have happened of which neither a foreign stream nor a doorbell tells."""

        self._say = say
        self._rng = rng
        self._tail_s = tail_s
        self._tail_at = 0.0
        self.bell = self._new_bell()

    @property
    def tail_at(self) -> float:
        """When the stream is to be read; 0 = at once."""
        return 0.0 if self.must_read else self._tail_at

    @property
    def misses_nothing(self) -> bool:
        """Whether all changes up to now were told, as far as one can know."""
        return self.id is not None and not (self.must_read or self.is_foreign)

    def heard(self, message: bytes) -> tuple[Change, ...] | None:
        """Return the changes that a doorbell, "previous-id id record", brings in sequence; None = read now.

        What is to be read anyway is not decoded.
        """
        self.bell.rang()
        known = None if self.must_read or self.is_foreign else self._in_sequence(message)
        self.must_read = self.must_read or known is None
        return known

    def unrecorded(self, message: bytes) -> tuple[Change, ...]:
        """Return the change of a doorbell that stands in no stream, as a foreign key is in its place.

        Empty = it is no such doorbell, or has no room for the change, which is missed then.
        """
        mark, _, record = message.partition(_NO_STREAM)
        if record and not mark:
            with suppress(CorruptData):
                return (decode_change(self.key, ORIGIN, record),)
        self._missed = True
        return ()

    def begin(self, position: str, now: float) -> None:
        """The place was found: from here on every change is told."""
        self.id = position
        self.is_foreign = self._missed = False
        self._was_read(now, again=False)

    def read(self, page: ChangePage, now: float) -> None:
        """Take in that a page of the stream was read."""
        self.is_foreign = self._missed = False
        if page.changes and not page.lost and not self.must_read:
            self.bell.kept_silent()
        self.id = None if page.lost else page.position
        self._was_read(now, again=page.lost or not page.complete)

    def found_foreign(self, now: float) -> bool:
        """The key of the stream holds something else; return whether changes may have been missed anew."""
        missed, self._missed = self._missed or not self.is_foreign, False
        self.is_foreign = True
        self._was_read(now, again=False)
        return missed

    def bell_failed(self, error: Exception, now: float) -> None:
        """There is no doorbell: until there is a new one, the stream is read every `tail_s`."""
        self.must_read = True
        self.bell.failed(error, now)

    def begin_copy(self) -> None:
        """This is a copy of the process, whose reader has yet to begin."""
        self.must_read = True
        self.bell = self._new_bell()

    def _new_bell(self) -> BellState:
        return BellState(self._say, f"changes are read every {self._tail_s} s", self._rng)

    def _was_read(self, now: float, *, again: bool) -> None:
        self.must_read = again
        self._tail_at = now + self._tail_s

    def _in_sequence(self, message: bytes) -> tuple[Change, ...] | None:
        """Advance by the change of a doorbell; None = the stream must be read."""
        previous, _, rest = message.decode(errors="replace").partition(" ")
        change_id, _, record = rest.partition(" ")
        theirs, ours = order(change_id), order(self.id or "")
        if theirs is None or ours is None:
            return None
        if theirs <= ours:  # a read was quicker than the bell
            return ()
        if previous != self.id or not record:
            return None
        try:
            change = decode_change(self.key, change_id, record.encode())
        except CorruptData:  # the read reports it
            return None
        self.id = change_id
        return (change,)


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
