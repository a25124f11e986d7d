"""Follows files by the notifications of their folder, with a look every `recheck_s` for what those miss.

A change that is notified is seen within milliseconds. File systems that send nothing (network disks), a
limit of watches and a folder that is not there yet are what the looks are for.
"""

from __future__ import annotations

import asyncio
import io
import logging
import mmap
import os
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Final, ParamSpec, TypeAlias, TypeVar

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

from ..daemon.threads import in_thread

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_LARGE_BYTES: Final = 65_536

STUCK_S = 3.0
"""A file system that takes longer to answer is reported: a read cannot be called off."""

BEGIN_S = 5.0
"""The longest wait for the notifications of a folder to begin, which a hanging file system may never let."""

END_S = 1.0
"""The longest wait for them to end: the end of the process may wait for it."""

_GATHER_S: Final = 0.02
"""A rewrite takes several steps in a few milliseconds: they make one look."""

_WRITTEN: Final[type[FileSystemEvent]] = FileClosedEvent if sys.platform == "linux" else FileModifiedEvent
"""Linux could notify each write, but a log in the same folder may be written to all the time."""

_KINDS: Final[list[type[FileSystemEvent]]] = [_WRITTEN, FileCreatedEvent, FileDeletedEvent, FileMovedEvent]

T = TypeVar("T")
P = ParamSpec("P")

Content: TypeAlias = bytes | memoryview | OSError
"""What a file holds, or why it cannot be read."""

_Identity: TypeAlias = tuple[int, int]


async def contents(path: Path, *, recheck_s: float) -> AsyncGenerator[Content | None, None]:
    """Yield what the file holds: at once, after every change, and every `recheck_s` seconds; None = the same.

    The file need not exist, nor its folder. Equal contents may be yielded again.
    """
    async with aclosing(looks((path,), recheck_s=recheck_s)) as found:
        async for (content,) in found:
            yield content


async def looks(
    paths: Sequence[Path], *, recheck_s: float
) -> AsyncGenerator[tuple[Content | None, ...], None]:
    """Yield what several files of one folder hold, as `contents` does, whenever one may have changed."""
    looker, changes = _Looker(paths), _Changes([path.name for path in paths])
    folder = _FOLDERS.setdefault(paths[0].parent, _Folder(paths[0].parent))
    folder.followers[changes] = None
    changed: Collection[str] = ()
    reported = ""
    try:
        while True:
            if not await _in_thread(paths[0], looker.look_if_watched, folder, changed):
                await folder.adapt(BEGIN_S)
                if folder.problem not in ("", reported):
                    reported = folder.problem
                    _LOG.warning(
                        "%s: no notifications, looking every %s s: %s", folder.path, recheck_s, reported
                    )
                await _in_thread(paths[0], looker.look, changed)
            yield looker.take()
            changed = await changes.wait(recheck_s)
    finally:
        del folder.followers[changes]
        if not folder.followers:
            await folder.adapt(END_S)


async def read(path: Path) -> Content:
    """Return what the file holds, or why it cannot be read."""
    return await _in_thread(path, _read, path)


async def _in_thread(path: Path, look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what the look returns; report the file system of `path` when that takes long."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    hangs = "%s: reading it hangs, the file system has not answered for %s s; what was read before stays"
    report = loop.call_later(STUCK_S, _LOG.warning, hangs, path, STUCK_S)
    try:
        found = await in_thread(look, *args, **kwargs)
    finally:
        report.cancel()
    if loop.time() - began_s > STUCK_S:
        _LOG.info("%s: the file system has answered, after %.1f s", path, loop.time() - began_s)
    return found


class _Looker:
    """Looks at several files in a thread, and keeps what it found until that is taken.

    What a thread returns to asyncio stays in memory until the next collection of garbage: too long for files
    of megabytes.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = [_File(path) for path in paths]
        self._found: tuple[Content | None, ...] = ()

    def look(self, changed: Collection[str]) -> None:
        """Look at all files; those of the names in `changed` are read in any case."""
        self._found = tuple([file.look(changed) for file in self._files])

    def look_if_watched(self, folder: _Folder, changed: Collection[str]) -> bool:
        """Look, unless the folder that is there now is another one than the watched."""
        if not folder.is_watched():
            return False
        self.look(changed)
        return True

    def take(self) -> tuple[Content | None, ...]:
        """Return what was found, once."""
        found, self._found = self._found, ()
        return found


class _File:
    """One file, which is read only when it may have changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: tuple[int, ...] | None = ()
        self._settled = False

    def look(self, changed: Collection[str]) -> Content | None:
        """Return the content; None when the file is in the state in which it has been read twice.

        Once is not enough: a file that is written while it is read may keep its size and, where it is coarse,
        the time of its last change. The two reads are a look apart.
        """
        state = _state(self._path)
        is_same = state == self._state and self._path.name not in changed
        if is_same and self._settled:
            return None
        content = _read(self._path)
        lasts = not isinstance(content, OSError) or isinstance(content, FileNotFoundError)
        self._settled = is_same and lasts
        self._state = state
        return content


class _Changes:
    """The files that have changed, for one follower in its event loop."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._loop = asyncio.get_running_loop()
        self._changed: set[str] = set()
        self._any = asyncio.Event()

    async def wait(self, timeout_s: float) -> Collection[str]:
        """Wait for changes; return the names of the files, none after `timeout_s` seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._any.wait()
        except TimeoutError:
            return ()
        await asyncio.sleep(_GATHER_S)
        self._any.clear()
        changed, self._changed = self._changed, set()
        return changed

    def notify(self, name: str) -> None:
        """Note that a file of this name has changed; in any thread."""
        if name in self._names:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._note, name)

    def _note(self, name: str) -> None:
        self._changed.add(name)
        self._any.set()


class _Folder(FileSystemEventHandler):
    """One folder, and its observer, which all followers of files there share, while there are any.

    Each folder has an observer and a lock of its own, since its file system may hang while either works.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.followers: dict[_Changes, None] = {}
        """To be changed before `adapt`."""

        self._lock = Lock()
        self._observer: BaseObserver | None = None
        self._watched: _Identity | None = None
        """The folder that is watched, since another one may take its place."""

        self._error = ""
        self._since_s: float | None = None
        """When the thread that has the lock got it."""

        self._ends = False
        """Whether a thread waits for the lock to end the observer, unless there are followers by then."""

    @property
    def problem(self) -> str:
        """Why there are no notifications; empty = there are."""
        return f"not begun within {BEGIN_S} s" if self._hangs() else self._error

    def is_watched(self) -> bool:
        """Whether the folder that is there now is watched, or none is there; blocks as long as the disk."""
        return _identity(self.path) == self._watched

    async def adapt(self, timeout_s: float) -> None:
        """Watch the folder that is there now, or none if there are no followers.

        That takes as long as the file system, and up to half a second besides. It is waited for no longer
        than `timeout_s`, and while an earlier thread hangs there are no more of them.
        """
        if self._hangs() if self.followers else self._ends:
            return
        self._ends = self._ends or not self.followers
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await in_thread(self._adapt)

    def dispatch(self, event: FileSystemEvent) -> None:
        """Notify the followers; in the observer's thread."""
        for path in (event.src_path, event.dest_path):
            name = Path(os.fsdecode(path)).name
            for changes in tuple(self.followers):
                changes.notify(name)

    def _hangs(self) -> bool:
        since_s = self._since_s
        return since_s is not None and monotonic() - since_s >= BEGIN_S

    def _adapt(self) -> None:
        with self._lock:
            self._ends = False
            self._since_s = monotonic()
            try:
                found = _identity(self.path) if self.followers else None
                if found != self._watched:
                    self._unwatch()
                    self._watch(found)
            finally:
                self._since_s = None

    def _watch(self, found: _Identity | None) -> None:
        self._error = ""
        if found is None:
            return
        try:
            os.scandir(self.path).close()  # raises what the observer keeps to itself: that it may not be read
            observer = Observer()
            observer.start()
            try:
                observer.schedule(self, str(self.path), event_filter=_KINDS, follow_symlink=True)
            except BaseException:
                _stop(observer)
                raise
        except FileNotFoundError:  # the broker has never run, or the folder is being replaced
            return
        except OSError as error:  # for example the limit of inotify watches
            self._error = str(error)
            return
        self._observer, self._watched = observer, found

    def _unwatch(self) -> None:
        observer, self._observer, self._watched = self._observer, None, None
        if observer is not None:
            _stop(observer)


_FOLDERS: Final[dict[Path, _Folder]] = {}
"""Every folder in which files were ever followed: they are few."""


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


def _read(path: Path) -> Content:
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            return file.read() if size <= _LARGE_BYTES else _read_large(file, size)
    except OSError as error:
        return error


def _read_large(file: io.FileIO, size: int) -> memoryview:
    """Return what a file holds in memory that goes back to the system, unlike that of bytes of this size."""
    buffer = memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    filled = 0
    while filled < size and (count := file.readinto(buffer[filled:])):
        filled += count
    return buffer[:filled].toreadonly()


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
