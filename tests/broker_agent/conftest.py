"""Fixtures for tests of the broker agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_agent.data_files import put, topics_json
from tests.broker_agent.sidecar_host import Host, Systemd
from tests.broker_agent.world import World


@pytest.fixture
def world(redis_url: str, tmp_path: Path, runner: asyncio.Runner) -> Iterator[World]:
    """Return a broker that lives, with one topic in its file, and nobody to register it."""
    world = World(redis_url, tmp_path)
    put(world.path, topics_json("orders"))
    runner.run(world.broker.start())
    yield world
    runner.run(world.broker.die())
    runner.run(world.store.aclose())


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Return what the agents log."""
    caplog.set_level(logging.INFO, "sharedroutes.broker_agent")
    return caplog


@pytest.fixture
def host(tmp_path: Path, redis_url: str, runner: asyncio.Runner) -> Iterator[Host]:
    """Return a host with the brokers that its tests name, whose agent process nobody has started."""

    async def make() -> Host:
        host = Host(tmp_path, redis_url)
        await host.start()
        return host

    async def end(host: Host) -> None:
        for broker in host.brokers.values():
            await broker.die()
        await host.store.aclose()

    host = runner.run(make())
    yield host
    runner.run(end(host))


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    """Return the socket that systemd reads."""
    systemd = Systemd(str(tmp_path / "notify"))
    yield systemd
    systemd.socket.close()
