"""How far the registry's trim is from what the ingest has not read yet, and a warning before it is there."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, NamedTuple

from ...registry import RegistryError
from ...registry.past import place_of
from ...registry.plans import ORIGIN, HistoryBounds
from ..sources.options import Registry

_LOG: Final = logging.getLogger(__name__)


class Kept(NamedTuple):
    """What a registry keeps for sure: the newest entries, and all that are younger than an age."""

    entries: int
    min_age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """How far the ingest is behind a registry, and how near that is to a loss."""

    registry: str
    unread: int
    """Changes that were not read yet: estimated from their ids, as if they had come evenly."""

    behind_ms: int
    """Time from the last change that was read to the newest one, by the store's clock."""

    used: float
    """Share of what the registry keeps that is unread; from 1 on it may be trimmed before it is read."""

    overtaken: bool
    """Whether the stream begins after what is to be read next, so that some may be lost already."""


def headroom(registry: str, bounds: HistoryBounds, position: str, kept: Kept) -> Headroom:
    """Return how near the trim is, for an ingest that has read up to `position`; empty or 0-0 = nothing yet.

    The registry trims what is neither among the newest `kept.entries` nor younger than `kept.min_age_ms`:
    what is unread is safe while it is short of one of them.
    """
    at, oldest, newest = (place_of(one or ORIGIN) for one in (position, bounds.first_id, bounds.last_id))
    if bounds.entries == 0 or at >= newest:
        return Headroom(registry=registry, unread=0, behind_ms=0, used=0.0, overtaken=False)
    begins = at == (0, 0)
    behind_ms = newest[0] - (oldest[0] if begins else at[0])
    unread = bounds.entries if at < oldest else _between(bounds.entries, oldest[0], newest[0], at[0])
    of_entries = unread / kept.entries
    used = min(of_entries, behind_ms / kept.min_age_ms) if kept.min_age_ms else of_entries
    return Headroom(
        registry=registry,
        unread=unread,
        behind_ms=behind_ms,
        used=used,
        overtaken=not begins and at < oldest,
    )


def _between(length: int, oldest_ms: int, newest_ms: int, at_ms: int) -> int:
    """Return about how many of the entries come after a time; at least one, and not all: one was read."""
    span_ms = max(1, newest_ms - oldest_ms)
    return min(max(1, round(length * (newest_ms - at_ms) / span_ms)), max(1, length - 1))


class Watch(ExitStack):
    """Looks at the streams of some registries until its block ends.

    Warns from the share `warn_at` of what they keep on: once, until there is headroom again.
    """

    def __init__(self, registries: Iterable[Registry], kept: Kept, warn_at: float) -> None:
        super().__init__()
        self._stores = {of.name: self.enter_context(of.store()) for of in registries}
        self._kept = kept
        self._warn_at = warn_at
        self._warned: set[str] = set()

    def look(self, positions: Mapping[str, str]) -> tuple[Headroom, ...]:
        """Return how near the trim is for each registry that can be asked."""
        found = []
        for name, store in self._stores.items():
            try:
                bounds = store.history_bounds()
            except RegistryError as error:
                _LOG.warning("registry %s: its change stream could not be looked at: %s", name, error)
                continue
            room = headroom(name, bounds, positions.get(name, ORIGIN), self._kept)
            self._warn(room)
            found.append(room)
        return tuple(found)

    def _warn(self, room: Headroom) -> None:
        if room.used < self._warn_at:
            self._warned.discard(room.registry)
        elif room.registry not in self._warned:
            self._warned.add(room.registry)
            _LOG.warning("%s", _sentence(room, self._kept))


def _sentence(room: Headroom, kept: Kept) -> str:
    so_far = (
        f"registry {room.registry}: about {room.unread} changes are unread and the oldest came "
        f"{room.behind_ms / 1_000:.0f} s before the newest, where the registry keeps {kept.entries} and all "
        f"younger than {kept.min_age_ms / 1_000:.0f} s"
    )
    if room.overtaken:
        return f"{so_far}: the trim has overtaken the ingest, changes may be lost"
    return (
        f"{so_far}: before the trim overtakes the ingest, give it more cores, or the registry's writers more "
        "feed_max_entries"
    )
