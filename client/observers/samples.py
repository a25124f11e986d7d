"""Samples of attempts for the data pipeline, in rotating files of JSON lines."""

from __future__ import annotations

import atexit
import logging
import os
import random
import re
import threading
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import isnan, nan
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple, Self

import orjson

from ...registry.checks import check_int, check_method, check_share, check_text, check_type
from ..forks import survives_forks
from .events import AttemptEnded, ClockRead, Event

PREFIX: Final = "samples-"
SUFFIX: Final = ".jsonl"

_log: Final = logging.getLogger("sharedroutes.client")

_CLOCK_EVERY_S: Final = 10.0
"""Keeps the error by drift at 5 ms, for one `TIME` of the store."""

_FLUSH_S: Final = 1.0
"""A killed process loses the samples of so long."""

_BUFFER: Final = 100_000
"""So many samples can wait: more than a process sends in a second, in some 20 MB."""

_DRIFT: Final = 0.0005
"""How far two clocks part at most, in seconds a second: as fast as Linux lets one be slewed (adjtime)."""

_ROUNDING_MS: Final = 0.5
_CLOSE_S: Final = 5.0
_MOST_BYTES: Final = 2**40
_MANY: Final = 10_000_000
_NAME_BYTES: Final = 100
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")


class _Taken(NamedTuple):
    """A sample, and when the attempt ended by the monotonic clock."""

    event: AttemptEnded
    at_s: float
    share: float


class SampleRecorder:
    """An observer that records a share of the attempts in files; thread-safe, and safe to fork.

    A thread of its own writes once a second, so a disk that is slow or full does not delay a sender:
    samples that cannot be written are counted in `dropped`, and logged once. Raises InvalidInput.
    """

    clock_every_s = _CLOCK_EVERY_S

    def __init__(
        self,
        folder: Path,
        *,
        client: str = "",
        registry: str = "",
        share: float = 0.01,
        failure_share: float = 1.0,
        wall_clock: Callable[[], float] | None = None,
        file_bytes: int = 16 * 2**20,
        files: int = 64,
        rng: random.Random | None = None,
    ) -> None:
        check_type("folder", folder, Path)
        check_text("client", client, _NAME_BYTES, empty=True)
        check_text("registry", registry, _NAME_BYTES, empty=True)
        check_share("share", share, above_0=True)
        check_share("failure_share", failure_share, above_0=True)
        if wall_clock is not None:
            check_method("wall_clock", wall_clock, "__call__")
        check_int("file_bytes", file_bytes, 1, _MOST_BYTES)
        check_int("files", files, 1, _MANY)
        self.client = client or uuid.uuid4().hex[:16]
        """The name of this process in the samples."""

        self.registry = registry
        """The name of the registry in the samples; empty = they do not name it."""

        self.dropped = 0
        """Samples that were lost: the buffer was full, the disk did not take them, or no clock was known."""

        self._share = share
        self._failure_share = failure_share
        self._wall_clock = wall_clock
        self._rng = rng or random.Random()
        self._random = self._rng.random
        self._taken: deque[_Taken] = deque()
        self._clock: ClockRead | None = None
        self._bounds = (folder, file_bytes, files)
        self._of_registry = {"registry": registry} if registry else {}
        self._files = self._new_files()
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed_with: type[Exception] | None = None
        survives_forks(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def on_event(self, event: Event) -> None:
        """Take the end of an attempt, or the store's clock; other events are not recorded."""
        if type(event) is AttemptEnded:
            share = self._failure_share if event.outcome == "failed" else self._share
            if share >= 1.0 or self._random() < share:
                self._take(event, share)
        elif type(event) is ClockRead:
            self._clock = event

    def flush(self) -> None:
        """Write what is buffered; waits for the disk. What the disk does not take is dropped."""
        with self._writing:
            self._write()

    def close(self) -> None:
        """Write what is buffered, and record no more."""
        with self._starting:
            self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)
        with self._writing:
            self._write()
            self.dropped += len(self._taken)
            self._taken.clear()
            self._files.close()
        atexit.unregister(self.close)

    # --- forks ----------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Stop writing while the process is copied."""
        self._starting.acquire()
        self._writing.acquire()

    def after_fork_in_parent(self) -> None:
        """Write again."""
        self._writing.release()
        self._starting.release()

    def after_fork_in_child(self) -> None:
        """Write to files of its own, under a name of its own: the parent writes what was buffered before."""
        self._files.close()
        self.client = f"{self.client}-{os.getpid()}"
        self._files = self._new_files()
        self._taken.clear()
        self.dropped = 0
        self._rng.seed()
        self._thread = None
        was_closed, self._stopping = self._stopping.is_set(), threading.Event()
        if was_closed:
            self._stopping.set()
        self.after_fork_in_parent()

    # --- inside ---------------------------------------------------------------------------------------------

    def _new_files(self) -> SampleFiles:
        folder, file_bytes, files = self._bounds
        return SampleFiles(folder, _file_name(self.client), file_bytes, files)

    def _take(self, event: AttemptEnded, share: float) -> None:
        if self._stopping.is_set():
            return
        if len(self._taken) >= _BUFFER:
            self.dropped += 1
            return
        self._taken.append(_Taken(event, monotonic(), share))
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name="sharedroutes-samples", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def _run(self) -> None:
        while not self._stopping.wait(_FLUSH_S):
            self.flush()

    def _write(self) -> None:
        """Write what is buffered, once there is a clock to tell its time by."""
        clock = self._clock or self._own_clock()
        if clock is None or not self._taken:
            return
        taken = [self._taken.popleft() for _ in range(len(self._taken))]
        try:
            self._files.append(b"".join([self._line(sample, clock) for sample in taken]))
            self._failed_with = None
        except Exception as error:  # noqa: BLE001 - a full disk must not stop the thread
            self.dropped += len(taken)
            if self._failed_with is not type(error):
                self._failed_with = type(error)
                _log.exception("samples cannot be written and are dropped, said once")

    def _own_clock(self) -> ClockRead | None:
        """Return what stands in for the store's clock, by an unknown error."""
        return None if self._wall_clock is None else ClockRead(self._wall_clock(), monotonic(), nan)

    def _line(self, sample: _Taken, clock: ClockRead) -> bytes:
        event, at_s, share = sample
        since_s = at_s - clock.at_s
        error_ms = (clock.error_s + _DRIFT * abs(since_s)) * 1000 + _ROUNDING_MS
        line = {
            **self._of_registry,
            "client": self.client,
            "at_ms": round((clock.store_s + since_s) * 1000),
            "error_ms": None if isnan(error_ms) else round(error_ms, 3),
            "topic": event.topic,
            "broker": event.broker_name,
            "latency_ms": round(event.latency_s * 1000, 3),
            "outcome": event.outcome,
            "isolated": event.isolated,
            "attempt": event.number,
            "position": event.position,
            "share": share,
        }
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _file_name(client: str) -> str:
    """Return a name for files that no other process uses."""
    return f"{_NOT_IN_NAMES.sub('_', client)}-{uuid.uuid4().hex[:8]}"


class SampleFiles:
    """Appends to `folder`/samples-`name`-000001.jsonl, and to the next one when it has `file_bytes`.

    A file keeps its name for ever, so a reader that goes by names and lengths reads no line twice. When the
    folder has more than `files` files, whoever wrote them, the oldest are removed. For one thread.
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
        """Append whole lines; after an OSError, a part of them may be in the file."""
        if self._fd is not None and (self._size >= self._file_bytes or os.fstat(self._fd).st_nlink == 0):
            self.close()  # it is full, or was removed
        if self._fd is None:
            self._fd = self._open()
        data = b"\n" + lines if self._torn else lines
        self._torn = True
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:  # the fault may be over when the file is opened again
            os.close(self._fd)
            self._fd = None
            raise
        self._torn = False
        self._size += len(data)

    def close(self) -> None:
        """Close the file; the next lines go to the next one."""
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
            self._torn = False  # it was removed: a file is not begun twice
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

        A file that this user may not remove stays, and new samples are written all the same.
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
