"""The brokers of one host and their agent process, in the event loop of a test."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from sharedroutes.broker_agent.planner.status import Phase
from sharedroutes.broker_agent.process.sidecar import Sidecar
from sharedroutes.broker_agent.settings.loader import load
from sharedroutes.broker_agent.settings.sidecar_config import SidecarConfig
from sharedroutes.registry import AsyncRouteStore
from tests.broker_agent.data_files import broker_conf, put, topics_json
from tests.broker_agent.stand_ins import ListeningBroker
from tests.support import await_until, kept_running

BASICS: Final = "heartbeat_s = 0.1\nrecheck_s = 0.05\nstop_watch_s = 0.0\nhttp = '127.0.0.1:0'\n"


class Host:
    """Two brokers that live, their files, an agent.toml, and the registry as others see it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.brokers = {"a": ListeningBroker(), "b": ListeningBroker()}
        self.store = AsyncRouteStore.from_url(url)

    async def start(self) -> None:
        for name, broker in self.brokers.items():
            await broker.start()
            conf = broker_conf(f"broker-{name}", broker.port, self.folder / name)
            (self.folder / f"{name}.conf").write_text(conf)
            put(self.folder / name / "config" / "topics.json", topics_json(f"orders-{name}"))

    def toml(self, *brokers: str, agent: str = BASICS, lease_ttl_s: int = 15) -> None:
        """Write the agent.toml for some of the brokers."""
        tables = "".join(f'[[broker]]\nbroker_conf = "{name}.conf"\n' for name in brokers)
        text = f'[store]\nurl = "{self.url}"\nlease_ttl_s = {lease_ttl_s}\n[agent]\n{agent}{tables}'
        (self.folder / "agent.toml").write_text(text)

    def load(self) -> SidecarConfig:
        return load({"--config": str(self.folder / "agent.toml")}, {})

    @asynccontextmanager
    async def running(self, *brokers: str, agent: str = BASICS, **rest: Any) -> AsyncIterator[Sidecar]:
        """Run the process for some of the brokers."""
        self.toml(*brokers, agent=agent)
        options = {"reread": self.load, "environment": {}, **rest}
        async with kept_running(Sidecar(self.load(), **options)) as sidecar:
            yield sidecar

    async def topics(self) -> set[str]:
        """Return what live brokers hold."""
        return set(await self.store.topics())

    async def until_topics(self, *names: str) -> None:
        async def served() -> bool:
            return await self.topics() == set(names)

        await await_until(served, timeout_s=10.0, description=f"{names} are served")


def phases(sidecar: Sidecar) -> dict[str, Phase]:
    return {one.name: one.phase for one in sidecar.status().brokers}


async def until_phase(sidecar: Sidecar, name: str, phase: Phase) -> None:
    await await_until(
        lambda: phases(sidecar).get(name) is phase, timeout_s=10.0, description=f"{name} is {phase}"
    )


class Systemd:
    """The socket that systemd reads; `heard` returns the messages that have come since."""

    def __init__(self, address: str) -> None:
        self.path = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)  # noqa: FBT003 - as it is called

    def heard(self) -> list[str]:
        """Return the messages: a datagram is there as soon as it was sent."""
        found = []
        while True:
            try:
                found.append(self.socket.recv(4_096).decode())
            except BlockingIOError:
                return found
