"""HTTP of the agent: a server that nobody can hang, pages that tell the truth, controls for its host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from sharedroutes.broker_agent.planner.status import AgentStatus, Phase
from sharedroutes.broker_agent.process.metrics import METRICS
from sharedroutes.broker_agent.process.pages import Pages
from sharedroutes.broker_agent.process.process_status import ProcessStatus
from sharedroutes.daemon.http_server import (
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    AddressTaken,
    HttpServer,
    Request,
    Response,
    _is_loopback,
)
from sharedroutes.registry import Broker, NotFound
from tests.support import await_until, examples, run_python

LOOPBACK = "127.0.0.1"
SERVING = AgentStatus(
    name="broker-a:0",
    broker=Broker("broker-a", "10.0.0.1:10911"),
    phase=Phase.SERVING,
    phase_s=3.0,
    epoch=7,
    topics=2,
    in_step=True,
    broker_up=True,
    last_heartbeat_s=0.5,
    registrations=1,
    heartbeats=9,
    source="files",
)


class Stage:
    """A process that says what the test wants, and notes what it is told."""

    def __init__(self, *brokers: AgentStatus) -> None:
        self.brokers = brokers or (SERVING,)
        self.awaited: tuple[str, ...] = ()
        self.told: list[tuple[Any, ...]] = []

    def status(self) -> ProcessStatus:
        return ProcessStatus(
            version="1.2",
            uptime_s=61.0,
            store="redis://:***@h/0",
            namespace="n",
            clock_problem=None,
            brokers=self.brokers,
            awaited=self.awaited,
        )

    def drain(self, broker: str = "", wait_s: float | None = None) -> Sequence[str]:
        return self._told("drain", broker, wait_s)

    def pause(self, broker: str = "") -> Sequence[str]:
        return self._told("pause", broker)

    def resume(self, broker: str = "") -> Sequence[str]:
        return self._told("resume", broker)

    async def reload(self) -> Sequence[str]:
        self._told("reload", "")
        return ["x needs a restart"]

    def _told(self, *what: Any) -> Sequence[str]:
        if what[1] not in ("", "broker-a"):
            raise NotFound(f"broker: {what[1]!r} is not here")
        self.told.append(what)
        return ["broker-a:0"]


@asynccontextmanager
async def serving(handler: Any, **limits: Any) -> AsyncIterator[HttpServer]:
    server = HttpServer(handler, **limits)
    await server.start(LOOPBACK, 0)
    try:
        yield server
    finally:
        await server.aclose()


async def hello(request: Request) -> Response:
    return Response.text(
        HTTPStatus.OK, f"{request.method} {request.path} {dict(request.query)} {request.local}"
    )


async def exchange(server: HttpServer, *pieces: bytes, end: bool = False) -> bytes:
    """Send the pieces one after the other; return all that comes back until the server hangs up."""
    reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if end:
            writer.write_eof()
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_request_is_answered_and_the_connection_ends() -> None:
    async with serving(hello) as server:
        answer = await exchange(server, b"GET /a%20b?x=1&y= HTTP/1.1\r\nHost: h\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close" in head.lower()
    assert body == b"GET /a%20b {'x': '1', 'y': ''} True\n"


async def test_a_request_may_come_in_pieces_and_by_http_1_0() -> None:
    async with serving(hello) as server:
        assert b"200 OK" in await exchange(server, b"GE", b"T / HTTP/1.1\r\nHo", b"st: h\r\n", b"\r\n")
        assert b"200 OK" in await exchange(server, b"GET / HTTP/1.0\r\n\r\n")


async def test_head_is_answered_without_the_body() -> None:
    async with serving(hello) as server:
        answer = await exchange(server, b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"content-length: 15" in answer.lower()


async def test_a_body_is_read_and_left_aside() -> None:
    async with serving(hello) as server:
        head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        writer.write(head)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(b"body")
        assert b"200 OK" in await reader.read()
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", b" 400 "),
        (b"GET / HTTP/1.1\r\n\r\n", b" 400 "),  # without a host
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * MAX_HEADER_BYTES * 2 + b"\r\n\r\n", b" 431 "),
        (b"GET http://[ HTTP/1.1\r\nHost: h\r\n\r\n", b" 400 "),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999\r\n\r\n" + b"x" * MAX_BODY_BYTES * 2, b" 413 "),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", b" 501 "),
    ],
)  # fmt: skip
async def test_what_cannot_be_answered_is_refused(request_: bytes, status: bytes) -> None:
    async with serving(hello) as server:
        assert status in (await exchange(server, request_)).split(b"\r\n")[0]
        assert b"200 OK" in await exchange(server, b"GET / HTTP/1.0\r\n\r\n")


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=200), max_size=4))
def test_no_bytes_make_the_server_fail(
    runner: asyncio.Runner, caplog: pytest.LogCaptureFixture, pieces: list[bytes]
) -> None:
    async def send() -> bytes:
        async with serving(hello) as server:
            with suppress(ConnectionError):  # it may hang up before all was sent
                await exchange(server, *pieces, end=True)
            return await exchange(server, b"GET / HTTP/1.0\r\n\r\n")

    assert b"200 OK" in runner.run(send())
    assert caplog.records == []


async def test_one_that_is_too_slow_is_hung_up_on() -> None:
    async with serving(hello, request_s=0.05) as server:
        assert await exchange(server, b"GET / HTTP/1.1\r\n") == b""


def _has(server: HttpServer, connections: int) -> bool:
    return len(server._connections) == connections


async def test_the_oldest_silent_connection_makes_room_for_one_that_asks() -> None:
    async with serving(hello, max_connections=2) as server:
        ends = []
        for number in (1, 2):
            ends.append(await asyncio.open_connection(LOOPBACK, server.port))
            await await_until(partial(_has, server, number), description="it is there")
        assert b"200 OK" in await exchange(server, b"GET / HTTP/1.0\r\n\r\n")
        (oldest, _), (younger, writer) = ends
        assert await oldest.read() == b""
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert b"200 OK" in await younger.read()
        for _, writer in ends:
            writer.close()


async def test_a_crowd_of_silent_connections_keeps_nobody_out() -> None:
    async with serving(hello) as server:
        crowd = [await asyncio.open_connection(LOOPBACK, server.port) for _ in range(100)]
        for _ in range(3):
            assert b"200 OK" in await exchange(server, b"GET / HTTP/1.0\r\n\r\n")
        for _, writer in crowd:
            writer.close()


async def test_those_who_are_being_answered_are_not_hung_up_on_and_more_of_them_are_refused() -> None:
    go_on, asked = asyncio.Event(), []

    async def slow(request: Request) -> Response:
        asked.append(request)
        await go_on.wait()
        return await hello(request)

    async with serving(slow, max_connections=2) as server:
        get = b"GET / HTTP/1.0\r\n\r\n"
        first = [asyncio.create_task(exchange(server, get)) for _ in range(2)]
        await await_until(lambda: len(asked) == 2, description="both have asked")
        assert b" 503 " in await exchange(server, get)
        go_on.set()
        assert [b"200 OK" in await answer for answer in first] == [True, True]
        assert b"200 OK" in await exchange(server, get)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - as an address of somebody
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_only_the_loopback_interface_is_local(host: str, *, local: bool) -> None:
    assert _is_loopback(host) is local


async def test_a_fault_of_a_page_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: Request) -> Response:
        raise ValueError("a bug")

    async with serving(broken) as server:
        assert b" 500 " in await exchange(server, b"GET /x HTTP/1.0\r\n\r\n")
    assert "failed to answer GET /x" in caplog.text
    assert "a bug" in caplog.text


async def test_the_end_does_not_wait_for_those_who_are_connected() -> None:
    async with serving(hello) as server:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        await await_until(lambda: server._connections, description="it is there")
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(LOOPBACK, server.port)


async def test_an_address_that_is_taken_is_named() -> None:
    async with serving(hello) as server:
        with pytest.raises(
            AddressTaken, match=rf"HTTP cannot be served at 127.0.0.1:{server.port}: .*in use"
        ):
            await HttpServer(hello).start(LOOPBACK, server.port)


async def test_a_host_that_no_name_can_be_is_named() -> None:
    with pytest.raises(AddressTaken, match=r"HTTP cannot be served at a\.\.b:0: .*label"):
        await HttpServer(hello).start("a..b", 0)


async def answered(
    stage: Stage, method: str, path: str, *, control: str = "local", local: bool = True, **rest: Any
) -> Response:
    pages = Pages(stage, lambda: None, control=control)
    return await pages.answer(Request(method=method, path=path, local=local, **rest))


async def test_a_process_that_works_is_healthy_and_ready() -> None:
    for path in ("/healthz", "/readyz"):
        found = await answered(Stage(), "GET", path)
        assert (found.status, found.body) == (HTTPStatus.OK, b"ok\n")


@pytest.mark.parametrize("phase", Phase)
async def test_a_broker_is_ready_when_it_is_served_or_its_agent_is_on_standby(phase: Phase) -> None:
    agent = replace(SERVING, phase=phase, trouble="the store hangs", why_gone="refused")
    found = await answered(Stage(SERVING, agent), "GET", "/readyz")
    assert (await answered(Stage(agent), "GET", "/healthz")).status == HTTPStatus.OK
    if phase in (Phase.SERVING, Phase.HANDING_OVER, Phase.STANDBY):
        assert found.status == HTTPStatus.OK
    else:
        why = "refused" if phase is Phase.BROKER_GONE else "the store hangs"
        assert found.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert found.body.decode() == f"broker-a:0: {phase}: {why}\n"


async def test_a_broker_that_is_awaited_makes_the_process_unready_and_is_said_everywhere() -> None:
    stage = Stage()
    stage.awaited = ("b.conf: cannot be read: waiting for it",)
    found = await answered(stage, "GET", "/readyz")
    assert (found.status, found.body) == (
        HTTPStatus.SERVICE_UNAVAILABLE,
        b"b.conf: cannot be read: waiting for it\n",
    )
    assert (await answered(stage, "GET", "/healthz")).status == HTTPStatus.OK
    assert json.loads((await answered(stage, "GET", "/status")).body)["awaited"] == list(stage.awaited)
    assert samples((await answered(stage, "GET", "/metrics")).body)["sharedroutes_agent_awaited",] == 1


async def test_an_agent_that_is_stuck_makes_the_process_unhealthy() -> None:
    found = await answered(Stage(SERVING, replace(SERVING, stuck="broker-a:0: stuck")), "GET", "/healthz")
    assert (found.status, found.body) == (HTTPStatus.SERVICE_UNAVAILABLE, b"broker-a:0: stuck\n")


async def test_the_status_is_json_with_all_that_an_agent_says() -> None:
    found = await answered(Stage(), "GET", "/status")
    assert found.content_type == "application/json"
    said = json.loads(found.body)
    (broker,) = said.pop("brokers")
    assert said == {
        "version": "1.2",
        "uptime_s": 61.0,
        "healthy": True,
        "ready": True,
        "store": {"url": "redis://:***@h/0", "namespace": "n"},
        "sweep": {"clock_problem": None},
        "awaited": [],
    }
    assert set(AgentStatus.__dataclass_fields__) <= set(broker)
    assert (broker["phase"], broker["epoch"], broker["role"], broker["source"]) == (
        "serving",
        7,
        "master",
        "files",
    )
    assert broker["broker"]["address"] == "10.0.0.1:10911"


@pytest.mark.parametrize(
    ("broker", "role"),
    [(None, "unknown"), (Broker("b", "h:1"), "master"), (Broker("b", "h:1", 2), "slave")],
)
def test_the_role_is_that_of_the_broker_id(broker: Broker | None, role: str) -> None:
    assert replace(SERVING, broker=broker).role == role


def samples(page: bytes) -> dict[tuple[str, ...], float]:
    """Return the values by name and labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


async def test_the_metrics_say_what_the_status_says() -> None:
    stranger = replace(SERVING, name="broker-b", broker=None, phase=Phase.BROKER_GONE, broker_up=False)
    slave = replace(SERVING, name="broker-c:1", master_address="m:1", master_ha_address="m:2")
    found = await answered(Stage(SERVING, stranger, slave), "GET", "/metrics")
    values = samples(found.body)
    assert found.content_type.startswith("text/plain")
    assert values["sharedroutes_agent_info", "1.2"] == 1
    assert values["sharedroutes_agent_uptime_seconds",] == 61
    assert values["sharedroutes_agent_heartbeats_total", "broker-a:0"] == 9
    assert values["sharedroutes_agent_broker_up", "broker-b"] == 0
    assert values["sharedroutes_agent_phase", "broker-b", "broker-gone"] == 1
    assert values["sharedroutes_agent_phase", "broker-b", "serving"] == 0
    assert values["sharedroutes_agent_master_known", "broker-c:1"] == 1
    assert {key[1:]: value for key, value in values.items() if key[0] == "sharedroutes_agent_master"} == {
        ("m:1", "broker-c:1", "m:2"): 1
    }
    assert values["process_resident_memory_bytes",] > 0
    assert {f"sharedroutes_agent_{family.name}" for family in METRICS} <= {name for name, *_ in values}


async def test_what_is_not_known_is_no_metric() -> None:
    starting = replace(SERVING, phase=Phase.STARTING, broker_up=None, last_heartbeat_s=None)
    values = samples((await answered(Stage(starting), "GET", "/metrics")).body)
    assert not {name for name, *_ in values} & {
        "sharedroutes_agent_broker_up",
        "sharedroutes_agent_last_heartbeat_age_seconds",
    }


async def test_metrics_are_written_as_openmetrics_for_those_who_ask() -> None:
    headers = {"accept": "application/openmetrics-text; version=1.0.0"}
    found = await answered(Stage(), "GET", "/metrics", headers=headers)
    assert found.content_type.startswith("application/openmetrics-text")
    assert found.body.endswith(b"# EOF\n")


def test_without_the_extra_the_page_of_metrics_names_it() -> None:
    code = """
import sys; sys.modules["prometheus_client"] = None
import asyncio
from unittest.mock import Mock
from sharedroutes.broker_agent.process.pages import Pages
from sharedroutes.daemon.http_server import Request
page = asyncio.run(Pages(Mock(), Mock(), control="off").answer(Request(method="GET", path="/metrics")))
print(page.status.value, page.body.decode())
"""
    done = run_python(code)
    assert done.stdout.strip().startswith("501 /metrics needs prometheus_client: run `"), done.stderr


@pytest.mark.parametrize(
    ("path", "query", "told"),
    [
        ("/drain", {}, ("drain", "", None)),
        ("/drain", {"broker": "broker-a", "wait_s": "2.5"}, ("drain", "broker-a", 2.5)),
        ("/pause", {}, ("pause", "")),
        ("/resume", {"broker": "broker-a"}, ("resume", "broker-a")),
    ],
)
async def test_a_control_is_handed_on(path: str, query: dict[str, str], told: tuple[Any, ...]) -> None:
    stage = Stage()
    found = await answered(stage, "POST", path, query=query)
    assert (found.status, json.loads(found.body)) == (HTTPStatus.ACCEPTED, {"brokers": ["broker-a:0"]})
    assert stage.told == [told]


async def test_a_reload_answers_what_it_could_not_apply() -> None:
    found = await answered(Stage(), "POST", "/reload")
    assert (found.status, json.loads(found.body)) == (HTTPStatus.OK, {"problems": ["x needs a restart"]})


@pytest.mark.parametrize("path", ["/drain", "/pause", "/resume", "/reload"])
@pytest.mark.parametrize(
    ("control", "local", "headers", "allowed"),
    [
        ("local", True, {}, True),
        ("local", False, {}, False),
        ("any", False, {}, True),
        ("off", True, {}, False),
        ("local", True, {"origin": "http://evil.example"}, False),
        ("any", True, {"origin": "null"}, False),
    ],
)
async def test_only_those_who_may_control_the_process(
    path: str, control: str, *, local: bool, headers: dict[str, str], allowed: bool
) -> None:
    stage = Stage()
    found = await answered(stage, "POST", path, control=control, local=local, headers=headers)
    assert bool(stage.told) is allowed
    assert (found.status == HTTPStatus.FORBIDDEN) is not allowed


@pytest.mark.parametrize(
    ("method", "path", "query", "status"),
    [
        ("GET", "/drain", {}, HTTPStatus.METHOD_NOT_ALLOWED),
        ("POST", "/status", {}, HTTPStatus.METHOD_NOT_ALLOWED),
        ("GET", "/elsewhere", {}, HTTPStatus.NOT_FOUND),
        ("POST", "/drain", {"broker": "other"}, HTTPStatus.NOT_FOUND),
        ("POST", "/drain", {"wait": "1"}, HTTPStatus.BAD_REQUEST),
        ("POST", "/drain", {"broker": ""}, HTTPStatus.BAD_REQUEST),
        ("POST", "/pause", {"broker": ""}, HTTPStatus.BAD_REQUEST),
        ("POST", "/pause", {"wait_s": "1"}, HTTPStatus.BAD_REQUEST),
        ("POST", "/drain", {"wait_s": "-1"}, HTTPStatus.BAD_REQUEST),
        ("POST", "/drain", {"wait_s": "nan"}, HTTPStatus.BAD_REQUEST),
        ("POST", "/drain", {"wait_s": "soon"}, HTTPStatus.BAD_REQUEST),
    ],
)
async def test_what_makes_no_sense_does_nothing(
    method: str, path: str, query: dict[str, str], status: HTTPStatus
) -> None:
    stage = Stage()
    found = await answered(stage, method, path, query=query)
    assert found.status == status
    assert stage.told == []
    assert status != HTTPStatus.METHOD_NOT_ALLOWED or found.headers[0][0] == "Allow"


async def test_a_page_that_is_not_there_names_those_that_are() -> None:
    assert b"/status\n" in (await answered(Stage(), "GET", "/nowhere")).body
