"""The agent process without the process: several brokers over one store, reloads, faults, systemd, HTTP."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from sharedroutes.broker_agent import BrokerAgent
from sharedroutes.broker_agent.planner.status import AgentStatus, Phase
from sharedroutes.broker_agent.process import sidecar as sidecar_module
from sharedroutes.broker_agent.process.sidecar import Fault, Sidecar
from sharedroutes.broker_agent.process.supervision import Progress
from sharedroutes.daemon.http_server import AddressTaken, HttpServer
from sharedroutes.registry import AsyncSweeper, NotFound
from tests.broker_agent.sidecar_host import BASICS, Host, Systemd, phases, until_phase
from tests.support import await_until, run_python

pytestmark = pytest.mark.usefixtures("logs")


async def asked(sidecar: Sidecar, logs: pytest.LogCaptureFixture, request: str) -> tuple[int, str]:
    """Ask over HTTP; return the status and the body."""
    line = await await_until(
        lambda: next((text for text in logs.messages if text.startswith("HTTP at ")), None),
        description="HTTP is served",
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", int(line.rpartition(":")[2]))
    writer.write(f"{request} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body


async def test_several_brokers_are_served_over_one_store_until_the_stop(host: Host) -> None:
    async with host.running("a", "b") as sidecar:
        await host.until_topics("orders-a", "orders-b")
        for name in ("broker-a:0", "broker-b:0"):
            await until_phase(sidecar, name, Phase.SERVING)
    assert await host.topics() == {"orders-a", "orders-b"}


async def test_a_broker_that_dies_takes_only_itself_away(host: Host) -> None:
    async with host.running("a", "b") as sidecar:
        await host.until_topics("orders-a", "orders-b")
        await host.brokers["a"].die()
        await host.until_topics("orders-b")
        assert sidecar.status().unready
        await host.brokers["a"].start()
        await host.until_topics("orders-a", "orders-b")


async def test_one_broker_can_be_paused_drained_and_resumed(host: Host) -> None:
    async with host.running("a", "b") as sidecar:
        await host.until_topics("orders-a", "orders-b")
        assert sidecar.pause("broker-a") == ["broker-a:0"]
        await host.until_topics("orders-b")
        assert sidecar.drain("broker-b:0", 0.0) == ["broker-b:0"]
        await host.until_topics()
        await until_phase(sidecar, "broker-b:0", Phase.PAUSED)
        assert sidecar.resume() == ["broker-a:0", "broker-b:0"]
        await host.until_topics("orders-a", "orders-b")
        route = (await host.store.routes(["orders-b"]))["orders-b"]
        assert route.queue_datas[0].perm == 6
        with pytest.raises(
            NotFound, match="'broker-c' is not one of this process: it has broker-a:0, broker-b:0"
        ):
            sidecar.pause("broker-c")


async def test_http_says_how_it_is_and_takes_orders(host: Host, logs: pytest.LogCaptureFixture) -> None:
    async with host.running("a") as sidecar:
        await until_phase(sidecar, "broker-a:0", Phase.SERVING)
        assert await asked(sidecar, logs, "GET /healthz") == (200, "ok\n")
        assert await asked(sidecar, logs, "GET /readyz") == (200, "ok\n")
        status = json.loads((await asked(sidecar, logs, "GET /status"))[1])
        assert status["brokers"][0]["topics"] == 1
        assert await asked(sidecar, logs, "POST /pause?broker=broker-b") == (
            404,
            "broker: 'broker-b' is not one of this process: it has broker-a:0\n",
        )
        assert (await asked(sidecar, logs, "POST /pause"))[0] == 202
        await host.until_topics()
        assert (await asked(sidecar, logs, "GET /readyz"))[0] == 503
        assert await asked(sidecar, logs, "POST /reload") == (200, '{\n  "problems": []\n}\n')


async def test_a_broker_whose_broker_conf_is_not_there_yet_or_wrong_is_waited_for(
    host: Host, logs: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar_module, "_LOOK_S", 0.05)
    (host.folder / "b.conf").rename(host.folder / "later")
    async with host.running("a", "b") as sidecar:
        await host.until_topics("orders-a")
        status, why = await asked(sidecar, logs, "GET /readyz")
        assert status == 503
        assert why.endswith("b.conf: cannot be read: No such file or directory: waiting for it\n")
        assert (await asked(sidecar, logs, "GET /healthz"))[0] == 200
        (host.folder / "b.conf").write_text("brokerPermission=9\n")
        await await_until(lambda: "9 is not within 0..7: waiting for it" in logs.text, description="why else")
        await asyncio.sleep(0.3)  # some more looks
        (host.folder / "later").rename(host.folder / "b.conf")
        await host.until_topics("orders-a", "orders-b")
        for name in ("broker-a:0", "broker-b:0"):
            await until_phase(sidecar, name, Phase.SERVING)
        assert sidecar.status().unready == ()
        assert await sidecar.reload() == []
        assert phases(sidecar) == {"broker-a:0": Phase.SERVING, "broker-b:0": Phase.SERVING}
    assert logs.text.count("waiting for it") == 2  # each reason once


async def test_an_agent_that_does_not_end_is_not_waited_for(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = BrokerAgent.run
    stays = asyncio.Event()

    async def run_on(agent: BrokerAgent) -> None:
        with suppress(asyncio.CancelledError):
            await run(agent)
            await stays.wait()

    monkeypatch.setattr(BrokerAgent, "run", run_on)
    async with host.running("a"):
        await host.until_topics("orders-a")
    assert await host.topics() == {"orders-a"}


async def test_a_fault_of_an_agent_that_was_taken_out_ends_the_process(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = BrokerAgent.run

    async def fail_at_the_end(agent: BrokerAgent) -> None:
        await run(agent)
        if agent.config.broker.broker_name == "broker-b":
            raise ZeroDivisionError("a bug")

    host.toml("a", "b")
    sidecar = Sidecar(host.load(), reread=host.load, environment={})
    monkeypatch.setattr(BrokerAgent, "run", fail_at_the_end)
    task = asyncio.create_task(sidecar.run())
    await host.until_topics("orders-a", "orders-b")
    host.toml("a")
    await sidecar.reload()
    with pytest.raises(Fault, match="the agent of broker-b:0"):
        await asyncio.wait_for(task, 30.0)


async def test_a_process_that_is_stuck_tells_systemd_of_no_progress(
    host: Host, systemd: Systemd, monkeypatch: pytest.MonkeyPatch, logs: pytest.LogCaptureFixture
) -> None:
    looks = list[BrokerAgent]()

    def hanging(agent: BrokerAgent) -> AgentStatus:
        looks.append(agent)
        return AgentStatus(name="broker-a:0", broker=None, phase=Phase.SERVING, phase_s=0.0, heartbeats=7)

    environment = {"NOTIFY_SOCKET": systemd.path, "WATCHDOG_USEC": "20000"}
    async with host.running("a", environment=environment) as sidecar:
        sidecar._progress = Progress(patience_s=0.0)
        await await_until(lambda: "WATCHDOG=1" in systemd.heard(), description="it makes progress")
        monkeypatch.setattr(BrokerAgent, "status", hanging)
        await await_until(lambda: "no progress: broker-a:0: " in logs.text, description="it is stuck")
        systemd.heard()
        enough = len(looks) + 20
        await await_until(lambda: len(looks) > enough, description="it has looked again and again")
        assert "WATCHDOG=1" not in systemd.heard()
        assert (await asked(sidecar, logs, "GET /healthz"))[0] == 503


def test_the_version_is_looked_up_when_it_is_asked_for() -> None:
    program = """
import sharedroutes
looked_up = []
sharedroutes.__getattr__ = lambda name: looked_up.append(name) or "1.2"
import sharedroutes.broker_agent.process.command, sharedroutes.cli.root
from sharedroutes.daemon.pages import version
print("__version__" in looked_up, version())
"""
    done = run_python(program)
    assert (done.stdout, done.stderr) == ("False 1.2\n", "")


async def test_what_is_probably_a_mistake_is_logged(host: Host, logs: pytest.LogCaptureFixture) -> None:
    host.toml("a")
    config = replace(host.load(), warnings=("SHAREDROUTES_X: is not a setting",))
    sidecar = Sidecar(config, environment={})
    task = asyncio.create_task(sidecar.run())
    await host.until_topics("orders-a")
    sidecar.stop()
    await task
    assert "SHAREDROUTES_X: is not a setting" in logs.messages


@pytest.mark.parametrize("what", ["agent", "sweep"])
async def test_a_part_that_fails_ends_the_process_and_leaves_the_others_to_the_next(
    host: Host, logs: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    host.toml("a", "b")
    sidecar = Sidecar(host.load(), environment={})
    works = asyncio.Event()

    async def fail(self: Any) -> None:
        await works.wait()
        raise ZeroDivisionError("a bug")

    if what == "sweep":
        monkeypatch.setattr(AsyncSweeper, "run", fail)
    else:
        run = BrokerAgent.run
        chosen = "broker-a"
        monkeypatch.setattr(
            BrokerAgent, "run", lambda self: (fail if self.config.broker.broker_name == chosen else run)(self)
        )
    task = asyncio.create_task(sidecar.run())
    await host.until_topics(*(["orders-b"] if what == "agent" else ["orders-a", "orders-b"]))
    works.set()
    with pytest.raises(Fault, match="the agent of broker-a:0" if what == "agent" else "the sweep"):
        await task
    assert await host.topics() == ({"orders-b"} if what == "agent" else {"orders-a", "orders-b"})
    assert "ended unexpectedly, and the process ends with it" in logs.text
    assert "ZeroDivisionError: a bug" in logs.text


async def test_systemd_hears_of_start_progress_reload_and_end(host: Host, systemd: Systemd) -> None:
    heard: list[str] = []

    def listen(text: str) -> bool:
        heard.extend(systemd.heard())
        return text in heard

    environment = {"NOTIFY_SOCKET": systemd.path, "WATCHDOG_USEC": "100000"}
    async with host.running("a", environment=environment) as sidecar:
        await await_until(lambda: listen("READY=1"), description="it is ready")
        await await_until(
            lambda: heard.count("WATCHDOG=1") > 2 or listen(""), description="it makes progress"
        )
        await await_until(lambda: listen("STATUS=broker-a:0 serving"), description="it says what it does")
        heard.clear()
        await sidecar.reload()
        assert listen("READY=1")
        assert any(text.startswith("RELOADING=1\nMONOTONIC_USEC=") for text in heard)
    listen("")
    assert any(text.startswith("STOPPING=1\nEXTEND_TIMEOUT_USEC=") for text in heard)


async def test_an_address_that_was_asked_for_and_is_taken_ends_it(host: Host) -> None:
    other = HttpServer(lambda _: asyncio.sleep(0))  # type: ignore[arg-type,return-value]
    await other.start("127.0.0.1", 0)
    host.toml("a", agent=BASICS.replace(":0'", f":{other.port}'"))
    with pytest.raises(AddressTaken, match=f"127.0.0.1:{other.port}"):
        await Sidecar(host.load(), environment={}).run()
    await other.aclose()
    assert await host.topics() == set()


async def test_an_address_that_nobody_asked_for_and_is_taken_is_done_without(
    host: Host, logs: pytest.LogCaptureFixture
) -> None:
    other = HttpServer(lambda _: asyncio.sleep(0))  # type: ignore[arg-type,return-value]
    with suppress(AddressTaken):  # by whoever: all the same
        await other.start("127.0.0.1", 9877)
    async with host.running("a", agent=BASICS.replace("http = '127.0.0.1:0'\n", "")):
        await host.until_topics("orders-a")
    await other.aclose()
    assert "127.0.0.1:9877: " in logs.text
    assert "continuing without HTTP" in logs.text
