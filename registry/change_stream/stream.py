"""Where a reader stands in the change stream, how its doorbell does, and the steps it can be told; pure."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from ..codec import decode_change, decode_doorbell
from ..errors import CorruptData, RegistryError, StoreRefused
from ..model import Change
from ..plans import ORIGIN, ChangePage, Plan
from ..plans.changes import order

T = TypeVar("T")

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

_TIME_DIGITS: Final = 16

_PULSE: Final = b" pulse "
"""Stands in a pulse between the last id, said twice, and the store's clock in ms (`pulse` in sweep.lua)."""

PROVEN_TAIL_S: Final = 10.0
"""How often the stream is read while its doorbell is proven to work."""

EARLIEST: Final = 0.8
"""The part of `tail_s` after which the earliest read: all hear the last pulse before a silence together."""

Say: TypeAlias = Callable[..., None]


def pulse_ms(message: bytes) -> int | None:
    """Return the time of the store (ms) in a pulse; None for any other message of the doorbell."""
    _, mark, time_ms = message.partition(_PULSE)
    return int(time_ms) if mark and len(time_ms) <= _TIME_DIGITS and time_ms.isdigit() else None


def pause_s(failures: int, rng: random.Random) -> float:
    """Return seconds to wait after so many failures in a row: growing, with jitter, up to a second."""
    ceiling = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(failures, _MAX_DOUBLINGS))
    return rng.uniform(ceiling / 2, ceiling)


class BellState:
    """Whether the doorbell works, and if not, when to subscribe again.

    `say` is a method of a logger, called once whenever the doorbell is lost; `meanwhile`: what is done then.
    """

    def __init__(self, say: Say, meanwhile: str, rng: random.Random | None = None) -> None:
        self._say = say
        self._meanwhile = meanwhile
        self._rng = rng or random.Random()
        self.is_missing = False
        self.due_at = 0.0
        """When to subscribe again, if there is no doorbell."""

        self._failures = 0
        self._unheard = 0

    @property
    def is_deaf(self) -> bool:
        """Whether to subscribe anew although nothing failed: the connection is probably half open."""
        return self._unheard >= DEAF_AFTER

    def rang(self) -> None:
        """Note a message: the doorbell works."""
        self.is_missing = False
        self._failures = self._unheard = 0

    def kept_silent(self) -> None:
        """Note that a change was read of which no doorbell had told."""
        self._unheard += not self.is_missing

    def renew(self) -> None:
        """Note that a deaf doorbell is replaced by a new subscription."""
        self._say("changes are not heard of any more: the doorbell is renewed")
        self._unheard = 0

    def failed(self, error: Exception, now: float) -> None:
        """Note that the subscription failed."""
        self._unheard = 0
        self._failures += 1
        refused = isinstance(error, StoreRefused)
        self.due_at = now + (REFUSED_PAUSE_S if refused else pause_s(self._failures, self._rng))
        if not self.is_missing:
            self.is_missing = True
            self._say("no doorbell, %s meanwhile: %s", self._meanwhile, error)


class StreamPosition:
    """The place of one reader: doorbells in sequence advance it, anything else makes a read due.

    `key` is that of the stream. It is read at the latest `tail_s` after it was last proven that no doorbell
    was missed: by a read, by a doorbell in sequence, or by a pulse that names our place. So a doorbell that
    is lost is noticed within `tail_s`. It is read every `proven_tail_s` in any case, or a little sooner.
    Every `now` is in seconds of the monotonic clock.
    """

    def __init__(
        self,
        key: str,
        tail_s: float,
        say: Say,
        rng: random.Random | None = None,
        *,
        proven_tail_s: float = PROVEN_TAIL_S,
    ) -> None:
        self.key = key
        self.id: str | None = None
        """The id of the last change that was taken in; None before the first contact, and after a loss."""

        self.must_read = True
        """Whether doorbells may have been missed, so that the stream is to be read at once."""

        self.is_foreign = False
        """Whether something else stood in the place of the stream when it was last read."""

        self._missed = False
        """Whether something may have happened of which neither a foreign stream nor a doorbell tells."""

        self.rows: Any = None
        """What came with the last change that a doorbell brought: `codec.decode_rows` reads it."""

        self.pulse_at: float | None = None
        """When a pulse last said that nothing was missed, and that ended leases are announced."""

        self._say = say
        self._rng = rng or random.Random()
        self._tail_s = tail_s
        self._proven_tail_s = max(tail_s, proven_tail_s)
        self._tail_at = self._read_by = 0.0
        self.bell = self._new_bell()

    @property
    def tail_at(self) -> float:
        """When the stream is to be read; 0 = at once."""
        return 0.0 if self.must_read else self._tail_at

    @property
    def misses_nothing(self) -> bool:
        """Whether all changes up to now were told, as far as one can know."""
        return self.id is not None and not (self.must_read or self.is_foreign)

    def heard(self, message: bytes, now: float) -> tuple[Change, ...] | None:
        """Return the changes that a doorbell, "previous-id id record", brings in sequence; None = read now.

        What is to be read anyway is not decoded.
        """
        self.bell.rang()
        known = None if self.must_read or self.is_foreign else self._in_sequence(message)
        self.must_read = self.must_read or known is None
        is_pulse = known == () and self._names_our_place(message)
        if known or is_pulse:
            self._prove(now)
        if is_pulse:
            self.pulse_at = now
        return known

    def unrecorded(self, message: bytes) -> tuple[Change, ...]:
        """Return the change of a doorbell that was rung while a foreign key stood in place of the stream.

        Empty = it is another doorbell, or has no room for the change, which is missed then.
        """
        mark, _, record = message.partition(_NO_STREAM)
        if record and not mark:
            with suppress(CorruptData):
                return (decode_change(self.key, ORIGIN, record),)
        self._missed = True
        return ()

    def begin(self, position: str, now: float) -> None:
        """Start at a position: from here on every change is told."""
        self.id = position
        self.is_foreign = self._missed = False
        self._was_read(now, again=False)

    def read(self, page: ChangePage, now: float) -> None:
        """Advance by a page of the stream."""
        self.is_foreign = self._missed = False
        if page.changes and not page.lost and not self.must_read:
            self.bell.kept_silent()
        self.id = None if page.lost else page.position
        self._was_read(now, again=page.lost or not page.complete)

    def found_foreign(self, now: float) -> bool:
        """Note that the stream's key holds something else; return whether changes may be missed anew."""
        missed, self._missed = self._missed or not self.is_foreign, False
        self.is_foreign = True
        self._was_read(now, again=False)
        return missed

    def bell_failed(self, error: Exception, now: float) -> None:
        """Note that there is no doorbell: until there is one, the stream is read every `tail_s`."""
        self.must_read = True
        self.bell.failed(error, now)

    def begin_copy(self) -> None:
        """Begin anew in a forked child, whose reader does not run yet."""
        self.must_read = True
        self.bell = self._new_bell()

    def _new_bell(self) -> BellState:
        return BellState(self._say, f"changes are read every {self._tail_s} s", self._rng)

    def _was_read(self, now: float, *, again: bool) -> None:
        self.must_read = again
        self._tail_at = now + self._tail_s
        self._read_by = now + self._proven_tail_s * self._rng.uniform(EARLIEST, 1.0)

    def _prove(self, now: float) -> None:
        """Put the next read off: up to now nothing was missed."""
        due_at = now + self._tail_s * self._rng.uniform(EARLIEST, 1.0)
        self._tail_at = max(self._tail_at, min(due_at, self._read_by))

    def _names_our_place(self, message: bytes) -> bool:
        """Whether a message is a pulse after which we would hear the next change."""
        last, _, _ = message.partition(b" ")
        return pulse_ms(message) is not None and last.decode(errors="replace") == self.id

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
            change, self.rows = decode_doorbell(self.key, change_id, record.encode())
        except CorruptData:  # the read reports it
            return None
        self.id = change_id
        return (change,)


Take: TypeAlias = Callable[[Any, float, float], None]
"""Is given what was read, when, and how many seconds it took."""


class Do(Enum):
    """What a reader does next."""

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
    """Begin the `work`, which waits for the disk."""

    AWAIT_ROOM = auto()
    """Wait, up to `wait_s`, until items were taken or the table may be read again; then take in doorbells."""

    PAUSE = auto()
    """Wait `wait_s`: the store is in trouble."""

    STOP = auto()
    """Stop for good."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do, then to ask for the next."""

    do: Do
    wait_s: float = 0.0
    position: str = ""
    plan: Plan[Any] | None = field(default=None, compare=False)
    take: Take | None = field(default=None, compare=False)
    """Is given the result of the plan."""

    failed: Callable[[RegistryError, float], None] | None = field(default=None, compare=False)
    """Is given a failure of the plan that concerns nothing else; None = `failed` of the core."""

    work: Callable[[], Callable[[], None]] | None = field(default=None, compare=False)
    """Returns what to do aside: nothing waits for a disk that hangs. Passed over while such work goes on."""

    hears: bool = field(default=False, compare=False)
    """Whether to take in the doorbells that rang meanwhile: else they pile up while much is read."""


class Stopped(Exception):
    """The reader was told to stop in the middle of a plan."""


def until(is_over: Callable[[], bool], plan: Plan[T]) -> Plan[T]:
    """Run a plan, which may be long; raise Stopped between two of its batches once it is over."""
    try:
        batch = next(plan)
        while not is_over():
            batch = plan.send((yield batch))
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        plan.close()
    raise Stopped


class Core(Protocol):
    """Decides what a StreamReader does; every `now` is in seconds of the monotonic clock."""

    @property
    def bell(self) -> BellState:
        """The state of the doorbell."""

    def next_step(self, now: float) -> Step:
        """Return what to do now."""

    def heard(self, message: bytes, now: float) -> None:
        """Take in a doorbell; empty = doorbells may have been missed."""

    def bell_failed(self, error: RegistryError, now: float) -> None:
        """Note that the subscription failed."""

    def failed(self, error: Exception, now: float) -> None:
        """Note that a step failed."""
