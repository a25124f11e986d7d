"""Agents, a broker and a store that are stopped in their tracks, for longer or shorter than a lease."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sharedroutes.registry import EmbeddedServer
from tests.faults.plant import LEASE_TTL_S, Plant
from tests.faults.victims import AgentProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]  # on a machine on which all takes its time

FENCED: Final = "another agent has taken the broker over: on standby until it ends"
SLEPT: Final = "this process stood still for"
LOST: Final = "the store has lost the lease of the broker: registering again"


def pause_between_heartbeats(plant: Plant, owner: AgentProcess) -> None:
    """Stop the owner right after a heartbeat, so that no call to the store is in flight."""
    end_ms = plant.look().ends_at_ms
    plant.until(lambda: plant.look().ends_at_ms > end_ms, "the lease is renewed")
    owner.pause()


def test_a_standby_takes_over_the_lease_of_an_agent_that_hangs_late_and_keeps_the_broker(
    plant: Plant,
) -> None:
    first = plant.agent("first")
    before = plant.until_served()
    second = plant.agent("second")  # who starts takes over
    owned = plant.until_owned_anew(before)
    first.until_said(FENCED)
    second.until_said("registered: ")
    pause_between_heartbeats(plant, second)
    end_ms = plant.look().ends_at_ms
    taken_over = plant.until_owned_anew(owned)
    last_quarter_ms = end_ms - LEASE_TTL_S * 250
    assert plant.registered_at_ms(taken_over) >= last_quarter_ms - 1  # both are whole milliseconds
    second.resume()
    second.until_said(SLEPT)
    second.until_said(FENCED)
    assert plant.look().epoch == taken_over.epoch
    first.kill()
    plant.until_owned_anew(taken_over)
    plant.until_served()


def test_an_agent_that_slept_past_its_lease_says_so_and_registers_anew(plant: Plant) -> None:
    agent = plant.agent("agent")
    plant.until_served()
    pause_between_heartbeats(plant, agent)
    plant.until_gone()
    agent.resume()
    plant.until_served()
    agent.until_said(SLEPT)
    agent.until_said(LOST)


def test_an_agent_that_slept_for_less_than_its_lease_stays_the_owner(
    tmp_path: Path, own_server: EmbeddedServer
) -> None:
    with Plant(tmp_path, own_server, heartbeat_s=0.5, lease_ttl_s=60.0) as plant:
        agent = plant.agent("agent")
        before = plant.until_served()
        pause_between_heartbeats(plant, agent)
        plant.until_passed(2.0)
        agent.resume()
        agent.until_said(SLEPT)
        awake = plant.look()
        plant.until(lambda: plant.look().ends_at_ms > awake.ends_at_ms + 10, "the lease is renewed")
        assert plant.look().epoch == before.epoch
        assert LOST not in agent.log()


def test_what_happened_to_the_files_while_the_agent_slept_is_served_when_it_wakes(plant: Plant) -> None:
    agent = plant.agent("agent")
    plant.until_served()
    agent.pause()
    plant.rewrite_topics("payments")
    plant.until_gone()
    plant.rewrite_topics("payments", "audit")
    plant.rewrite_topics("audit")
    agent.resume()
    plant.until_served()


def test_a_store_that_hangs_longer_than_the_lease_has_one_owner_again(plant: Plant) -> None:
    first, second = plant.agent("first"), plant.agent("second")
    plant.until_served()
    plant.server.pause()
    for agent in (first, second):
        agent.until_said("the store did not answer in time")
    plant.until_passed(LEASE_TTL_S)
    plant.server.resume()
    plant.until_served()
    plant.until_settled()
    plant.until_all_say_so()
