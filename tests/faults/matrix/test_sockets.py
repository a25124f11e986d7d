"""The connections of a process are told from those of others: only they suffer a fault that concerns it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.faults.matrix.sockets import made_by, usage_of
from tests.proxy import FaultyProxy

CHILD = """
import socket, sys
made = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print(made.recv(9))
"""


@pytest.fixture
def echo() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.settimeout(10)
        yield listening


def test_a_connection_is_found_by_who_made_it(echo: socket.socket) -> None:
    port = echo.getsockname()[1]
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(port)], stdout=subprocess.PIPE)
    with socket.create_connection(("127.0.0.1", port)) as ours, child:
        made = [echo.accept()[0], echo.accept()[0]]
        ports = {connection.getpeername()[1] for connection in made}
        mine = ours.getsockname()[1]
        both = [(found, port) for found in ports]
        assert made_by(lambda: [os.getpid()])(both) == {(mine, port)}
        assert made_by(lambda: [child.pid])(both) == {*both} - {(mine, port)}
        assert made_by(list)(both) == set()
        for connection in made:
            connection.sendall(b"bye")
            connection.close()


def test_a_fault_of_others_concerns_nobody_else(echo: socket.socket) -> None:
    with FaultyProxy(echo.getsockname()[1]) as proxy:
        host, _, port = proxy.address.rpartition(":")
        at = host, int(port)
        with proxy.concerning(made_by(lambda: [1])), proxy.refusing(), _connected(at) as ours:
            server, _ = echo.accept()
            ours.sendall(b"hello")
            with server:
                assert server.recv(9) == b"hello"
        with proxy.concerning(made_by(lambda: [os.getpid()])), proxy.refusing(), _connected(at) as ours:
            assert ours.recv(9) == b""


def _connected(at: tuple[str, int]) -> socket.socket:
    return socket.create_connection(at, timeout=10)


def test_usage_is_that_of_the_process() -> None:
    before = usage_of(os.getpid())
    assert before is not None
    with closing(socket.socket()):
        after = usage_of(os.getpid())
    assert after is not None
    assert (after[2] - before[2], after[3] - before[3]) == (1, 1)
    assert usage_of(2**22 + 1) is None
