"""One job of a kind at a time below an `out`, as far as the file system can tell."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import PipelineError

__all__ = ["only_one"]


@contextmanager
def only_one(job: str, folder: Path | None) -> Iterator[None]:
    """Hold the lock of a job in a local folder; raises PipelineError when another process has it.

    The kernel lets go of it when the process ends, however. On other file systems (None) there is none.
    """
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / job).open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            message = f"another {job} works below {folder.parent}: stop it, or give this one another out"
            raise PipelineError(message) from None
        yield
