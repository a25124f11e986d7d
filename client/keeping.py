"""The snapshot file of a client: when to write it, when not to use it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from . import snapshot
from .config import ClientConfig
from .observers import Tell
from .observers.events import SnapshotSaved, SnapshotUnusable

_SAVE_S: Final = 1.0

MAX_AGE_S: Final = 86_400.0
"""The addresses of an older file may belong to others by now; an outage of the store seldom lasts so long."""


class SnapshotKeeper:
    """Reads and writes the file that a configuration names, if it names one; tells when it cannot."""

    def __init__(
        self, config: ClientConfig, namespace: str, tell: Tell, max_age_s: float = MAX_AGE_S
    ) -> None:
        self._path = None if config.snapshot_path is None else Path(config.snapshot_path)
        self._max_age_s = max_age_s
        self._namespace = namespace
        self._tell = tell
        self._unsaved = False
        self._save_at = 0.0
        self._is_failing = False

    def something_new(self) -> None:
        """Note that what was written is no longer the newest."""
        self._unsaved = True

    def due(self, now: float) -> bool:
        """Whether to write: there is something new, and the last time is not a moment ago."""
        return self._path is not None and self._unsaved and now >= self._save_at

    def load(self) -> snapshot.Snapshot | None:
        """Return what the file holds; None, which is told, if it cannot be used. Waits for the disk."""
        if self._path is None:
            return None
        try:
            _check_age(self._path, self._max_age_s)
            return snapshot.decode(self._namespace, self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (snapshot.SnapshotError, OSError) as error:
            self._cannot("read", error)
            return None

    def taken(self, now: float) -> None:
        """Note that what is to be saved was taken: what changes from here on is new again."""
        self._unsaved = False
        self._save_at = now + _SAVE_S

    def save(self, known: snapshot.Snapshot) -> None:
        """Replace the file; the first of several failures is told. Waits for the disk."""
        if self._path is None:
            return
        try:
            snapshot.write(self._path, snapshot.encode(self._namespace, known))
        except OSError as error:
            if not self._is_failing:
                self._cannot("write", error)
            self._is_failing = True
        else:
            self._is_failing = False
            self._tell(SnapshotSaved(len(known.rows)))

    def _cannot(self, use: Literal["read", "write"], error: Exception) -> None:
        self._tell(SnapshotUnusable(str(self._path), str(error), use))


def _check_age(path: Path, max_age_s: float) -> None:
    """Raise SnapshotError for an old file, by the clock of its own file system: ours may be another one."""
    written_at = path.stat().st_mtime
    with suppress(OSError), tempfile.TemporaryFile(dir=path.parent) as new:
        age_s = os.fstat(new.fileno()).st_mtime - written_at
        if age_s > max_age_s:
            raise snapshot.SnapshotError(f"it is {age_s:.0f} s old, more than {max_age_s:.0f} s")
    # Where nobody may write there is nothing to compare with, and the file is as good as any.
