"""One broker, its files and its agent, and the registry as others see it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.broker_agent import AgentConfig, BrokerAgent
from sharedroutes.registry import AsyncRouteStore, Broker, ChangeKind, Registration, RegistryConfig
from tests.broker_agent.stand_ins import ListeningBroker
from tests.support import await_until, kept_running

HEARTBEAT_S: Final = 0.1
"""Leases are the usual ones of 15 s, so that no pause of the machine ends one."""


class World:
    """One broker, its files, and the registry as others see it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.path = folder / "config" / "topics.json"
        self.conf_path = folder / "broker.conf"
        self.broker = ListeningBroker()
        self.store = AsyncRouteStore.from_url(url)

    @property
    def address(self) -> str:
        return self.broker.address

    def config(self, **settings: Any) -> AgentConfig:
        usual = {
            "broker": Broker("broker-a", self.address),
            "topics_path": self.path,
            "redis_url": self.url,
            "heartbeat_s": HEARTBEAT_S,
            "recheck_s": 0.05,
        }
        return AgentConfig(**{**usual, **settings})

    async def topics_served(self) -> dict[str, int]:
        """Return the write queues of every topic that a live broker holds."""
        routes = await self.store.routes(await self.store.topics())
        return {topic: route.queue_datas[0].write_queue_nums for topic, route in routes.items()}

    async def until_served(self, **topics: int) -> None:
        async def served() -> bool:
            return await self.topics_served() == topics

        await await_until(served, description=f"{topics} are served")

    async def members(self) -> dict[int, str]:
        """Return the live replicas of the group."""
        group = await self.store.member_group("broker-a")
        return dict(group.broker_addrs) if group else {}

    async def until_members(self, expected: dict[int, str]) -> None:
        async def reached() -> bool:
            return await self.members() == expected

        await await_until(reached, timeout_s=30.0, description=f"the replicas are {expected}")

    async def is_wiped(self) -> bool:
        """Whether the group's write permission is taken away."""
        group = await self.store.member_group("broker-a")
        assert group is not None
        return group.wiped

    async def last_heartbeat(self, held: Registration, *, lasts_s: float = 0.2) -> None:
        """Let the lease of another owner end soon."""
        async with AsyncRouteStore.from_url(self.url, RegistryConfig(lease_ttl_s=lasts_s)) as store:
            await store.heartbeat(held)

    async def owner_epochs(self) -> list[int]:
        """Return the epochs of the registrations so far."""
        page = await self.store.changes_since()
        return [change.epoch for change in page.changes if change.kind is ChangeKind.UP]


@asynccontextmanager
async def running(config: AgentConfig) -> AsyncIterator[BrokerAgent]:
    async with kept_running(BrokerAgent(config)) as agent:
        yield agent


def times(logs: pytest.LogCaptureFixture, text: str) -> int:
    """Return how many messages hold a text."""
    return sum(text in message for message in logs.messages)
