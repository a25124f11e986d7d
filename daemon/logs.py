"""Writes the log to standard error: lines for people, or one JSON object a line."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from queue import Full, Queue
from typing import Any, Final, Self

import orjson

_OURS: Final = "sharedroutes"
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_RESERVED: Final = frozenset(("time", "level", "logger", "message", "error"))
_MOST_LINES: Final = 1_000
_LAST_WORDS_S: Final = 0.25
"""The process waits no longer than that for the reader of its log when it ends."""

_STDERR: Final = 2


def _to_stderr(content: bytes) -> None:
    """Write to the descriptor: a thread that hangs in sys.stderr would hold its lock at the end of Python."""
    while content:
        content = content[os.write(_STDERR, content) :]


class TextLines(logging.Formatter):
    """`time LEVEL message`, the time as RFC 3339 in UTC; the text of an error follows."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's
        """Return when it happened."""
        return _time(record)


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, message, `error` (a traceback), and the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a value that JSON has no form for is written as text."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        for name, value in vars(record).items():
            if name not in _STANDARD:
                line[f"{name}_" if name in _RESERVED else name] = value
        return _json(line)


class LogOutput(logging.Handler):
    """Sends what sharedroutes logs, and the warnings of others, to `sink` while it is entered.

    A thread writes: whoever reads the log, and stops reading, must not stop the heartbeats. Lines that find
    no room are counted, and their number is written when there is room again.
    """

    def __init__(self, log_format: str, log_level: str, sink: Callable[[bytes], object] = _to_stderr) -> None:
        super().__init__()
        self._sink = sink
        self._lines: Queue[str | None] = Queue(_MOST_LINES)
        self._lost = 0
        self._thread = threading.Thread(target=self._write, name="sharedroutes-log", daemon=True)
        self._log = logging.getLogger(_OURS)
        self._level_before = self._log.level
        self.use(log_format, log_level)

    def use(self, log_format: str, log_level: str) -> None:
        """Change the format (text, json) and the level (debug, info, warning, error)."""
        self.setFormatter(JsonLines() if log_format == "json" else TextLines())
        self._log.setLevel(log_level.upper())

    def __enter__(self) -> Self:
        self._thread.start()
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._log.setLevel(self._level_before)
        logging.getLogger().removeHandler(self)
        self.close()
        self.finish()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line, after one that counts the lost ones."""
        try:
            if self._lost:
                text = f"{self._lost} lines of the log were lost: they were not read in time"
                lost = logging.makeLogRecord({**vars(record), "msg": text, "args": None, "exc_info": None})
                self._lines.put_nowait(self.format(lost))
                self._lost = 0
            self._lines.put_nowait(self.format(record))
        except Full:
            self._lost += 1
        except Exception:  # noqa: BLE001 - as every handler does: logging reports what cannot be formatted
            self.handleError(record)

    def finish(self) -> None:
        """Write what is left, if it is read, and no more after that; from any thread."""
        end_s = time.monotonic() + _LAST_WORDS_S
        try:
            self._lines.put(None, timeout=_LAST_WORDS_S)
        except Full:
            return
        self._thread.join(max(0.0, end_s - time.monotonic()))

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._sink(f"{line}\n".encode("utf-8", "backslashreplace"))
            except OSError:  # nobody can be told: the log is closed
                self._lost += 1


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(line: dict[str, Any]) -> str:
    try:
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:  # text that is no UTF-8, for example the name of a file; a huge number
        return orjson.dumps({_plain(name): _plain(value) for name, value in line.items()}).decode()


def _plain(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text.encode("utf-8", "backslashreplace").decode()
