"""One job of a kind at a time below an `out`, as far as the file system can tell."""

from __future__ import annotations

import fcntl
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from ..errors import PipelineError
from .layout import LOCKS, join

_LEASE_S: Final = 90.0
"""Longer than the minute after which HDFS takes a file from a process that was killed."""

_POLL_S: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class Lockable(Protocol):
    """What locking needs of a file system."""

    scheme: str

    @property
    def has_leases(self) -> bool:
        """Whether open_alone works."""

    def local(self, path: str, /) -> Path | None:
        """Return the path on this machine; None on another file system."""

    def open_alone(self, path: str) -> Any | None:
        """Open a file to write; None when another process has it open."""


@contextmanager
def only_one(job: str, files: Lockable, out: str, *, lease_s: float = _LEASE_S) -> Iterator[None]:
    """Hold the lock of a job below `out`; raises PipelineError when another process has it.

    On a local disk the kernel lets go of it when the process ends, however. On HDFS that takes a minute after
    a kill, for which a start waits, `lease_s` at most. On other file systems there is none, and a warning.
    """
    folder = files.local(join(out, LOCKS))
    if folder is not None:
        with _flock(job, folder):
            yield
    elif files.has_leases:
        stream = _lease(job, files, out, lease_s)
        try:
            yield
        finally:
            stream.close()
    else:
        _LOG.warning(
            "nothing can be locked on %s, and what is moved there is seen in parts meanwhile: "
            "have no second %s below %s",
            files.scheme,
            job,
            out,
        )
        yield


@contextmanager
def _flock(job: str, folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / job).open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _another(job, str(folder.parent)) from None
        yield


def _lease(job: str, files: Lockable, out: str, lease_s: float) -> Any:
    """Return a file of HDFS that this process alone has open."""
    path = join(out, LOCKS, job)
    until_s = time.monotonic() + lease_s
    pause = threading.Event()
    stream = files.open_alone(path)
    if stream is None:
        _LOG.warning("another %s works below %s, or was killed: waiting %.0f s for it", job, out, lease_s)
    while stream is None:
        if time.monotonic() >= until_s:
            raise _another(job, out)
        pause.wait(_POLL_S)
        stream = files.open_alone(path)
    return stream


def _another(job: str, out: str) -> PipelineError:
    return PipelineError(f"another {job} works below {out}: stop it, or give this one another out")
