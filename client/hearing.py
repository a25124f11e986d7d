"""How a client hears of changes: its place in the stream, its doorbell, when the tail is to be read; pure."""

from __future__ import annotations

import logging
from typing import Final

from ..registry.change_stream.core import DEAF_AFTER, REFUSED_PAUSE_S
from ..registry.change_stream.position import Feed, unrecorded
from ..registry.errors import StoreRefused
from ..registry.model import Change
from ..registry.plans import ChangePage

_log: Final = logging.getLogger("sharedroutes.client")


class Hearing:
    """Where a client stands in the change stream, and by what it will hear of more; for its follower.

    `key` is that of the stream, every `now` is in seconds of the monotonic clock.
    """

    def __init__(self, key: str, tail_s: float) -> None:
        self._key = key
        self._feed = Feed(key)
        self._tail_s = tail_s
        self._tail_at = 0.0
        self._must_read = True
        self.is_foreign = False
        """Whether something else stood in the place of the stream when it was last read."""

        self._missed = False
        """Whether something happened, as far as can be known, of which neither stream nor doorbell tells."""

        self._unheard = 0
        """So often in a row the tail told of changes that the doorbell should have told of."""

        self._deaf_until = 0.0

    @property
    def position(self) -> str | None:
        """The id of the last change that was taken in; None before the first contact."""
        return self._feed.position

    @property
    def misses_nothing(self) -> bool:
        """Whether all changes up to now were told, as far as one can know."""
        return self.position is not None and not (self._must_read or self.is_foreign)

    @property
    def tail_at(self) -> float:
        """When the tail of the stream is to be read; 0 = at once."""
        return 0.0 if self._must_read else self._tail_at

    @property
    def is_dead(self) -> bool:
        """Whether the doorbell is to be renewed although it does not fail: its connection is half open."""
        return self._unheard >= DEAF_AFTER

    def deaf(self, now: float) -> bool:
        """Whether to do without a doorbell for now: rights can be granted later."""
        return now < self._deaf_until

    def renewed(self) -> None:
        """There is a new doorbell."""
        self._unheard = 0

    def refused(self, error: StoreRefused, now: float) -> None:
        """The store gives no doorbell to this user: the tail is read every `tail_s` all the same."""
        if self._deaf_until == 0.0:
            _log.info("no doorbell, the changes are read every %s s: %s", self._tail_s, error)
        self._deaf_until = now + REFUSED_PAUSE_S

    def rang(self, message: bytes) -> tuple[Change, ...]:
        """Return the changes that a doorbell tells of; empty = doorbells may have been missed.

        While a foreign key stands in the place of the stream, the doorbell is all that tells of them.
        """
        self._unheard = 0
        changes = None if self.is_foreign else self._feed.doorbell(message)
        if changes is not None:
            return changes
        self._must_read = True
        change = unrecorded(self._key, message)
        self._missed = self._missed or change is None
        return () if change is None else (change,)

    def resume(self, position: str | None) -> None:
        """Go on where an earlier process stood."""
        self._feed.position = position

    def begin(self, position: str, now: float) -> None:
        """The place was found: from here on every change is told."""
        self._feed.position = position
        self.is_foreign = self._missed = False
        self._was_read(now, again=False)

    def read(self, page: ChangePage, now: float) -> None:
        """Take in that a page of the stream was read."""
        self.is_foreign = self._missed = False
        if not page.lost:
            self._unheard += bool(page.changes) and not self._must_read and not self.deaf(now)
        self._feed.position = None if page.lost else page.position
        self._was_read(now, again=page.lost or not page.complete)

    def found_foreign(self, now: float) -> bool:
        """The key of the stream holds something else; return whether changes may have been missed anew.

        Until it is put right, the doorbell tells of changes, if they are short, and else the table does.
        """
        missed, self._missed = self._missed or not self.is_foreign, False
        self.is_foreign = True
        self._was_read(now, again=False)
        return missed

    def lost_touch(self) -> None:
        """The store did not answer: when it does, the tail is read first."""
        self._must_read = True

    def begin_copy(self) -> None:
        """This is a copy of the process, whose follower has yet to begin."""
        self._must_read = True
        self._deaf_until = 0.0

    def _was_read(self, now: float, *, again: bool) -> None:
        self._must_read = again
        self._tail_at = now + self._tail_s
