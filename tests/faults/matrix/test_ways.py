"""The way to a broker or a front: refused while nobody listens there, and cut for one process alone."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.faults.matrix.sockets import made_by
from tests.ports import held_port
from tests.proxy import FaultyProxy
from tests.support import wait_until


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as port:
        yield port


def _listening(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def _is_refused(proxy: FaultyProxy) -> bool:
    host, _, port = proxy.address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except ConnectionRefusedError:
        return True
    return False


def test_who_does_not_listen_yet_refuses_and_so_does_who_has_ended(port: int) -> None:
    with FaultyProxy(port, mirrors=True) as proxy:
        assert _is_refused(proxy)
        for _ in range(2):
            with closing(_listening(port)):
                wait_until(lambda: not _is_refused(proxy), timeout_s=10, description="it is there")
            wait_until(lambda: _is_refused(proxy), timeout_s=10, description="it is gone")


def test_a_way_that_is_cut_for_another_process_leads_there(port: int) -> None:
    with FaultyProxy(port, mirrors=True) as proxy, closing(_listening(port)):
        wait_until(lambda: not _is_refused(proxy), timeout_s=10, description="it is there")
        host, _, at = proxy.address.rpartition(":")
        with proxy.concerning(made_by(lambda: [1])), proxy.refusing():
            assert not _is_cut((host, int(at)))
        with proxy.concerning(made_by(lambda: [os.getpid()])), proxy.refusing():
            assert _is_cut((host, int(at)))


def _is_cut(address: tuple[str, int]) -> bool:
    with socket.create_connection(address, timeout=0.5) as ours:
        try:
            return ours.recv(9) == b""
        except TimeoutError:
            return False
