"""Follows files by notifications of their folder, with a slow look besides for what they miss."""

from __future__ import annotations

import asyncio
import io
import logging
import mmap
import os
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final, ParamSpec, TypeAlias, TypeVar

from ..daemon_threads import in_thread
from .folder_events import Changes, changes

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_LARGE_BYTES: Final = 65_536

STUCK_S = 3.0
"""A file system that takes longer to answer is reported: a read cannot be called off."""

T = TypeVar("T")
P = ParamSpec("P")

Content: TypeAlias = bytes | memoryview | OSError
"""What a file holds, or why it cannot be read."""


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
    looker = _Looker(paths)
    folder = paths[0].parent
    said = ""
    while True:
        changed: Collection[str] = ()
        try:
            async with changes(folder, [path.name for path in paths]) as notified:
                while await _in_thread(paths[0], looker.look_there, notified, changed):
                    yield looker.take()
                    changed = await notified.wait(recheck_s)
        except FileNotFoundError:  # the folder: the broker has never run, or it is being replaced
            pass
        except OSError as error:  # for example the limit of inotify watches
            if str(error) != said:
                said = str(error)
                _LOG.warning("%s: no notifications, looking every %s s: %s", folder, recheck_s, error)
        await _in_thread(paths[0], looker.look, changed)
        yield looker.take()
        await asyncio.sleep(recheck_s)


async def read(path: Path) -> Content:
    """Return what the file holds, or why it cannot be read."""
    return await _in_thread(path, _read, path)


async def is_there(path: Path) -> bool:
    """Return whether there is such a file, or nobody can say."""
    return await _in_thread(path, _is_there, path)


async def _in_thread(path: Path, look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what the look returns; tell about the file system of `path` when that takes long."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    hangs = "%s: reading it hangs, the file system has not answered for %s s; what was read before stays"
    told = loop.call_later(STUCK_S, _LOG.warning, hangs, path, STUCK_S)
    try:
        found = await in_thread(look, *args, **kwargs)
    finally:
        told.cancel()
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
        """Look at all files, of which those of these names are said to have changed."""
        self._found = tuple([file.look(changed) for file in self._files])

    def look_there(self, notified: Changes, changed: Collection[str]) -> bool:
        """Look, unless another folder is there by now than the one whose changes are notified."""
        there = notified.are_of_now()
        if there:
            self.look(changed)
        return there

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


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
