"""What the agent process does when it is to read its settings anew."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext

import pytest

from sharedroutes.broker_agent import BrokerAgent
from sharedroutes.broker_agent.planner.status import Phase
from sharedroutes.broker_agent.process.sidecar import Fault, Sidecar
from sharedroutes.broker_agent.settings.sidecar_config import SidecarConfig
from sharedroutes.registry import AsyncSweeper
from tests.broker_agent.sidecar_host import BASICS, Host, Systemd, phases, until_phase
from tests.support import await_until

pytestmark = pytest.mark.usefixtures("logs")


async def test_a_reload_takes_brokers_in_and_out_and_leaves_the_others(host: Host) -> None:
    async with host.running("a") as sidecar:
        await host.until_topics("orders-a")
        host.toml("a", "b")
        assert await sidecar.reload() == []
        await host.until_topics("orders-a", "orders-b")
        host.toml("b")
        assert await sidecar.reload() == []
        await host.until_topics("orders-b")
        await until_phase(sidecar, "broker-b:0", Phase.SERVING)
        assert list(phases(sidecar)) == ["broker-b:0"]
        registrations = sidecar.status().brokers[0].registrations
        await sidecar.reload()
        assert sidecar.status().brokers[0].registrations == registrations


async def test_a_reload_changes_the_log_and_names_what_needs_a_restart(host: Host) -> None:
    used: list[tuple[str, str]] = []
    async with host.running("a", use_log=lambda *how: used.append(how)) as sidecar:
        await host.until_topics("orders-a")
        host.toml("a", agent=BASICS + "log_format = 'json'\ndrain_wait_s = 3\n")
        (problem,) = await sidecar.reload()
        assert "drain_wait_s" in problem
        assert problem.endswith("restart the agent to apply it")
        assert used == [("json", "info")]


async def test_a_reload_names_credentials_that_cannot_be_read(host: Host) -> None:
    secret = host.folder / "credentials.yml"
    secret.write_text("accessKey: the-agent\nsecretKey: some-secret\n")
    async with host.running("a", agent=BASICS + f"broker_credentials = '{secret}'\n") as sidecar:
        await until_phase(sidecar, "broker-a:0", Phase.SERVING)
        assert await sidecar.reload() == []
        secret.unlink()
        (problem,) = await sidecar.reload()
        assert f"broker_credentials: {secret}: cannot be read" in problem


async def test_a_reload_of_wrong_settings_changes_nothing(host: Host, logs: pytest.LogCaptureFixture) -> None:
    async with host.running("a") as sidecar:
        await until_phase(sidecar, "broker-a:0", Phase.SERVING)
        host.toml("a", "b", agent=BASICS + "heartbeats = 3\n")
        (problem,) = await sidecar.reload()
        assert "agent.heartbeats: is not a setting of [agent]" in problem
        assert phases(sidecar) == {"broker-a:0": Phase.SERVING}
    assert [record.levelname for record in logs.records if problem in record.getMessage()] == ["ERROR"]


async def test_a_reload_that_does_not_fit_the_running_store_changes_nothing(
    host: Host, logs: pytest.LogCaptureFixture
) -> None:
    async with host.running("a") as sidecar:
        await until_phase(sidecar, "broker-a:0", Phase.SERVING)
        host.toml("a", "b", agent=BASICS.replace("0.1", "20"), lease_ttl_s=60)
        (problem,) = await sidecar.reload()
        assert problem.startswith(f"the settings are unchanged: {host.folder}/b.conf: lease_ttl_s: 15.0 is ")
        assert phases(sidecar) == {"broker-a:0": Phase.SERVING}
        host.toml("a", "b")
        assert await sidecar.reload() == []
        await host.until_topics("orders-a", "orders-b")
    assert f"reload: {problem}" in logs.messages


async def test_a_reload_before_the_start_starts_every_agent_once(host: Host) -> None:
    host.toml("a")
    sidecar = Sidecar(host.load(), reread=host.load, environment={})
    host.toml("a", "b")
    reload = asyncio.create_task(sidecar.reload())
    await asyncio.wait([reload], timeout=1.0)  # one that does not wait for the start is done by then
    task = asyncio.create_task(sidecar.run())
    assert await reload == []
    assert [one.name for one in sidecar.status().brokers] == ["broker-a:0", "broker-b:0"]
    sidecar.stop()
    await task


@pytest.mark.parametrize("fault", [False, True])
async def test_no_agent_is_started_while_the_process_ends(
    host: Host, monkeypatch: pytest.MonkeyPatch, *, fault: bool
) -> None:
    run = BrokerAgent.run
    reads, goes_on, fails, leaves = (threading.Event(), threading.Event(), asyncio.Event(), asyncio.Event())
    started: list[str] = []

    async def run_on(agent: BrokerAgent) -> None:
        started.append(agent.config.broker.broker_name)
        await run(agent)
        leaves.set()
        await asyncio.to_thread(goes_on.wait)
        for _ in range(10):  # what has been read is taken in now, if ever
            await asyncio.sleep(0)

    async def sweep(_: AsyncSweeper) -> None:
        await fails.wait()
        raise ZeroDivisionError("a bug")

    def reread() -> SidecarConfig:
        reads.set()
        goes_on.wait()
        return host.load()

    monkeypatch.setattr(BrokerAgent, "run", run_on)
    monkeypatch.setattr(AsyncSweeper, "run", sweep)
    monkeypatch.setattr("sharedroutes.broker_agent.process.sidecar._GRACE_S", 30.0)
    host.toml("a")
    sidecar = Sidecar(host.load(), reread=reread, environment={})
    task = asyncio.create_task(sidecar.run())
    await host.until_topics("orders-a")
    host.toml("a", "b")
    reload = asyncio.create_task(sidecar.reload())
    await await_until(reads.is_set, description="it reads")
    if fault:
        fails.set()
    else:
        sidecar.stop()
    await leaves.wait()
    late = await sidecar.reload()
    goes_on.set()
    with pytest.raises(Fault) if fault else nullcontext():
        await task
    await asyncio.gather(reload, return_exceptions=True)
    assert late == ["the process is about to end"]
    assert started == ["broker-a"]
    assert await host.topics() == {"orders-a"}


async def test_a_reload_goes_on_when_whoever_asked_for_it_is_gone(host: Host, systemd: Systemd) -> None:
    goes_on = threading.Event()

    def reread() -> SidecarConfig:
        goes_on.wait()
        return host.load()

    environment = {"NOTIFY_SOCKET": systemd.path}
    async with host.running("a", environment=environment, reread=reread) as sidecar:
        await host.until_topics("orders-a")
        systemd.heard()
        asked_for = asyncio.create_task(sidecar.reload())
        await await_until(
            lambda: any("RELOADING=1" in text for text in systemd.heard()), description="it reloads"
        )
        asked_for.cancel()
        host.toml("a", "b")
        goes_on.set()
        await host.until_topics("orders-a", "orders-b")
        heard: list[str] = []

        def is_done() -> bool:
            heard.extend(systemd.heard())
            return "READY=1" in heard

        await await_until(is_done, description="it is done")


async def test_a_reload_that_cannot_read_the_settings_in_time_is_given_up(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharedroutes.broker_agent.process.sidecar._REREAD_S", 0.05)
    hangs = threading.Event()
    async with host.running("a", reread=hangs.wait) as sidecar:
        await until_phase(sidecar, "broker-a:0", Phase.SERVING)
        assert await sidecar.reload() == ["the settings are unchanged: they could not be read within 0.05 s"]
        assert phases(sidecar) == {"broker-a:0": Phase.SERVING}
    hangs.set()
