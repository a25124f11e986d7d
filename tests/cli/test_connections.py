"""The connections of the demo's client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from sharedroutes.cli.demo.sender import Connections

TIMEOUT_S: Final = 10.0


@contextmanager
def connections() -> Iterator[Connections]:
    connections = Connections(TIMEOUT_S)
    try:
        yield connections
    finally:
        connections.close()


def sent(connections: Connections, server: socket.socket, message_id: int) -> threading.Thread:
    """Begin to send a message to a listening socket in another thread."""
    host, port = server.getsockname()
    thread = threading.Thread(target=connections.send, args=(f"{host}:{port}", message_id, "body"))
    thread.start()
    return thread


def answer(connection: socket.socket, message_id: int) -> None:
    with connection.makefile("rb") as lines:
        assert lines.readline() == b"%d body\n" % message_id
    connection.sendall(b"%d\n" % message_id)


def test_messages_to_one_address_share_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, connections() as ours:
        thread = sent(ours, server, 1)
        connection, _ = server.accept()
        with connection:
            answer(connection, 1)
            thread.join()
            thread = sent(ours, server, 2)
            answer(connection, 2)
            thread.join()


def test_a_connection_that_the_broker_closed_while_it_was_idle_is_renewed_without_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, connections() as ours:
        for message_id in (1, 2):
            thread = sent(ours, server, message_id)
            with server.accept()[0] as connection:
                answer(connection, message_id)
                thread.join()


def test_a_connection_that_ends_without_an_answer_is_a_failure_and_is_not_used_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, connections() as ours:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def hang_up() -> None:
            with server.accept()[0] as connection, connection.makefile("rb") as lines:
                lines.readline()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(EOFError, match="no acknowledgement of message 1"):
            ours.send(address, 1, "body")
        thread.join()
        retried = sent(ours, server, 2)
        with server.accept()[0] as connection:
            answer(connection, 2)
            retried.join()
