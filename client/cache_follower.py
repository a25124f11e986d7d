"""Keeps the cache of a client in step with the registry: what to read next, what follows from it; pure."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from ..registry.change_stream.stream import MOST_AT_ONCE, BellState, Do, Step, pulse_ms
from ..registry.codec import decode_rows
from ..registry.errors import CorruptData, RegistryError, StoreRefused
from ..registry.keys import Keys
from ..registry.plans import ORIGIN, ChangePage, changes_since, hint, hints, last_change_id, lookup
from ..registry.plans.expiry import server_time
from .brokers import Brokers
from .cache import Request
from .config import ClientConfig
from .locked_cache import LockedCache
from .observers.events import ClockReading, ServerChanged
from .snapshot import Snapshot

if TYPE_CHECKING:
    from ..registry.connection.reading import Reading

_log: Final = logging.getLogger("sharedroutes.client")

_FIRST_PAUSE_S: Final = (0.02, 0.1)
"""A connection that was cut, alone, is made again at once."""

_SHORTEST_PAUSE_S: Final = 0.5

_Turn: TypeAlias = Callable[[float], Step | None]
_Hints: TypeAlias = tuple[Mapping[str, frozenset[str]], list[CorruptData]]


class CacheFollower:
    """Decides for the client's StreamReader; every `now` is in seconds of the monotonic clock."""

    def __init__(
        self,
        config: ClientConfig,
        known: LockedCache,
        brokers: Brokers,
        clock: ClockReading,
        rng: random.Random,
    ) -> None:
        self._config = config
        self._keys = Keys(config.registry.namespace)
        self._known = known
        self._stream = known.stream
        self._brokers = brokers
        self._clock = clock
        self._rng = rng
        self.reading: Reading | None = None
        """Where a client reads that may read at replicas."""

        self._told = ""
        self._turns: tuple[_Turn, ...] = (
            self._tell_server,
            self._tail,
            self._place,  # before the table is read: the stream tells of what changes after it
            self._table,
            self.caught_up,
            self._read_clock,
            self._give_hints,
            self._read_hints,
            self._save,
        )
        self.begin_round()

    def begin_round(self) -> None:
        """Begin again at once, by listening: what rings before a read needs none of its own."""
        self._round: Iterator[_Turn] = iter(())
        self._resume_at = 0.0

    @property
    def bell(self) -> BellState:
        """The state of the doorbell."""
        return self._stream.bell

    def next_step(self, now: float) -> Step:
        """Return what to do now: in each round to listen, then what is due, one after the other."""
        if now < self._resume_at:
            return Step(Do.PAUSE, wait_s=self._resume_at - now)
        for turn in self._round:
            step = turn(now)
            if step is not None:
                return step
        self._round = iter(self._turns)
        with self._known.lock:
            due_at = min(self._stream_at, self._known.cache.next_due())
        return Step(Do.HEAR, wait_s=max(0.0, due_at - now))

    # --- what came of it ------------------------------------------------------------------------------------

    def heard(self, message: bytes, now: float) -> None:
        """Take in a doorbell; empty = doorbells may have been missed.

        While a foreign key stands in the place of the stream, the doorbell is all that tells of changes.
        """
        if self.reading is not None and (store_ms := pulse_ms(message)) is not None:
            self.reading.heard_pulse(store_ms, now)
        with self._known.changing():
            if self._has_no_hold() and pulse_ms(message) is None:
                self._stream.must_read = True
            changes = self._stream.heard(message, now)
            if changes is None:
                self._known.take(self._stream.unrecorded(message), now)
            elif changes:
                self._known.take(changes, now, decode_rows(self._stream.rows))
            if self._stream.pulse_at == now:
                self._known.prove(now)

    def found_place(self, position: str, now: float, _took_s: float = 0.0) -> None:
        """Take in the id of the newest change: from here on every change is told."""
        with self._known.changing():
            was_foreign = self._stream.is_foreign
            self._stream.begin(position, now)
            self._known.begin()
            self._known.cache.stream_was_read(now)
            if was_foreign:
                self._known.cache.doubt(now)
            self._known.routes.stop_borrowing()
            self._known.freshness.answered(now)

    def found_page(self, page: ChangePage, now: float, _took_s: float = 0.0) -> None:
        """Take in a page of the change stream."""
        known, freshness = self._known, self._known.freshness
        with known.changing():
            known.report(page.corrupt)
            has_no_hold = self._has_no_hold()
            is_guarded = known.cache.losses.guarded_until is not None  # which holds losses back anyway
            is_refilled = has_no_hold and not is_guarded and known.cache.tells_anew(page.changes)
            if is_refilled or self._stream.is_foreign:  # what happened meanwhile stands nowhere
                page = replace(page, lost=True)
            if page.lost:
                freshness.lost(self._stream.id or "")
                known.lose(page.changes, now)
            else:
                known.take(page.changes, now)
                if page.complete:
                    known.cache.stream_was_read(now)
                if page.corrupt or (has_no_hold and self._stream.must_read):
                    freshness.missed_changes()
                    known.doubt(now)
            self._stream.read(page, now)
            freshness.answered(now)

    def _has_no_hold(self) -> bool:
        """Whether the stream cannot tell what was missed, such as a store that was emptied and filled again.

        A stream without entries has no place to hold on to.
        """
        return self._stream.id == ORIGIN and bool(self._known.table.groups)

    def bell_failed(self, error: RegistryError, now: float) -> None:
        """Do without a doorbell that is refused; any other failure is one of the store."""
        if isinstance(error, StoreRefused):
            self._stream.bell_failed(error, now)
        else:
            self.failed(error, now)

    def failed(self, error: Exception, now: float) -> None:
        """The store did not answer: said once, until it answers again; the next step is a pause."""
        if isinstance(error, CorruptData) and error.key == self._keys.changes:
            self._found_foreign(error, now)
            return
        with self._known.changing():
            self._stream.must_read = True
            self._known.freshness.failed(str(error))
            in_use = list(self._known.table.groups)
            self.begin_round()
            self._resume_at = now + self._pause_s()
        self._brokers.heard({}, in_use, now)  # nobody confirms a suspicion any more

    def caught_up(self, _now: float = 0.0) -> None:
        """Everything that was due has been answered: trouble with the store is over."""
        if self._known.freshness.error is not None:
            with self._known.changing():
                self._known.freshness.caught_up()

    def _found_foreign(self, error: CorruptData, now: float) -> None:
        """The key of the stream holds something else: the table is read until it is put right."""
        with self._known.changing():
            self._known.report((error,))
            self._known.freshness.missed_changes()
            if self._stream.found_foreign(now):
                self._known.doubt(now)
            self._known.cache.stream_was_read(now)
            self._known.freshness.answered(now)

    def _pause_s(self) -> float:
        """Return seconds until the next try: growing pauses would keep in step who failed together."""
        if self._known.freshness.failures <= 1:
            return self._rng.uniform(*_FIRST_PAUSE_S)
        longest_s = self._config.reconnect_s
        return self._rng.uniform(min(_SHORTEST_PAUSE_S, longest_s / 2), longest_s)

    # --- the snapshot ---------------------------------------------------------------------------------------

    def load_snapshot(self) -> None:
        """Begin with the snapshot file, if there is one that can be used. Waits for the disk."""
        found = self._known.file.load()
        if found is not None:
            with self._known.changing():
                self._known.table.restore(found.rows, found.alive)
                self._stream.id = found.position
                self._known.freshness.begin("snapshot" if found.rows else "none")

    def take_snapshot(self, now: float) -> Callable[[], None]:
        """Return what writes into the file what is known now; a failure is told. It waits for the disk."""
        with self._known.lock:
            table = self._known.table
            snapshot = Snapshot(dict(table.rows), dict(table.alive), self._stream.id)
            self._known.file.taken(now)
        return partial(self._known.file.save, snapshot)

    # --- the turns of a round -------------------------------------------------------------------------------

    def _tell_server(self, now: float) -> None:
        at = None if self.reading is None else self.reading.read_at(now)
        if at is not None and at.server + at.role != self._told:
            self._told = at.server + at.role
            with self._known.changing():
                self._known.tell(ServerChanged(at.server, at.role))

    def _tail(self, now: float) -> Step | None:
        position = self._stream.id
        if position is None or now < self._stream_at:
            return None
        self._begin_read()
        plan = changes_since(self._keys, position, MOST_AT_ONCE)
        return Step(Do.READ_TAIL, position=position, plan=plan, take=self.found_page)

    def _place(self, now: float) -> Step | None:
        if self._stream.id is not None or now < self._stream_at:
            return None
        self._begin_read()
        return Step(Do.READ_PLACE, plan=last_change_id(self._keys), take=self.found_place)

    @property
    def _stream_at(self) -> float:
        """When the stream is to be read: at once if an answer lacks what it has not told of."""
        return 0.0 if self._known.cache.losses.awaits_stream else self._stream.tail_at

    def _begin_read(self) -> None:
        with self._known.lock:
            self._known.cache.reads_stream()

    def _table(self, now: float) -> Step | None:
        with self._known.lock:
            request = self._known.cache.due(now)
        return None if request is None else self._look(request)

    def _look(self, request: Request) -> Step:
        plan = lookup(self._keys, request.topics, request.known, request.anew)
        return Step(Do.READ_TABLE, plan=plan, take=partial(self._known.offer, request))

    def _read_clock(self, now: float) -> Step | None:
        if not self._clock.due(now):
            return None

        def take(store_us: int, now: float, took_s: float) -> None:
            self._clock.was_read(store_us, now - took_s, now)

        return Step(Do.READ_OTHER, plan=server_time(), take=take)

    def _give_hints(self, now: float) -> Step | None:
        """Tell others whom we cannot reach, if the configuration wants it."""
        ours = self._brokers.hints
        names = None if ours is None else ours.due(now)
        if ours is None or names is None:
            return None
        plan = hint(self._keys, ours.client_id, names, ours.ttl_s)
        return Step(Do.READ_OTHER, plan=plan, take=lambda *_: None, failed=ours.not_taken)

    def _read_hints(self, now: float) -> Step | None:
        """Hear whom others cannot reach."""
        ours = self._brokers.hints
        if ours is None or not ours.to_read(now, self._config.tail_s):
            return None

        def take(found: _Hints, now: float, _took_s: float = 0.0) -> None:
            said, corrupt = found
            with self._known.lock:
                self._known.report(corrupt)
                in_use = list(self._known.table.groups)
            self._brokers.heard(said, in_use, now)

        return Step(
            Do.READ_OTHER, plan=hints(self._keys), take=take, failed=lambda _, now: take(({}, []), now)
        )

    def _save(self, now: float) -> Step | None:
        """Keep what is known for the next start, but not what is served although it may be gone."""
        if not self._known.file.due(now) or self._known.cache.losses.any_held:
            return None
        return Step(Do.SAVE, work=partial(self.take_snapshot, now))
