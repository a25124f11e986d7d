"""Files of lines that one process appends to: of bounded size, and no more of them than allowed."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "samples-"
SUFFIX: Final = ".jsonl"

_log: Final = logging.getLogger("sharedroutes.client")


class SampleFiles:
    """Appends to `folder`/samples-`name`-000001.jsonl, and to the next one when it has `file_bytes`.

    A file keeps its name for ever, so who reads a folder by names and lengths reads no line twice. Of all
    files in the folder, whoever wrote them, the oldest go when there are more than `files`. For one thread.
    """

    def __init__(self, folder: Path, name: str, file_bytes: int, files: int) -> None:
        self._folder = folder
        self._name = name
        self._file_bytes = file_bytes
        self._files = files
        self._number = 0
        self._size = 0
        self._fd: int | None = None
        self._torn = False
        """Whether the file may end in the middle of a line."""

        self._keeps_all = False
        """Whether files were found that cannot be removed, which is said once."""

    def append(self, lines: bytes) -> None:
        """Append whole lines; raises OSError, after which a part of them may be there."""
        if self._fd is not None and (self._size >= self._file_bytes or os.fstat(self._fd).st_nlink == 0):
            self.close()  # it is full, or somebody removed it
        if self._fd is None:
            self._fd = self._open()
        data = b"\n" + lines if self._torn else lines
        self._torn = True
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:  # what is wrong with the file may be over when it is opened again
            os.close(self._fd)
            self._fd = None
            raise
        self._torn = False
        self._size += len(data)

    def close(self) -> None:
        """Let go of the file; the next lines go to the next one."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._torn = False
        self._size = self._file_bytes

    def _open(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._torn:
            with suppress(FileNotFoundError):
                return self._opened(os.O_WRONLY | os.O_APPEND)
            self._torn = False  # somebody removed it: a file is not begun twice
        self._number += 1
        fd = self._opened(os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._prune()
        return fd

    def _opened(self, flags: int) -> int:
        fd = os.open(self._folder / f"{PREFIX}{self._name}-{self._number:06d}{SUFFIX}", flags, 0o644)
        self._size = os.fstat(fd).st_size
        return fd

    def _prune(self) -> None:
        """Remove the oldest files, by the clock of their own file system.

        One that is not ours to remove is in the way of nothing but the limit: what is new is written.
        """
        found: list[tuple[int, Path]] = []
        for path in self._folder.glob(f"{PREFIX}*{SUFFIX}"):
            with suppress(FileNotFoundError):  # another process was quicker
                found.append((path.stat().st_mtime_ns, path))
        for _, path in sorted(found)[: -self._files]:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                if not self._keeps_all:
                    self._keeps_all = True
                    _log.warning("samples: more files than allowed, said once: %s: %s", path, error)
