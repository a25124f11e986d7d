"""The decisions of a follower of the registry, for threads and for asyncio; the followers only do the I/O.

An id of the change stream is a place to hold on to as long as its entry stands there. "0-0", the place before
the first entry, is none: what is read after it need not be the first that was written, nor the table still be
what it was. From an empty table on, the doorbell of the first entry is believed; else following begins anew,
also when doorbells may have been missed.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final, TypeAlias

from ..checks import check_seconds
from ..errors import CorruptData, InvalidInput, RegistryError, StoreRefused
from ..keys import Keys
from ..model import Change
from ..plans import ORIGIN, ChangePage, Lookup, changes_since, last_change_id, whole_table
from ..plans.changes import order
from .stream import MOST_AT_ONCE, BellState, Do, Step, StreamPosition, pause_s, pulse_ms

_log = logging.getLogger("sharedroutes.registry")

_NAP_S: Final = 0.1
"""The longest wait for room: items may be taken meanwhile."""

_MOST_AHEAD: Final = 1_000
"""With so many items that nobody has taken, nothing more is taken in; reading goes on at half of it."""

_MIN_TAIL_S: Final = 0.01

_UNREADABLE_PAUSE_S: Final = 1.0
"""So long after a Reset for what cannot be read, the next may come: each costs the store the whole table."""

_LOOK_AGAIN_S: Final = (30.0, 600.0)
"""How soon the table is read when keys of it are corrupt, as nothing else tells that they are well again; and
how often at least, as each further pause is twice as long."""


class ResetReason(StrEnum):
    """Why a follower begins anew."""

    START = "start"
    """It looks at the registry for the first time, or the stream had no entry to hold on to the last time."""

    LOST = "lost"
    """The entry at its position is gone (trimmed, flushed, rolled back): changes may have been missed."""

    UNREADABLE = "unreadable"
    """A change could not be read (it is none, or of a newer release), or keys of the table, which are well
    again: what was not told is in the table."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Forget everything: what follows begins here."""

    position: str
    """The id of the newest change at that time, or "0-0"; the changes after it follow."""

    table: Lookup | None
    """The whole table, read after `position` was; None when it was not asked for.

    It may hold the effect of changes that follow: to apply them again makes no difference.
    """

    reason: ResetReason


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing has happened for a while, or the store is away; see FollowHealth."""

    position: str | None
    """The id after which one can follow later on; None = there is none yet, or it was lost."""


FollowItem: TypeAlias = Reset | Change | Idle
"""What a follower yields."""


@dataclass(frozen=True, slots=True)
class FollowHealth:
    """How far a follower can be trusted to know what happens."""

    position: str | None
    """The id of the last change that was taken in; None before the first contact, and after a loss."""

    age_s: float | None
    """Seconds since the store last told of the stream; None = it never did."""

    last_error: str | None
    """Why the store does not answer now; None = it does."""

    polling: bool
    """Whether there is no doorbell at the moment, so that the stream is only read every `tail_s`."""


class FollowCore:
    """Place, items to hand out, and trouble of one follower; every `now` is monotonic seconds."""

    def __init__(
        self,
        keys: Keys,
        position: str | None,
        *,
        table: bool,
        tail_s: float,
        rng: random.Random | None = None,
    ) -> None:
        """Raise InvalidInput for a position that is no id, and for a `tail_s` that is no time."""
        if position is not None and order(position) is None:
            raise InvalidInput(f"position: {position!r} is no id of the stream, such as '0-0'")
        check_seconds("tail_s", tail_s, _MIN_TAIL_S)
        self._keys = keys
        self._rng = rng or random.Random()
        self._stream = StreamPosition(keys.changes, tail_s, _log.info, self._rng)
        self._stream.id = position
        self._with_table = table
        self._items: deque[Reset | Change] = deque()
        self._place: str | None = None
        """The position of the Reset whose table is to be read."""

        self._reason = ResetReason.START
        self._anew_at = 0.0
        self._corrupt = frozenset[str]()
        """The keys that the last Reset lacks."""

        self._look_at = inf
        """When to look whether they are well again."""

        self._look_pause_s = 0.0
        """The pause before that look; the next one is longer."""

        self._full = False
        self._failures = 0
        self._resume_at = 0.0
        self._error: str | None = None
        self._answered_at: float | None = None
        self._begun = False
        self._blank = False
        """Whether the last Reset told that there is nothing."""

        self._unsure = False
        """Whether changes may have been missed since the place was read, if that is "0-0"."""

        self.refused: StoreRefused | None = None
        """Set when the store refused at the first contact: there is nothing to wait for."""

    # --- what is handed out ---------------------------------------------------------------------------------

    def take(self) -> Reset | Change | None:
        """Return the next item, if there is one."""
        return self._items.popleft() if self._items else None

    def idle(self) -> Idle:
        """Return the item for a while in which nothing happened."""
        return Idle(self._stream.id)

    @property
    def has_room(self) -> bool:
        """Whether reading can go on."""
        return len(self._items) <= _MOST_AHEAD // 2

    @property
    def bell(self) -> BellState:
        """The state of the doorbell."""
        return self._stream.bell

    def health(self, now: float) -> FollowHealth:
        """Return how far the follower can be trusted."""
        age_s = None if self._answered_at is None else now - self._answered_at
        return FollowHealth(self._stream.id, age_s, self._error, self.bell.is_missing)

    # --- what is to be done ---------------------------------------------------------------------------------

    def next_step(self, now: float) -> Step:
        """Return what to do now."""
        if self.refused is not None:
            return Step(Do.STOP)
        if now < self._resume_at:
            return Step(Do.PAUSE, wait_s=self._resume_at - now)
        if self._is_full():
            return Step(Do.AWAIT_ROOM, wait_s=_NAP_S, hears=True)
        position = self._stream.id
        return self._begin(now) if position is None else self._go_on(position, now)

    def _go_on(self, position: str, now: float) -> Step:
        if now >= self._look_at:
            look = whole_table(self._keys)
            return Step(
                Do.READ_TABLE, plan=look, take=self.looked_again, failed=self._look_failed, hears=True
            )
        if now < self._stream.tail_at:
            return Step(Do.HEAR, wait_s=min(self._stream.tail_at, self._look_at) - now)
        plan = changes_since(self._keys, position, MOST_AT_ONCE)
        return Step(Do.READ_TAIL, position=position, plan=plan, take=self.found_page, hears=True)

    def _begin(self, now: float) -> Step:
        too_soon = self._reason is ResetReason.UNREADABLE and now < self._anew_at and self._place is None
        if self._items or too_soon:  # else tables of several resets could pile up
            return Step(Do.AWAIT_ROOM, wait_s=_NAP_S, hears=True)
        if self._place is None:
            return Step(Do.READ_PLACE, plan=last_change_id(self._keys), take=self.found_place, hears=True)
        return Step(Do.READ_TABLE, plan=whole_table(self._keys), take=self.found_table, hears=True)

    def _is_full(self) -> bool:
        self._full = len(self._items) >= _MOST_AHEAD or (self._full and not self.has_room)
        return self._full

    # --- what came of it ------------------------------------------------------------------------------------

    def heard(self, message: bytes, now: float) -> None:
        """Take in a doorbell; empty = doorbells may have been missed."""
        has_no_hold = self._stream.id == ORIGIN and not self._blank and pulse_ms(message) is None
        self._unsure = self._unsure or (has_no_hold and bool(message))
        if self._is_full() or has_no_hold:
            self._stream.must_read = True  # nothing is kept for a consumer that is far behind
        self._items.extend(self._stream.heard(message, now) or ())
        if self._stream.pulse_at == now and not self._error:
            self._answered_at = now

    def found_place(self, position: str, now: float, _took_s: float = 0.0) -> None:
        """Take in the id of the newest change: from here on every change is told."""
        self._place = position
        self._unsure = False
        self._answered_at = now
        if not self._with_table:
            self._reset(None, now)

    def found_table(self, table: Lookup, now: float, _took_s: float = 0.0) -> None:
        """Take in the table, read after the place was."""
        for error in table.corrupt:
            _log.error("a key of the registry is corrupt, the rest is told: %s", error)
        self._corrupt = _corrupt_in(table)
        self._look_pause_s = _LOOK_AGAIN_S[0]
        self._look_at = now + self._look_pause_s if self._corrupt else inf
        self._reset(table, now)

    def looked_again(self, table: Lookup, now: float, _took_s: float = 0.0) -> None:
        """Begin anew if keys are well again that the last Reset lacks: what they hold was not told."""
        self._look_later(now)
        if not self._corrupt <= _corrupt_in(table):
            self._lose(self._stream.id, ResetReason.UNREADABLE)

    def _look_failed(self, _error: RegistryError, now: float) -> None:
        """Go on following: if the store is away, the next read of the stream says so."""
        self._look_later(now)

    def _look_later(self, now: float) -> None:
        self._look_pause_s = min(2 * self._look_pause_s, _LOOK_AGAIN_S[1])
        self._look_at = now + self._look_pause_s

    def found_page(self, page: ChangePage, now: float, _took_s: float = 0.0) -> None:
        """Take in a page of the change stream."""
        self._answered_at = now
        self._begun = True
        before = self._stream.id
        self._stream.read(page, now)
        if page.corrupt:
            count, first = len(page.corrupt), page.corrupt[0]
            _log.error("%d entries of the change stream cannot be read, the first: %s", count, first)
        if page.lost:
            self._lose(before, ResetReason.LOST)
        elif before == ORIGIN and (self._unsure or page.position != ORIGIN):
            self._lose(before, ResetReason.START)
        elif page.corrupt:
            self._pass_over(page, now)
        else:
            self._items.extend(page.changes)
            self._in_place()

    def bell_failed(self, error: RegistryError, now: float) -> None:
        """Note that there is no doorbell: until there is one, the stream is read every `tail_s`."""
        self._unsure = self._unsure or not self.bell.is_missing
        self._stream.bell_failed(error, now)

    def failed(self, error: Exception, now: float) -> None:
        """Note a failure, logged once until the store answers again; the next step is a pause."""
        self._unsure = self._stream.must_read = True
        if not self._begun and isinstance(error, StoreRefused):
            self.refused = error
        elif self._error is None and isinstance(error, CorruptData):
            _log.error("changes wait until this is put right: %s", error)
        elif self._error is None:
            _log.warning("changes wait until the store answers again: %s", error)
        is_foreign = isinstance(error, CorruptData) and error.key == self._keys.changes
        if is_foreign and self._stream.id is not None:
            self._lose(self._stream.id, ResetReason.LOST)  # what happens meanwhile stands nowhere
        self._error = str(error)
        self._failures += 1
        self._resume_at = now + pause_s(self._failures, self._rng)

    def _lose(self, position: str | None, reason: ResetReason) -> None:
        if reason is ResetReason.LOST:
            _log.warning("the store lost changes after %s: following begins anew", position)
        self._stream.id = self._place = None
        self._reason = reason

    def _pass_over(self, page: ChangePage, now: float) -> None:
        """Begin anew after what cannot be read: changes of the same page, if told, would hide the gap."""
        self._lose(page.position, ResetReason.UNREADABLE)
        if not self._with_table:  # nothing is to be read, so the next page can be told
            self._place = page.position
            self._reset(None, now)

    def _reset(self, table: Lookup | None, now: float) -> None:
        if self._place is None:
            raise RuntimeError("a table without a place")
        self._begun = True
        self._blank = table is None or not (table.rows or table.groups)
        self._items.append(Reset(self._place, table, self._reason))
        self._stream.begin(self._place, now)
        self._stream.must_read = True  # doorbells that rang meanwhile were not taken in
        self._place = None
        if self._reason is ResetReason.UNREADABLE:
            self._anew_at = now + _UNREADABLE_PAUSE_S
        self._answered_at = now
        self._in_place()

    def _in_place(self) -> None:
        """Note that the follower is up to date: trouble with the store is over."""
        self._failures = 0
        if self._error is not None:
            self._error = None
            _log.info("the store answers again: changes are followed")


def _corrupt_in(table: Lookup) -> frozenset[str]:
    return frozenset(error.key for error in table.corrupt)
