"""Records how attempts ended, for the data pipeline: some of them, in rotating files of JSON lines."""

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
from math import isnan, nan
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Final, NamedTuple, Self

import orjson

from ...registry.checks import check_int, check_method, check_seconds, check_share, check_text, check_type
from ..forks import survives_forks
from .events import AttemptEnded, ClockRead, Event
from .samplefiles import SampleFiles

_log: Final = logging.getLogger("sharedroutes.client")

_DRIFT: Final = 0.0005
"""How far two clocks part at most, in seconds a second: as fast as Linux lets one be slewed (adjtime)."""

_ROUNDING_MS: Final = 0.5
_CLOSE_S: Final = 5.0
_MOST_BYTES: Final = 2**40
_MANY: Final = 10_000_000
_LEAST_S: Final = 0.01
_NAME_BYTES: Final = 100
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")


class _Taken(NamedTuple):
    """A sample, and when the attempt ended by the monotonic clock."""

    event: AttemptEnded
    at_s: float
    share: float


class SampleRecorder:
    """An observer that records a share of the attempts in files; thread-safe, and safe to fork.

    Nothing is written by who makes the attempt: a thread does so every `flush_s`. What goes wrong there is
    counted in `dropped`, said once in the log, and changes nothing for who sends. Raises InvalidInput.
    """

    def __init__(
        self,
        folder: Path,
        *,
        client: str = "",
        registry: str = "",
        share: float = 0.01,
        failure_share: float = 1.0,
        wall_clock: Callable[[], float] | None = None,
        clock_every_s: float = 10.0,
        flush_s: float = 1.0,
        buffer: int = 100_000,
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
        check_seconds("clock_every_s", clock_every_s, _LEAST_S)
        check_seconds("flush_s", flush_s, _LEAST_S)
        check_int("buffer", buffer, 1, _MANY)
        check_int("file_bytes", file_bytes, 1, _MOST_BYTES)
        check_int("files", files, 1, _MANY)
        self.client = client or uuid.uuid4().hex[:16]
        """What the samples call this process."""

        self.registry = registry
        """What the samples call the registry; empty = they do not name it."""

        self.clock_every_s = clock_every_s
        self.dropped = 0
        """Samples that were lost: the buffer was full, the disk did not take them, or no clock was known."""

        self._share = share
        self._failure_share = failure_share
        self._wall_clock = wall_clock
        self._flush_s = flush_s
        self._buffer = buffer
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def on_event(self, event: Event) -> None:
        """Take in the end of an attempt, or the store's clock; the rest is not recorded."""
        if type(event) is AttemptEnded:
            share = self._failure_share if event.outcome == "failed" else self._share
            if share >= 1.0 or self._random() < share:
                self._take(event, share)
        elif type(event) is ClockRead:
            self._clock = event

    def flush(self) -> None:
        """Write what was taken in; waits for the disk. What the disk does not take is dropped."""
        with self._writing:
            self._write()

    def close(self) -> None:
        """Write what was taken in, and record no more."""
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
        """Let nobody write while the process is copied."""
        self._starting.acquire()
        self._writing.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._writing.release()
        self._starting.release()

    def after_fork_in_child(self) -> None:
        """Write to own files, under an own name: what was taken in before is the parent's to write."""
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
        if len(self._taken) >= self._buffer:
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
        while not self._stopping.wait(self._flush_s):
            self.flush()

    def _write(self) -> None:
        """Write what was taken in, once there is a clock to tell its time by."""
        clock = self._clock or self._own_clock()
        if clock is None or not self._taken:
            return
        taken = [self._taken.popleft() for _ in range(len(self._taken))]
        try:
            self._files.append(b"".join([self._line(sample, clock) for sample in taken]))
            self._failed_with = None
        except Exception as error:  # noqa: BLE001 - whoever sends must not suffer from a full disk
            self.dropped += len(taken)
            if self._failed_with is not type(error):
                self._failed_with = type(error)
                _log.exception("samples cannot be written and are dropped, said once")

    def _own_clock(self) -> ClockRead | None:
        """Return what stands in for the store's clock, off by nobody knows how much."""
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
    """Return a name that no other process has, and that files can have."""
    return f"{_NOT_IN_NAMES.sub('_', client)}-{uuid.uuid4().hex[:8]}"
