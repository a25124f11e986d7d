"""Whose TCP connection is it: the ports from which processes have connected, as Linux tells them."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.proxy import Connection

_PROC: Final = Path("/proc")
_SOCKET: Final = "socket:["

_LOOPBACK: Final = socket.inet_aton("127.0.0.1")
_SOCK_DIAG: Final = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY: Final = 20  # SOCK_DIAG_BY_FAMILY, in requests and in answers
_REQUEST: Final = 1  # NLM_F_REQUEST
_ALL_STATES: Final = 0xFFFFFFFF
_ANY_INTERFACE_AND_COOKIE: Final = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_HEADER_BYTES: Final = 16
_INODE_AT: Final = _HEADER_BYTES + 4 + 48 + 16
_MOST_BYTES: Final = 4_096
_ANSWER_S: Final = 1.0


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


def inode_of(connection: Connection) -> str:
    """Return the inode of the socket from which a loopback connection (IPv4) was made; empty = there is none.

    Asked by sock_diag: /proc/net/tcp has all sockets of the machine, and takes a hundred times as long.
    """
    address = _LOOPBACK + bytes(12)
    socket_id = struct.pack("!HH16s16s", *connection, address, address) + _ANY_INTERFACE_AND_COOKIE
    request = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, _ALL_STATES) + socket_id
    header = struct.pack("=IHHII", _HEADER_BYTES + len(request), _BY_FAMILY, _REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as asked:
        asked.settimeout(_ANSWER_S)
        asked.send(header + request)
        answer = asked.recv(_MOST_BYTES)
    (kind,) = struct.unpack_from("=H", answer, 4)
    return str(struct.unpack_from("=I", answer, _INODE_AT)[0]) if kind == _BY_FAMILY else ""


def made_by(pids: Callable[[], Iterable[int]]) -> Callable[[Collection[Connection]], set[Connection]]:
    """Return what says which connections are those of the processes that run at the time."""

    def of_these(connections: Collection[Connection]) -> set[Connection]:
        inodes = {inode for pid in pids() for inode in inodes_of(pid)}
        return {connection for connection in connections if inodes and inode_of(connection) in inodes}

    return of_these


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
