"""What `doctor` says of agents and fronts that are really in that state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from sharedroutes.cli.agent_ctl import agent_ctl
from sharedroutes.cli.doctor.finding import Finding, Level
from sharedroutes.cli.doctor.gather import USUAL, gather
from sharedroutes.cli.doctor.process_checks import check_processes
from sharedroutes.cli.doctor.snapshot import Process, ProcessKind, Snapshot
from sharedroutes.registry import EmbeddedServer, RouteStore
from sharedroutes.registry.connection.url import parse_url
from tests.broker_agent.agent_site import Site
from tests.cli.agents import an_agent
from tests.cli.doctor.examined import ERROR, OK, SKIPPED, WARNING, doctor
from tests.nameserver.running import FrontRun
from tests.ports import free_port
from tests.support import wait_until

AGENT: Final = ProcessKind.AGENT


def test_an_agent_that_works_is_in_order_until_its_broker_dies(site: Site) -> None:
    with site.agent() as agent:
        site.until_served()
        said = doctor(site.url, "--agent", agent.http())["agent"]
        assert (said.level, said.what) == (OK, f"{agent.http()}: works")
        site.broker.kill()
        site.until_gone()
        said = doctor(site.url, "--agent", agent.http())["agent"]
        assert (said.level, f"{agent.http()}: broker-a:0 is broker-gone: " in said.what) == (WARNING, True)


def test_an_agent_whose_operator_paused_it_is_a_warning(site: Site) -> None:
    with site.agent() as agent:
        site.until_served()
        assert agent.ctl("pause", "--wait", "20").returncode == 0
        found = doctor(site.url, "--agent", agent.http())
    assert (found["agent"].level, "broker-a:0 is paused" in found["agent"].what) == (WARNING, True)
    assert found["withdrawn"].level is WARNING


def test_an_agent_of_another_registry_is_a_warning_if_it_was_named(site: Site) -> None:
    with site.agent() as agent:
        site.until_served()
        said = doctor(site.url, "--namespace", "other", "--agent", agent.http())["agent"]
    assert said.level is WARNING
    assert said.what == f"{agent.http()}: keeps the registry 'sharedroutes', and this is 'other'"


def test_a_process_that_does_not_answer_is_an_error_if_it_was_named(own_server: EmbeddedServer) -> None:
    address = f"127.0.0.1:{free_port()}"
    found = doctor(own_server.url, "--agent", address, "--front", address)
    for kind in ("agent", "front"):
        assert found[kind].level is ERROR
        assert found[kind].what.startswith(f"no {kind} answers at {address}: ")


def test_what_is_no_agent_is_said(own_server: EmbeddedServer) -> None:
    with an_agent([]) as address:
        said = doctor(own_server.url, "--agent", address)["agent"]
    assert (said.level, said.what) == (WARNING, f"{address}: is no agent and no front")


def test_an_agent_that_is_named_as_a_front_is_an_error_and_a_front_that_is_named_as_an_agent(
    site: Site, tmp_path: Path
) -> None:
    with site.agent() as agent, FrontRun(tmp_path, "--redis", site.url) as front:
        site.until_served()
        front.until_ready()
        host, port = front.http()
        found = doctor(site.url, "--agent", f"{host}:{port}", "--front", agent.http())
        assert (found["agent"].level, found["agent"].what) == (
            ERROR,
            f"{host}:{port}: is no agent, but a front",
        )
        assert (found["front"].level, found["front"].advice) == (ERROR, "name it with --agent")
        for words in (["status"], ["master"]):
            told = CliRunner().invoke(agent_ctl, ["--http", f"{host}:{port}", *words])
            assert (told.exit_code, "is no agent" in told.stderr) == (1, True)
        assert front.end() == 0


def test_a_front_that_works_is_in_order_until_it_refuses_what_is_stale(
    tmp_path: Path, own_server: EmbeddedServer
) -> None:
    stale = ("--when-stale", "refuse", "--stale", "0.5")
    with FrontRun(tmp_path, "--redis", own_server.url, *stale) as front:
        front.until_ready()
        host, port = front.http()
        address = f"{host}:{port}"
        said = doctor(own_server.url, "--front", address)["front"]
        assert (said.level, said.what) == (OK, f"{address}: works")
        own_server.stop()
        wait_until(lambda: front.get("/readyz")[0] != 200, timeout_s=60.0, description="it is stale")
        found = doctor(own_server.url, "--front", address)
        assert found["front"].level is WARNING
        assert f"{address}: it has not heard from the store for " in found["front"].what
        assert front.end() == 0


def test_a_front_at_the_usual_port_of_an_agent_is_a_front_where_nobody_has_named_it(
    tmp_path: Path, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FrontRun(tmp_path, "--redis", own_server.url) as front:
        front.until_ready()
        address = "{}:{}".format(*front.http())
        monkeypatch.setitem(USUAL, AGENT, address)
        monkeypatch.setitem(USUAL, ProcessKind.FRONT, f"127.0.0.1:{free_port()}")
        found = doctor(own_server.url)
        assert "agent" not in found
        assert (found["front"].level, found["front"].what) == (OK, f"{address}: works")
        assert found["fronts"].what == "all that live were looked at: 1"
        # Named as a front, it is not taken for an agent besides.
        assert "agent" not in doctor(own_server.url, "--front", address)
        assert doctor(own_server.url, "--agent", address)["agent"].level is ERROR
        assert front.end() == 0


def test_which_agents_and_fronts_were_not_looked_at_is_said(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    monkeypatch.setitem(USUAL, AGENT, nowhere)
    monkeypatch.setitem(USUAL, ProcessKind.FRONT, nowhere)
    with site.agent() as agent, FrontRun(tmp_path, "--redis", site.url) as front:
        site.until_served()
        front.until_ready()
        found = doctor(site.url)
        asked = f"; asked: {nowhere} (no answer); --"
        for kind, what in (("agent", "the agents of broker-a:0"), ("front", "1 of 1 fronts, which live on ")):
            said = found[f"{kind}s"]
            assert said.level is SKIPPED
            assert said.what.startswith(f"not looked at: {what}"), said
            assert said.what.endswith(f"{asked}{kind} HOST:PORT, or {kind}s in a profile, names more"), said
        front_page = "http://{}:{}/".format(*front.http())  # as it stands in the address line of a browser
        named = doctor(site.url, "--agent", agent.http(), "--front", front_page)
        assert named["agents"].what == "all that hold leases were looked at: 1"
        assert named["fronts"].what == "all that live were looked at: 1"
        elsewhere = doctor(site.url, "--agent", "{}:{}".format(*front.http()))
        assert elsewhere["agents"].what.startswith("not looked at: the agents of broker-a:0")
        assert front.end() == 0


@pytest.fixture
def examined(site: Site) -> Iterator[Snapshot]:
    """Return what is gathered of an agent that works."""
    with site.agent() as agent, RouteStore.from_url(site.url) as store:
        site.until_served()
        yield gather(store, parse_url(site.url), [(AGENT, agent.http())])


def said_of(snapshot: Snapshot, **page: Any) -> Finding:
    """Return the first finding if the page of the agent said this besides."""
    (process,) = (one for one in snapshot.processes if one.kind is AGENT)
    assert isinstance(process.page, dict)
    other = Process(AGENT, process.address, {**process.page, **page})
    return next(check_processes(replace(snapshot, processes=(other,))))


def test_what_an_agent_may_say_of_itself(examined: Snapshot) -> None:
    assert said_of(examined).level is Level.OK
    ill = said_of(examined, healthy=False)
    assert (ill.level, "does not work any more" in ill.what) == (Level.ERROR, True)
    clock = said_of(examined, sweep={"clock_problem": "it stands still"})
    assert (clock.level, "it stands still" in clock.what) == (Level.ERROR, True)
    awaited = said_of(examined, awaited=["broker-b: no broker.conf"])
    assert (awaited.level, awaited.what.endswith("broker-b: no broker.conf")) == (Level.WARNING, True)
    broker = {"name": "broker-a:0", "phase": "serving", "corrupt_keys": ["{sharedroutes}:topics"]}
    corrupt = said_of(examined, brokers=[broker])
    assert (corrupt.level, "foreign data in {sharedroutes}:topics" in corrupt.what) == (Level.WARNING, True)
    later = said_of(replace(examined, version="9.9.9"))
    assert (later.level, later.what.endswith("and this is 9.9.9")) == (Level.WARNING, True)
