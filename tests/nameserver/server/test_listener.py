"""The server on real sockets, on both event loops."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Any

import pytest

from sharedroutes.remoting import ResponseCode, encode, request
from tests.nameserver.server.rig import ROUTE, Answers, Caller, Later, answered, both_loops, serving
from tests.support import await_until

__all__ = ["both_loops"]


async def test_a_request_is_answered_and_its_connection_named() -> None:
    async with serving() as front, Caller.of(front.port) as caller:
        answer = await caller.asks(7, ext_fields={"topic": "orders"})
        assert (answer.code, answer.opaque) == (ResponseCode.SUCCESS, 7)
        (connection,) = front.service.connections
        assert connection.peer == caller.address
        assert front.counters.connections == front.counters.accepted == 1


async def test_a_byte_at_a_time_is_a_request_too() -> None:
    async with serving() as front, Caller.of(front.port) as caller:
        caller.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in encode(request(ROUTE, opaque=3)):
            await caller.sends(bytes((byte,)))
            await asyncio.sleep(0)
        assert (await caller.answer()).opaque == 3


async def test_connections_do_not_get_each_others_answers() -> None:
    async with serving() as front, Caller.of(front.port) as first, Caller.of(front.port) as second:
        callers = (first, second) * 50
        for number, caller in enumerate(callers):
            await caller.sends(encode(request(ROUTE, opaque=number)))
        assert [(await caller.answer()).opaque for caller in callers] == list(range(100))


async def test_a_large_request_and_a_large_answer() -> None:
    body = bytes(range(256)) * 40_000  # 10 MB
    service = Answers(lambda asked: answered(asked, asked.body))
    async with serving(service) as front, Caller.of(front.port) as caller:
        assert (await caller.asks(body=body)).body == body


async def test_the_end_of_a_connection_is_told() -> None:
    async with serving() as front:
        async with Caller.of(front.port) as caller:
            await caller.asks()
            number = front.service.connections[0].number
        await await_until(lambda: front.service.ended == [number], description="the end is told")
        assert front.counters.connections == 0


async def test_a_peer_that_is_closed_by_the_service_has_its_answers_first() -> None:
    service = Answers()

    def answer(asked: Any) -> bytes:
        service.connections[-1].send(answered(asked))
        service.connections[-1].close("it has had enough")
        return b""

    service.answer_to = answer
    async with serving(service) as front, Caller.of(front.port) as caller:
        assert (await caller.asks(5)).opaque == 5
        assert await caller.is_closed()


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x08\0\0\0\x04{]{]", b"\0\0\0\0"])
async def test_what_is_no_frame_is_closed_without_an_answer(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as front, Caller.of(front.port) as caller, Caller.of(front.port) as other:
        await caller.sends(data)
        assert await caller.is_closed()
        assert (front.counters.decode_errors, front.endings()) == (1, {"bad_frame": 1})
        assert [caller.address in record.getMessage() for record in caplog.records] == [True]
        assert (await other.asks(2)).opaque == 2


async def test_a_peer_that_leaves_without_a_word_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as front:
        async with Caller.of(front.port):
            await await_until(lambda: front.counters.connections, description="it is taken in")
        await await_until(lambda: not front.counters.connections, description="it is gone")
        assert (front.endings(), front.service.ended, caplog.records) == ({}, [], [])


async def test_a_peer_that_sends_nothing_is_closed() -> None:
    async with serving(first_byte_s=0.05) as front, Caller.of(front.port) as caller:
        assert await caller.is_closed()
        assert front.endings() == {"silent": 1}


async def test_no_more_connections_than_there_may_be(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(connections=2) as front:
        async with Caller.of(front.port) as first, Caller.of(front.port) as second:
            await first.asks()
            await second.asks()
            for _ in range(3):
                async with Caller.of(front.port) as third:
                    assert await third.is_closed()
            assert (front.endings(), front.counters.connections) == ({"too_many": 3}, 2)
            (record,) = caplog.records  # and not one for each of them
            assert "there are 2 connections already" in record.getMessage()
        await await_until(lambda: not front.counters.connections, description="they are gone")
        async with Caller.of(front.port) as third:
            assert (await third.asks(1)).opaque == 1


async def test_no_more_connections_of_one_host_than_there_may_be() -> None:
    async with serving(connections_per_host=1) as front, Caller.of(front.port) as first:
        await first.asks()
        async with Caller.of(front.port) as second:
            assert await second.is_closed()
        async with Caller.of(front.port, local_addr=("127.0.0.2", 0)) as elsewhere:
            assert (await elsewhere.asks(1)).opaque == 1
        assert front.endings() == {"too_many_of_host": 1}


async def test_an_error_of_accept_is_waited_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sharedroutes.nameserver.server.listener._ACCEPT_PAUSE_S", 0.02)
    errors = [OSError(errno.EMFILE, "Too many open files")] * 3 + [ConnectionAbortedError(errno.ECONNABORTED)]
    tried: list[float] = []
    loop = asyncio.get_running_loop()

    class Lacking:
        """The loop, where descriptors are lacking at first."""

        def __getattr__(self, name: str) -> Any:
            return getattr(loop, name)

        async def sock_accept(self, listening: socket.socket) -> Any:
            tried.append(loop.time())
            if errors:
                raise errors.pop(0)
            return await loop.sock_accept(listening)

    monkeypatch.setattr("asyncio.get_running_loop", Lacking)
    async with serving() as front, Caller.of(front.port) as caller:
        assert (await caller.asks(1)).opaque == 1
    assert tried[3] - tried[0] >= 3 * 0.019
    assert [record.getMessage() for record in caplog.records] == [
        "no connection can be taken: Too many open files"
    ]


async def test_a_peer_that_does_not_read_its_answers_is_not_read_from_and_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sharedroutes.nameserver.server.listener._CHECK_S", 0.02)
    service = Answers(lambda asked: answered(asked, bytes(2**20)))
    async with serving(service, unread_s=0.1) as front, Caller.of(front.port) as other:
        _reader, writer = await asyncio.open_connection("127.0.0.1", front.port, limit=1)
        try:
            writer.write(b"".join(encode(request(ROUTE, opaque=number)) for number in range(1_000)))
            await await_until(lambda: front.endings() == {"unread": 1}, description="it is closed")
        finally:
            writer.transport.abort()
        assert len(service.asked) < 50  # of 1,000, each with a megabyte
        await await_until(lambda: not front.counters.unread_bytes, description="all is freed")
        assert (await other.asks(1)).opaque == 1


async def test_a_drain_answers_what_was_asked_and_tells_no_end() -> None:
    later = Later()
    service = Answers(later)
    async with serving(service) as front, Caller.of(front.port) as busy, Caller.of(front.port) as idle:
        await busy.sends(encode(request(ROUTE, opaque=1)) + encode(request(ROUTE, opaque=2)))
        await idle.sends(encode(request(ROUTE, opaque=9, oneway=True)))
        await await_until(lambda: len(later.waiting) == 3, description="all are asked")
        await later.give(9)
        stopping = asyncio.create_task(front.server.stop(5.0))
        assert await idle.is_closed()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", front.port)
        await later.give(2)
        await later.give(1)
        assert [(await busy.answer()).opaque for _ in range(2)] == [2, 1]
        assert await busy.is_closed()
        await stopping
        assert (service.ended, front.counters.connections) == ([], 0)


async def test_a_drain_ends_in_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "sharedroutes")
    later = Later()
    service = Answers(later)
    async with serving(service) as front, Caller.of(front.port) as caller, Caller.of(front.port) as silent:
        await caller.sends(encode(request(ROUTE, opaque=1)))
        await await_until(lambda: later.waiting, description="it is asked")
        async with asyncio.timeout(5.0):
            await front.server.stop(0.05)
        assert later.waiting[1].cancelled()
        assert await caller.is_closed()
        assert await silent.is_closed()
        assert (service.ended, front.counters.in_flight, caplog.records) == ([], 0, [])
