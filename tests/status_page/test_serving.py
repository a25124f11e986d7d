"""How the page is served: the registry is read once for all who look, and nobody can hold up the process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Any

import pytest

from sharedroutes.daemon.http_server import HttpServer, Request, Response
from sharedroutes.daemon.status_page import serving
from sharedroutes.daemon.status_page.model import Process
from sharedroutes.daemon.status_page.serving import MOST_PARTS, Looks, StatusPage
from sharedroutes.registry import StoreUnavailable
from sharedroutes.registry.plans.overview import Overview
from tests.broker_agent.test_serving import LOOPBACK
from tests.status_page.views import overview_of, process
from tests.support import await_until

SMALL = overview_of(["broker-a"], ["orders"])


class Registry:
    """A registry whose reads are counted, and can be held up or made to fail."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self, part: str) -> Overview:
        self.reads.append(part)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return SMALL


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every look read the registry, and events follow each other without a pause."""
    monkeypatch.setattr(serving, "LOOK_S", 0.0)
    monkeypatch.setattr(serving, "_SHARE", 0)


def page(registry: Registry, said: Callable[[], Process] = process) -> StatusPage:
    async def asked() -> Process:
        return said()

    return StatusPage(asked, registry.read, extra="agent")


def get(path: str, method: str = "GET", **query: str) -> Request:
    return Request(method=method, path=path, query=query)


async def test_all_who_look_at_once_share_one_look() -> None:
    registry = Registry()
    registry.gate.clear()
    looks = Looks(registry.read)
    waiting = [asyncio.create_task(looks.look("")) for _ in range(20)]
    await await_until(lambda: registry.reads, description="it is read")
    registry.gate.set()
    assert all([(await one).found is SMALL for one in waiting])
    assert (await looks.look("")).found is SMALL
    assert registry.reads == [""]


async def test_who_gives_up_while_it_is_read_leaves_it_to_the_next() -> None:
    registry = Registry()
    registry.gate.clear()
    looks = Looks(registry.read)
    first, second = (asyncio.create_task(looks.look("")) for _ in range(2))
    await await_until(lambda: registry.reads, description="it is read")
    first.cancel()
    registry.gate.set()
    assert (await second).found is SMALL
    assert len(registry.reads) == 2


async def test_each_filter_is_looked_at_by_itself_and_only_some_are_remembered() -> None:
    registry = Registry()
    looks = Looks(registry.read)
    for number in range(3 * MOST_PARTS):
        await looks.look(str(number))
    await looks.look(str(2 * MOST_PARTS))
    assert len(registry.reads) == 3 * MOST_PARTS
    await looks.look(str(2 * MOST_PARTS - 1))  # the newest of those that are forgotten
    assert len(registry.reads) == 3 * MOST_PARTS + 1


async def test_a_store_that_is_away_leaves_what_it_said_before(at_once: None) -> None:
    registry = Registry()
    looks = Looks(registry.read)
    await looks.look("")
    registry.error = StoreUnavailable("it is away")
    found = await looks.look("")
    assert (found.found, found.error) == (SMALL, "it is away")
    registry.error = None
    assert (await looks.look("")).error == ""


async def test_a_store_that_hangs_holds_up_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_READ_S", 0.05)
    registry = Registry()
    registry.gate.clear()
    answer = await page(registry).answer(get("/"))
    assert answer.status is HTTPStatus.OK
    assert b"the store did not answer within 0.05 s" in answer.body


async def test_the_page_is_a_document_with_a_policy() -> None:
    registry = Registry()
    answer = await page(registry).answer(get("/", q=" ord "))
    assert (answer.status, answer.content_type) == (HTTPStatus.OK, "text/html; charset=utf-8")
    assert "default-src 'none'" in dict(answer.headers)["Content-Security-Policy"]
    assert registry.reads == ["ord"]
    assert b'value="ord"' in answer.body


async def test_a_filter_has_a_bound() -> None:
    registry = Registry()
    await page(registry).answer(get("/", q="x" * 5_000))
    assert registry.reads == ["x" * 255]


async def test_other_methods_are_refused() -> None:
    answer = await page(Registry()).answer(get("/", "POST"))
    assert answer.status is HTTPStatus.METHOD_NOT_ALLOWED


async def test_without_jinja2_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> Any:
        raise ModuleNotFoundError("jinja2")

    monkeypatch.setattr(serving, "_renderer", lacking)
    monkeypatch.setattr("sharedroutes.extras.find_spec", lambda name: None if name == "jinja2" else name)
    answer = await page(Registry()).answer(get("/"))
    assert answer.status is HTTPStatus.NOT_IMPLEMENTED
    assert b"/ needs jinja2: run" in answer.body


async def test_events_bring_everything_first_and_then_what_has_changed(at_once: None) -> None:
    uptimes = iter((1.0, 1.0, 90.0))
    busy = iter((False, False, True))

    def said() -> Process:
        unready = ("it is about to end",) if next(busy) else ()
        return process(uptime_s=next(uptimes), unready=unready)

    answer = await page(Registry(), said).answer(get("/events"))
    assert answer.content_type == "text/event-stream"
    assert answer.stream is not None
    async with aclosing(answer.stream) as events:
        assert await anext(events) == b"retry: 3000\n\n"
        first = event(await anext(events))
        assert first.keys() == {"glance", "faults", "brokers", "topics", "changes", "feed"}
        assert await anext(events) == b":\n\n"
        assert event(await anext(events)).keys() == {"glance", "faults"}


def event(piece: bytes) -> dict[str, str]:
    assert piece.startswith(b"data: ")
    assert piece.endswith(b"\n\n")
    assert piece.count(b"\n") == 2
    return dict(json.loads(piece.removeprefix(b"data: ")))


async def test_a_stream_of_events_ends_by_itself(at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "STREAM_S", 0.0)
    answer = await page(Registry()).answer(get("/events"))
    assert answer.stream is not None
    assert [piece async for piece in answer.stream] == [b"retry: 3000\n\n"]


# --- streams over HTTP --------------------------------------------------------------------------------------


class Streams:
    """A handler of streams that go on until the test lets them end; other pages say `here`."""

    def __init__(self, piece: bytes = b"x") -> None:
        self.piece = piece
        self.open = 0
        self.sent = 0
        self.more = asyncio.Event()
        self.end = asyncio.Event()

    async def answer(self, request: Request) -> Response:
        if request.path != "/events":
            return Response.text(HTTPStatus.OK, "here")
        return Response(stream=self._pieces())

    async def _pieces(self) -> AsyncGenerator[bytes]:
        self.open += 1
        try:
            yield self.piece
            self.sent += 1
            while not self.end.is_set():
                await self.more.wait()
                yield self.piece
                self.sent += 1
        finally:
            self.open -= 1


@asynccontextmanager
async def served(
    answer: Callable[[Request], Awaitable[Response]], **limits: Any
) -> AsyncIterator[HttpServer]:
    server = HttpServer(answer, **limits)
    await server.start(LOOPBACK, 0)
    try:
        yield server
    finally:
        await server.aclose()


@asynccontextmanager
async def asked(
    server: HttpServer, path: str = "/events", method: str = "GET"
) -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection(LOOPBACK, server.port, limit=2**10)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    try:
        yield reader
    finally:
        writer.transport.abort()


async def test_a_stream_outlives_the_bound_of_a_request_and_ends_whole() -> None:
    streams = Streams()
    async with served(streams.answer, request_s=0.2) as server, asked(server) as reader:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head.lower()
        assert await reader.readuntil(b"x\r\n") == b"1\r\nx\r\n"
        _, pending = await asyncio.wait((reading := asyncio.create_task(reader.read(1)),), timeout=0.5)
        assert reading in pending  # silent for longer than a request may take, and still open
        streams.end.set()
        streams.more.set()
        assert (await reading + await reader.read()).endswith(b"1\r\nx\r\n0\r\n\r\n")
    assert streams.open == 0


async def test_there_are_only_so_many_streams_and_room_for_pages_beside_them() -> None:
    streams = Streams()
    async with served(streams.answer, max_streams=2) as server:
        async with asked(server), asked(server):
            await await_until(lambda: streams.open == 2, description="two streams are open")
            async with asked(server) as third:
                assert b"503 Service Unavailable" in await third.read()
            async with asked(server, "/healthz") as other:
                assert (await other.read()).endswith(b"here\n")
        streams.end.set()
        streams.more.set()
        await await_until(lambda: not streams.open, description="they are closed")
        async with asked(server) as again:
            assert b"200 OK" in await again.readuntil(b"\r\n\r\n")


async def test_who_does_not_read_is_cut_off() -> None:
    streams = Streams(b"x" * 2**18)
    streams.more.set()
    async with served(streams.answer, request_s=0.3) as server, asked(server):
        await await_until(lambda: streams.sent > 0, description="something was sent")
        await await_until(lambda: not streams.open, description="the stream is closed")


async def test_a_question_for_the_head_of_a_stream_opens_none() -> None:
    streams = Streams()
    async with served(streams.answer) as server, asked(server, method="HEAD") as reader:
        assert b"200 OK" in await reader.read()
    assert streams.sent == 0


async def test_the_end_of_the_server_ends_its_streams() -> None:
    streams = Streams()
    async with served(streams.answer) as server, asked(server) as reader:
        await reader.readuntil(b"x\r\n")
        await server.aclose()
        assert streams.open == 0
