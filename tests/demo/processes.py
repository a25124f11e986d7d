"""The process tree below a process, as /proc shows it."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import pytest

_PROC: Final = Path("/proc")
_STATE, _PARENT, _STARTED = 0, 1, 19  # the fields of /proc/<pid>/stat after the name

needs_proc: Final = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


class ProcessId(NamedTuple):
    """What names one process for good: pids are used again."""

    pid: int
    started: str


def descendants(pid: int) -> set[ProcessId]:
    """Return the living processes below a process."""
    children: dict[int, list[ProcessId]] = {}
    for path in _PROC.iterdir():
        if path.name.isdecimal() and (fields := _fields(int(path.name))):
            child = ProcessId(int(path.name), fields[_STARTED])
            children.setdefault(int(fields[_PARENT]), []).append(child)
    found: set[ProcessId] = set()
    ahead = [pid]
    while ahead:
        new = children.get(ahead.pop(), [])
        found.update(new)
        ahead += [child.pid for child in new]
    return found


def is_alive(process: ProcessId) -> bool:
    """Whether the process is still there; a stopped one is, one that only waits to be collected is not."""
    fields = _fields(process.pid)
    return bool(fields) and fields[_STARTED] == process.started and fields[_STATE] not in ("Z", "X")


def _fields(pid: int) -> list[str]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return []
