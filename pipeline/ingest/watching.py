"""Watches how near the registries' trim is, and warns before it overtakes the ingest."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from ...registry import RegistryError
from ...registry.plans import ORIGIN
from ..sources.registries import Registry
from .headroom import Headroom, Kept, headroom

_LOG: Final = logging.getLogger(__name__)


class Watch:
    """Looks at the streams of some registries; warns from the share `warn_at` of what they keep on.

    A warning comes once, until there is headroom again.
    """

    def __init__(self, registries: Iterable[Registry], kept: Kept, warn_at: float) -> None:
        self._stack = ExitStack()
        self._stores = {of.name: self._stack.enter_context(of.store()) for of in registries}
        self._kept = kept
        self._warn_at = warn_at
        self._warned: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

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
