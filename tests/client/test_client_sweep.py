"""A client that is asked to takes part in making the end of leases known."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sharedroutes.registry import EXPIRED, RegistryConfig, RouteStore
from tests.client.clients import BELL_ONLY, Stage, running, until_held_by
from tests.registry.builders import OTHER_ADDRESS, broker, topics

SWEEPER: Final = "sharedroutes-sweeper"
SHORT: Final = RegistryConfig(lease_ttl_s=1.5, sweeper_lease_s=0.1)


async def test_a_client_that_sweeps_makes_the_end_of_a_lease_known_to_all(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(1))
    held = stage.agent.register(broker("broker-b", address=OTHER_ADDRESS), topics(1))
    sweeping = stage.client(replace(BELL_ONLY, registry=SHORT, sweep=True))
    async with stage.client(BELL_ONLY) as other, sweeping:
        assert running(SWEEPER) == 1
        await until_held_by(other, "t0", "broker-a", "broker-b")
        with RouteStore.from_url(stage.url, SHORT) as dying:
            dying.heartbeat(held)
        await until_held_by(other, "t0", "broker-a")  # which only the doorbell can have told it
    assert running(SWEEPER) == 0
    (change,) = (one for one in stage.agent.changes_since().changes if one.reason == EXPIRED)
    assert change.broker_name == "broker-b"


async def test_a_client_does_not_sweep_unless_asked_to(stage: Stage) -> None:
    async with stage.client():
        assert running(SWEEPER) == 0
