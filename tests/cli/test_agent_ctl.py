"""`agent-ctl` towards agents that change meanwhile, and towards mistakes at the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sharedroutes.cli.agent_ctl import agent_ctl
from tests.cli.agents import MASTER, SLAVE, an_agent


def a_broker(name: str, phase: str, *, may_be_served: bool) -> dict[str, Any]:
    return {"name": name, "phase": phase, "may_be_served": may_be_served}


def drained(address: str, *more: str) -> Result:
    return CliRunner().invoke(agent_ctl, ["--http", address, "drain", "--wait", *(more or ("30",))])


def test_a_drain_waits_for_a_broker_whose_id_changes_meanwhile() -> None:
    serving = a_broker("broker-a:1", "serving", may_be_served=True)
    out = a_broker("broker-a:1", "paused", may_be_served=False)
    other = a_broker("broker-b:0", "serving", may_be_served=True)
    with an_agent([serving, other]) as address:
        late = drained(address, "0")
        assert (late.exit_code, "within 0 s: broker-a:1 serving\n" in late.output) == (1, True)
    with an_agent([serving, other], [out, other]) as address:
        assert drained(address).exit_code == 0


def test_a_drain_waits_only_for_the_one_of_that_name_if_it_is_there() -> None:
    out = a_broker("broker-a:0", "paused", may_be_served=False)
    with an_agent([out, a_broker("broker-a:1", "serving", may_be_served=True)]) as address:
        assert drained(address).exit_code == 0


def test_a_broker_that_the_agent_does_not_keep_any_more_does_not_count_as_out() -> None:
    with an_agent([a_broker("broker-b:0", "serving", may_be_served=True)]) as address:
        gone = drained(address)
    assert gone.exit_code == 1
    assert "broker-a:0: the agent no longer manages it" in gone.output


@pytest.mark.parametrize("action", ["drain", "pause"])
def test_who_waits_for_a_broker_of_another_address_is_told_who_has_it(action: str) -> None:
    held = a_broker("broker-a:0", "paused", may_be_served=True)
    held["trouble"] = "is held by 10.0.0.2:10911"
    with an_agent([held]) as address:
        late = CliRunner().invoke(agent_ctl, ["--http", address, action, "--wait", "0"])
    assert late.exit_code == 1
    assert "not out of the registry within 0 s: broker-a:0 paused: is held by 10.0.0.2:10911" in late.output


def test_a_pause_waits_until_the_broker_is_out() -> None:
    leaving, out = (a_broker("broker-a:0", "paused", may_be_served=served) for served in (True, False))
    with an_agent([leaving], [out]) as address:
        assert CliRunner().invoke(agent_ctl, ["--http", address, "pause", "--wait", "30"]).exit_code == 0


@pytest.mark.parametrize("action", ["drain", "pause", "resume"])
def test_an_empty_name_does_not_mean_every_broker(action: str) -> None:
    refused = CliRunner().invoke(agent_ctl, [action, "--broker", ""])
    assert refused.exit_code == 2
    assert "is empty: leave it out to mean all brokers" in refused.output


def status_of(**facts: Any) -> str:
    """Return what `agent-ctl status` says of a broker."""
    usual = {"phase_s": 3.0, "role": "master", "topics": 2, "last_heartbeat_s": None, "heartbeats": 0}
    troubles = dict.fromkeys(("why_gone", "trouble", "waiting", "source_trouble", "advice", "stuck"), "")
    one = {**usual, **troubles, **a_broker("broker-a:0", "serving", may_be_served=True), **facts}
    head = {"version": "0", "uptime_s": 1.0, "store": {"url": "redis://h:1/0"}, "awaited": []}
    with an_agent([one], **head) as address:
        done = CliRunner().invoke(agent_ctl, ["--http", address, "status"])
    assert done.exit_code == 0, done.output
    return done.stdout.partition("\n")[2]


def test_a_broker_that_was_drained_says_that_it_is_out_and_how_it_comes_back() -> None:
    said = status_of(phase="paused", may_be_served=False, heartbeats=4)
    assert "out of the registry: no heartbeats" in said
    assert (
        "an operator has taken it out; `sharedroutes agent-ctl resume --broker broker-a:0` brings it" in said
    )
    assert "no heartbeat yet" not in said


def test_a_broker_that_is_drained_and_still_sends_heartbeats_says_so() -> None:
    said = status_of(phase="draining", last_heartbeat_s=1.5, heartbeats=4)
    assert "draining for 3 s, master, 2 topics, heartbeat 1.5 s ago" in said
    assert "master, 1 topic, heartbeat" in status_of(topics=1, last_heartbeat_s=1.5)
    assert "it is being drained: nobody may write to it, and it leaves the registry after the wait" in said


def test_a_broker_that_lost_its_lease_does_not_say_that_it_never_had_one() -> None:
    assert "no lease now, 4 heartbeats before" in status_of(phase="registering", heartbeats=4)
    assert "no heartbeat yet" in status_of(phase="registering")


def master(address: str, *more: str) -> Result:
    return CliRunner().invoke(agent_ctl, ["--http", address, "master", *more])


def test_the_masters_of_slaves_are_printed() -> None:
    with an_agent([SLAVE, MASTER]) as address:
        found = master(address)
        assert (found.exit_code, found.output) == (
            0,
            "broker-a:1: master h:1, HA h:2\nbroker-b:0: is a master\n",
        )
        assert json.loads(master(address, "--output", "json").output) == [SLAVE, MASTER]
        assert json.loads(master(address, "--output", "json", "--broker", "broker-a").output) == [SLAVE]
        assert master(address, "--broker", "broker-c").exit_code == 1


@pytest.mark.parametrize(
    ("known", "says"), [("", "no master is alive"), (None, "no master is known")], ids=["lost", "not asked"]
)
def test_who_asks_for_a_master_that_is_not_known_gets_an_exit_code(known: str | None, says: str) -> None:
    alone = {**SLAVE, "master_address": known, "master_ha_address": known}
    with an_agent([alone, MASTER]) as address:
        found = master(address)
        assert (found.exit_code, found.output.splitlines()[0]) == (1, f"broker-a:1: {says}")
        assert master(address, "--broker", "broker-b").exit_code == 0
