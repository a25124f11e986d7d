"""A broker process, its files and its agent process, and the registry as others see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from sharedroutes.registry import EmbeddedServer, RouteStore, StoreUnavailable
from tests.broker_agent.stand_ins import BrokerProcess
from tests.logged import LoggedProcess
from tests.support import wait_until

PATIENT: Final = """
from sharedroutes.daemon import logs

logs._LAST_WORDS_S = 30.0  # the thread that writes may be slow
"""
RUN: Final = """
from sharedroutes.broker_agent.process.command import agent_command

agent_command()
"""


class AgentProcess(LoggedProcess):
    """`python -m sharedroutes.broker_agent`, and what it says."""

    PATIENCE_S = 30.0

    def __init__(self, folder: Path, *arguments: str, program: str = "", **environment: str) -> None:
        super().__init__(
            folder, "agent", "sharedroutes.broker_agent", arguments, environment, program=program
        )

    def http(self) -> str:
        """Return where it serves HTTP."""
        return self.found(r"HTTP at (\S+)")[1]

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `sharedroutes agent-ctl` for it."""
        command = (sys.executable, "-m", "sharedroutes.cli", "agent-ctl", "--http", self.http(), *words)
        return subprocess.run(command, capture_output=True, text=True, check=False)


def served(url: str, topic: str = "orders") -> str | None:
    """Return the address of the live master that holds a topic."""
    with RouteStore.from_url(url) as store:
        try:
            route = store.routes([topic]).get(topic)
        except StoreUnavailable:
            return None
        return route.broker_datas[0].master_address if route else None


class Site:
    """A broker process, its files, a server, and the registry as others see it."""

    def __init__(self, folder: Path, server: EmbeddedServer, broker: BrokerProcess) -> None:
        self.folder, self.server, self.broker = folder, server, broker
        self.conf = folder / "broker.conf"
        self.topics = folder / "store" / "config" / "topics.json"
        self.url = server.url

    def agent(self, *arguments: str, program: str = RUN, **environment: str) -> AgentProcess:
        """Start an agent with heartbeats of 0.2 s that serves HTTP at any port and ends without haste."""
        usual = ("--broker-conf", str(self.conf), "--redis", self.url, "--heartbeat", "0.2")
        patient = ("--stop-deadline", "25", "--stop-watch", "0", "--http", "127.0.0.1:0")
        return AgentProcess(
            self.folder, *usual, *patient, *arguments, program=PATIENT + program, **environment
        )

    def served(self, topic: str = "orders") -> str | None:
        """Return the address of the live master that holds a topic."""
        return served(self.url, topic)

    def until_served(self, topic: str = "orders") -> None:
        wait_until(lambda: self.served(topic), timeout_s=30.0, description=f"{topic} is served")

    def until_gone(self) -> None:
        """Wait less than the usual lease of 15 s."""
        wait_until(lambda: not self.served(), timeout_s=12.0, description="orders is not served")
