"""When an agent sweeps."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest
import redis

from sharedroutes.broker_agent.sweeper import pause_s, sweep_on
from sharedroutes.registry import EXPIRED, AsyncRouteStore, Broker, RegistryConfig, Sweep
from tests.support import await_until


def pause(sweep: Sweep | None) -> float:
    return pause_s(sweep, RegistryConfig(sweeper_lease_s=1.0, lease_ttl_s=15.0), random.Random(1))


@pytest.mark.parametrize(
    ("wait_s", "expected"), [(None, 0.6), (14.0, 0.6), (0.3, 0.3), (0.001, 0.02), (0.0, 0.02)]
)
def test_the_sweeper_sleeps_until_a_lease_can_end_and_keeps_its_own(
    wait_s: float | None, expected: float
) -> None:
    assert pause(Sweep(held=False, wait_s=wait_s)) == pytest.approx(expected)


@pytest.mark.parametrize("sweep", [Sweep(held=True, wait_s=0.5), Sweep(held=True, wait_s=0.0), None])
def test_the_others_look_about_three_times_in_the_ttl_of_a_lease(sweep: Sweep | None) -> None:
    assert 3 <= pause(sweep) <= 6


async def test_a_dead_broker_is_announced_and_a_key_in_the_way_is_reported_once(
    redis_url: str, admin: redis.Redis, foreign_keys: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    config = RegistryConfig(lease_ttl_s=0.05, sweeper_lease_s=0.05)
    async with AsyncRouteStore.from_url(redis_url, config) as store:
        admin.zadd(store.keys.deadlines, {"garbage": 1})
        await store.register(Broker("broker-a", "127.0.0.1:10911"), [])
        sweeping = asyncio.create_task(sweep_on(store, random.Random(1)))

        async def announced() -> bool:
            return any(change.reason == EXPIRED for change in (await store.changes_since()).changes)

        with caplog.at_level(logging.INFO, logger="sharedroutes.broker_agent"):
            await await_until(announced, description="the death is announced")  # not by the first sweep
        sweeping.cancel()
        await asyncio.wait([sweeping])
    said = [record.getMessage() for record in caplog.records]
    assert [text for text in said if "has ended" in text] == [
        "broker-a:0: its lease has ended, clients are told so"
    ]
    assert len([text for text in said if "garbage" in text]) == 1
