"""Tells which files of a folder change: one observer of each folder for all who ask in the process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Event, Lock
from typing import Final, TypeAlias

from watchdog.events import (
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from ..daemon_threads import in_thread

_LONGEST_S: Final = 5.0
"""The longest wait for the notifications of a folder to begin, which a hanging file system may never let."""

_LONGEST_END_S: Final = 1.0
"""The longest wait for them to end, since somebody may wait for the end of the process."""

_BETWEEN_LOOKS_S: Final = 0.05
"""So long an attempt waits between looks whether the one before has ended."""

_GATHER_S: Final = 0.02
"""A rewrite takes several steps in a few milliseconds: what they tell is handed on as one."""

_WRITTEN: Final[type[FileSystemEvent]] = FileClosedEvent if sys.platform == "linux" else FileModifiedEvent
"""Linux can tell each write, but somebody may write to a log in the same folder all the time."""

_KINDS: Final[list[type[FileSystemEvent]]] = [_WRITTEN, FileCreatedEvent, FileDeletedEvent, FileMovedEvent]


_Identity: TypeAlias = tuple[int, int]


@asynccontextmanager
async def changes(folder: Path, names: Collection[str]) -> AsyncIterator[Changes]:
    """Follow the files of these names meanwhile; raises OSError when there can be no notifications."""
    follower = Changes(folder, names)
    place = _PLACES.setdefault(folder, _Place(folder))
    place.followers[follower] = None
    try:
        follower.identity = await _begun(place)
        yield follower
    finally:
        del place.followers[follower]
        await _end(place)


async def _begun(place: _Place) -> _Identity | None:
    """Watch the folder; return which one that is. Raises OSError.

    As long as an attempt that was given up goes on there is no other: its thread would hang as well.
    """
    done: Event | None = None
    try:
        async with asyncio.timeout(_LONGEST_S):
            while place.hangs():  # noqa: ASYNC110 - a thread ends it, which knows no event loop
                await asyncio.sleep(_BETWEEN_LOOKS_S)
            done = Event()
            return await in_thread(place.begin, done)
    except (TimeoutError, asyncio.CancelledError) as error:
        place.given_up = done or place.given_up
        if isinstance(error, TimeoutError):
            raise TimeoutError(f"not begun within {_LONGEST_S} s") from None
        raise


async def _end(place: _Place) -> None:
    """Watch the folder no more, unless others follow it; whoever waits to look after that does it for all."""
    if place.is_ending:
        return
    place.is_ending = True
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_END_S):
            await in_thread(place.end)


class Changes:
    """The files that have changed; for the event loop in which it was made."""

    def __init__(self, folder: Path, names: Collection[str]) -> None:
        self.identity: _Identity | None = None
        """Of the folder whose files are followed, since another one may take its place."""

        self._folder = folder
        self._names = frozenset(names)
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._changed: set[str] = set()
        self._any = asyncio.Event()

    def are_of_now(self) -> bool:
        """Whether the folder is still the one whose files are followed; blocks as long as the file system."""
        return _identity(self._folder) == self.identity

    async def wait(self, timeout_s: float) -> Collection[str]:
        """Wait for changes; return the names of the files, none after `timeout_s` seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._any.wait()
        except TimeoutError:
            return ()
        await asyncio.sleep(_GATHER_S)
        self._any.clear()
        with self._lock:
            changed, self._changed = self._changed, set()
        return changed

    def tell(self, name: str) -> None:
        """Take in that a file of this name has changed; in any thread."""
        if name not in self._names:
            return
        with self._lock:
            known = bool(self._changed)
            self._changed.add(name)
        if not known:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._any.set)


class _Teller(FileSystemEventHandler):
    """Hands on what the observer finds in one folder."""

    def __init__(self, followers: Collection[Changes]) -> None:
        self._followers = followers

    def dispatch(self, event: FileSystemEvent) -> None:
        for path in (event.src_path, event.dest_path):
            name = Path(os.fsdecode(path)).name
            for follower in tuple(self._followers):
                follower.tell(name)


class _Place:
    """One folder, and its observer as long as somebody follows it.

    Each has its own observer and lock, since its file system may hang while either works.
    """

    def __init__(self, folder: Path) -> None:
        self.followers: dict[Changes, None] = {}
        """Who follows files there; to be changed before `begin` and before `end`."""

        self.given_up: Event | None = None
        """Set at the end of the last `begin` for which nobody waits any more."""

        self.is_ending = False
        """Whether an `end` has been asked for that has not looked yet who follows."""

        self._folder = folder
        self._lock = Lock()
        self._observer: BaseObserver | None = None
        self._watched: _Identity | None = None

    def hangs(self) -> bool:
        """Whether nobody waits any more for a `begin` that goes on."""
        return self.given_up is not None and not self.given_up.is_set()

    def begin(self, done: Event) -> _Identity | None:
        """Watch the folder that is there now, and return which one that is; raises OSError.

        As `end`, it takes as long as the file system, and up to half a second besides.
        """
        try:
            with self._lock:
                found = _identity(self._folder)
                if self._watched != found:
                    self._unwatch()
                if self._observer is None:
                    self._watch(found)
                return found
        finally:
            done.set()

    def end(self) -> None:
        """Watch the folder no more, unless others follow it."""
        with self._lock:
            self.is_ending = False
            if not self.followers:
                self._unwatch()

    def _watch(self, found: _Identity | None) -> None:
        os.scandir(self._folder).close()  # raises what the observer keeps to itself: that it may not be read
        observer = Observer()
        observer.start()
        try:
            teller = _Teller(self.followers)
            observer.schedule(teller, str(self._folder), event_filter=_KINDS, follow_symlink=True)
        except BaseException:
            _stop(observer)
            raise
        self._observer, self._watched = observer, found

    def _unwatch(self) -> None:
        observer, self._observer, self._watched = self._observer, None, None
        if observer is not None:
            _stop(observer)


def _stop(observer: BaseObserver) -> None:
    observer.stop()
    observer.join()


def _identity(folder: Path) -> _Identity | None:
    """Return what tells a folder from another one in its place; None = there is none."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


_PLACES: Final[dict[Path, _Place]] = {}
"""Every folder that was ever followed: they are few."""
