"""The sender of the demo, and its connections."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from demo.scenario import TOPIC, Settings
from demo.sender import Connections, Sender
from sharedroutes.client import RouteClient
from sharedroutes.registry import Broker, RouteStore, TopicConfig
from tests.ports import free_port
from tests.support import wait_until

QUICK = Settings(messages_per_s=1_000, send_timeout_s=5.0)


@pytest.fixture
def client(redis_url: str) -> Iterator[RouteClient]:
    with RouteClient.from_url(redis_url) as client:
        yield client


def register(url: str, port: int) -> None:
    with RouteStore.from_url(url) as store:
        store.register(Broker("broker-a", f"127.0.0.1:{port}"), [TopicConfig(TOPIC)])


@contextmanager
def answering(answer: Callable[[bytes], bytes]) -> Iterator[int]:
    """Answer every line that comes; give the port."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                self.wfile.write(answer(line))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def first_message(client: RouteClient) -> Sender:
    """Return a sender that has ended with its first message or a few more."""
    with Sender(client, QUICK) as sender:
        wait_until(lambda: sender.messages, timeout_s=20, description="a message has been tried")
    sender.check()
    return sender


def test_a_message_that_no_broker_takes_is_recorded_with_the_reason(
    client: RouteClient, redis_url: str
) -> None:
    register(redis_url, free_port())
    sender = first_message(client)
    assert sender.messages[0].acknowledged_by == ""
    assert "gave up after 3 attempts" in sender.messages[0].problem
    tries = [one for one in sender.tries if one.message_id == 0]
    assert [(one.number, one.failed) for one in tries] == [(1, True), (2, True), (3, True)]
    assert not sender.has_used("broker-a", 0.0)


def test_a_message_for_which_there_is_no_route_is_recorded_with_the_reason(client: RouteClient) -> None:
    sender = first_message(client)
    assert sender.messages[0].acknowledged_by == ""
    assert "no route" in sender.messages[0].problem
    assert sender.tries == []


def test_an_answer_that_is_not_the_message_s_id_is_no_acknowledgement(
    client: RouteClient, redis_url: str
) -> None:
    with answering(lambda _: b"12345\n") as port:
        register(redis_url, port)
        sender = first_message(client)
    assert sender.messages[0].acknowledged_by == ""
    assert "no acknowledgement" in sender.messages[0].problem


def test_an_acknowledged_message_names_its_broker(client: RouteClient, redis_url: str) -> None:
    with answering(lambda line: line.partition(b" ")[0] + b"\n") as port:
        register(redis_url, port)
        sender = first_message(client)
    assert sender.messages[0].acknowledged_by == "broker-a"
    assert sender.messages[0].problem == ""
    assert sender.has_used("broker-a", sender.tries[0].ended_s)
    assert not sender.has_used("broker-a", sender.tries[-1].ended_s + 1)


def test_a_fault_in_the_sending_thread_is_raised_by_check(
    client: RouteClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(client, "attempts", fail)
    with Sender(client, QUICK) as sender:
        pass
    with pytest.raises(ZeroDivisionError):
        sender.check()


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
