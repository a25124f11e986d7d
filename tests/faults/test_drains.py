"""A broker that is drained beside two agent processes is out, whatever happens to the agents."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.faults.plant import Plant
from tests.faults.victims import AgentProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]


def ctl(agent: AgentProcess, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `sharedroutes agent-ctl` for an agent."""
    command = (sys.executable, "-m", "sharedroutes.cli", "agent-ctl", "--http", agent.http, *words)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def pair(plant: Plant) -> tuple[AgentProcess, AgentProcess]:
    """Return the owner and its standby."""
    standby = plant.agent("first")
    before = plant.until_served()
    owner = plant.agent("second")
    plant.until_owned_anew(before)
    plant.until_served()
    plant.until_all_say_so()
    return owner, standby


@pytest.mark.parametrize("at", ["owner", "standby"])
@pytest.mark.parametrize("command", [("drain", "--after", "0.2"), ("pause",)], ids=lambda words: words[0])
def test_a_broker_is_out_when_the_command_returns_and_stays_out(
    plant: Plant, at: str, command: tuple[str, ...]
) -> None:
    owner, standby = pair(plant)
    told, other = (owner, standby) if at == "owner" else (standby, owner)
    done = ctl(told, *command, "--wait", "30")
    assert (done.returncode, done.stderr) == (0, "")
    assert plant.served() == set()
    plant.until(lambda: other.status()["phase"] == "paused", "the other agent knows it")
    failures = other.status()["failures"]
    plant.until(lambda: other.status()["failures"] >= failures + 3, "the other agent has looked again")
    assert plant.served() == set()
    assert plant.look().epoch is None
    assert ctl(told, "resume").returncode == 0
    plant.until_served()
    plant.until_all_say_so()


def test_a_drain_outlives_the_agent_that_made_it_beside_a_standby(plant: Plant) -> None:
    owner, standby = pair(plant)
    assert ctl(owner, "drain", "--after", "0", "--wait", "30").returncode == 0
    owner.kill()
    failures = standby.status()["failures"]
    plant.until(lambda: standby.status()["failures"] >= failures + 3, "the standby has looked again")
    assert plant.served() == set()
    owner.start()  # as documented: an agent that is started brings it back
    plant.until_served()
