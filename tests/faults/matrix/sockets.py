"""Whose TCP connection is it: the ports from which processes have connected, as Linux tells them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_SOCKET: Final = "socket:["


def inodes_of(pid: int) -> set[str]:
    """Return the inodes of the sockets of a process; none if it has ended."""
    found = set[str]()
    with suppress(OSError):
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith(_SOCKET):
                    found.add(target.removeprefix(_SOCKET).rstrip("]"))
    return found


def ports_of(pids: Iterable[int]) -> set[int]:
    """Return the local ports of the TCP connections (IPv4) of some processes."""
    inodes = {inode for pid in pids for inode in inodes_of(pid)}
    if not inodes:
        return set()
    _, *lines = (_PROC / "net" / "tcp").read_text(encoding="ascii").splitlines()
    found = (line.split() for line in lines)
    return {int(fields[1].rpartition(":")[2], 16) for fields in found if fields[9] in inodes}


def made_by(pids: Callable[[], Iterable[int]]) -> Callable[[Collection[int]], set[int]]:
    """Return what says which connections are those of the processes that run at the time, by their ports."""
    return lambda ports: ports_of(pids()).intersection(ports)


def usage_of(pid: int) -> tuple[int, int, int, int] | None:
    """Return memory (KB), threads, descriptors and sockets of a process; None = it has ended."""
    folder = _PROC / str(pid)
    with suppress(OSError, ValueError):
        status = dict(
            line.split(":", 1) for line in (folder / "status").read_text(encoding="ascii").splitlines()
        )
        if "VmRSS" in status:
            descriptors = len(os.listdir(folder / "fd"))  # noqa: PTH208 - a folder of numbers
            rss_kb = int(status["VmRSS"].split()[0])
            return rss_kb, int(status["Threads"]), descriptors, len(inodes_of(pid))
    return None
