"""Follows one file by notifications of its folder, with a slow look besides for what they miss."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Final, TypeAlias

from watchfiles import awatch
from watchfiles._rust_notify import WatchfilesRustInternalError

__all__ = ["Content", "contents", "read"]

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_DEBOUNCE_MS: Final = 50
_STEP_MS: Final = 20  # the watcher wakes up so often

Content: TypeAlias = bytes | OSError
"""What a file holds, or why it cannot be read."""


async def contents(path: Path, *, recheck_s: float) -> AsyncGenerator[Content | None, None]:
    """Yield what the file holds: at once, after every change, and every `recheck_s` seconds; None = the same.

    The file need not exist, nor its folder. Equal contents may be yielded again.
    """
    file = _File(path)
    yield await file.look()
    said = ""
    while True:
        try:
            async with aclosing(_notified(file, recheck_s)) as notified:
                async for content in notified:
                    yield content
        except FileNotFoundError:  # the folder: the broker has never run, or it is being replaced
            pass
        except (OSError, WatchfilesRustInternalError) as error:  # for example the limit of inotify watches
            if str(error) != said:
                said = str(error)
                _LOG.warning("%s: no notifications, looking every %s s: %s", path.parent, recheck_s, error)
        await asyncio.sleep(recheck_s)
        yield await file.look()


async def read(path: Path) -> Content:
    """Return what the file holds, or why it cannot be read."""
    return await asyncio.to_thread(_read, path)


class _File:
    """One file, which is read only when it may have changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: tuple[int, ...] | None = None
        self._seen_twice = False

    async def look(self, *, notified: bool = False) -> Content | None:
        """Return the content; None when the file is in the state in which it has been read twice.

        Once is not enough: a file that is written while it is read may keep its size and, where it is coarse,
        the time of its last change. The two reads are a look apart.
        """
        state = await asyncio.to_thread(_state, self.path)
        if state is not None and state == self._state and not notified:
            if self._seen_twice:
                return None
            self._seen_twice = True
        else:
            self._seen_twice = False
        self._state = state
        return await read(self.path)


async def _notified(file: _File, recheck_s: float) -> AsyncGenerator[Content | None, None]:
    """Yield the content on notifications, until the folder is another one."""
    folder = file.path.parent
    identity = _identity(folder)
    watcher = awatch(
        folder,
        watch_filter=lambda _, changed: Path(changed).name == file.path.name,
        debounce=_DEBOUNCE_MS,
        step=_STEP_MS,
        rust_timeout=round(recheck_s * 1000),
        yield_on_timeout=True,
        recursive=False,
    )
    async with aclosing(watcher):
        async for changes in watcher:
            yield await file.look(notified=bool(changes))
            if _identity(folder) != identity:
                return


def _read(path: Path) -> Content:
    try:
        return path.read_bytes()
    except OSError as error:
        return error


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _identity(folder: Path) -> tuple[int, ...] | None:
    state = _state(folder)
    return state and state[:2]
