"""A real broker under full load is never taken for one that hangs; one that is stopped is out in time."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.broker_agent import AgentConfig
from sharedroutes.client import NoRoute, RouteClient
from sharedroutes.registry import Broker, ChangeKind, EmbeddedServer, RouteStore
from sharedroutes.remoting.broker.client import BrokerClient
from sharedroutes.remoting.broker.liveness import QUESTION
from tests.faults.victims import AgentProcess
from tests.real.rocketmq import RealBroker, RealNameServer, java
from tests.support import wait_until

RELEASE: Final = "5.3.3"
TOPIC: Final = "TopicTest"
LOAD_S: Final = 600
ROUNDS: Final = int(os.environ.get("HANG_ROUNDS", "5"))
THREADS: Final = 16
BODY_BYTES: Final = 256
DEFAULTS: Final = AgentConfig(broker=Broker("any", "127.0.0.1:1"))
WORST_S: Final = DEFAULTS.hang_check_s + DEFAULTS.hang_failures * DEFAULTS.hang_deadline_s
SCHEDULING_S: Final = 5.0
"""What a machine that is busy with other things may add to a time that is measured on it."""


class Load:
    """A producer in a process of its own, which sends as fast as the broker takes it."""

    def __init__(self, name_server: str, folder: Path) -> None:
        source = Path(__file__).parents[2] / "real" / "Load.java"
        command = java(
            RELEASE,
            f"-Duser.home={folder}",
            "-Xmx256m",
            str(source),
            name_server,
            str(THREADS),
            str(BODY_BYTES),
        )
        self.seconds: list[tuple[int, int]] = []
        """The messages that were sent and that failed, each second."""

        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = line.split()
            if len(words) == 2 and all(word.isdigit() for word in words):
                self.seconds.append((int(words[0]), int(words[1])))


@pytest.fixture
def site(tmp_path: Path, own_server: EmbeddedServer) -> Iterator[tuple[RealBroker, AgentProcess, str, Path]]:
    """Return a real broker with its agent, which has the defaults, and the name server's address."""
    with (
        RealNameServer(RELEASE, tmp_path / "name-server") as names,
        RealBroker(RELEASE, tmp_path / "broker", {"namesrvAddr": names.address}) as broker,
    ):
        agent = AgentProcess("agent", tmp_path, "--broker-conf", str(broker.conf), "--redis", own_server.url)
        agent.start()
        try:
            yield broker, agent, names.address, tmp_path
            agent.check()
        finally:
            agent.kill()


@contextmanager
def loaded(name_server: str, folder: Path) -> Iterator[Load]:
    load = Load(name_server, folder)
    try:
        wait_until(
            lambda: sum(sent for sent, _ in load.seconds), timeout_s=90, description="messages are sent"
        )
        yield load
    finally:
        load.end()


async def answer_times(address: str, seconds: float) -> list[float]:
    """Ask the agent's question every second for so long; return how long each answer took, in s."""
    host, _, port = address.rpartition(":")
    clock, times = asyncio.get_running_loop().time, []
    end_s = clock() + seconds
    async with await BrokerClient.connect(host, int(port), deadline_s=10) as client:
        while (asked_s := clock()) < end_s:
            await client.invoke(QUESTION, deadline_s=60)
            times.append(clock() - asked_s)
            await asyncio.sleep(1)
    return times


@pytest.mark.timeout(LOAD_S + 300)
def test_a_broker_under_full_load_is_never_taken_for_one_that_hangs(
    site: tuple[RealBroker, AgentProcess, str, Path], own_server: EmbeddedServer
) -> None:
    broker, agent, names, folder = site
    with loaded(names, folder) as load:
        times = asyncio.run(answer_times(broker.address, LOAD_S))
    sent, failed = (sum(each) for each in zip(*load.seconds, strict=True))
    least = min(count for count, _ in load.seconds[5:-1])
    figures(f"{sent} messages in {len(load.seconds)} s, {failed} failed, {least} in the worst second")
    figures(f"load average {os.getloadavg()}; answers: {shown(times)} of {len(times)}")
    assert sent > LOAD_S * 100
    assert agent.status()["hang_check"] == f"asked every {DEFAULTS.hang_check_s:g} s"
    assert "hangs" not in agent.log()
    with RouteStore.from_url(own_server.url) as store:
        kinds = [change.kind for change in store.changes_since(limit=100_000).changes]
    assert kinds.count(ChangeKind.UP) == 1
    assert ChangeKind.DOWN not in kinds


@pytest.mark.timeout(120 + 60 * ROUNDS)
def test_clients_stop_choosing_a_broker_that_hangs_within_the_time_that_the_settings_make(
    site: tuple[RealBroker, AgentProcess, str, Path], own_server: EmbeddedServer
) -> None:
    broker, agent, names, folder = site
    assert WORST_S <= 10
    rng = random.Random(1)
    found_s, back_s = [], []
    with loaded(names, folder), RouteClient.from_url(own_server.url) as client:
        for _ in range(ROUNDS):
            wait_until(lambda: serves(client), timeout_s=60, description="the broker is served")
            wait_until(lambda: agent.status()["hang_check"].startswith("asked every"), description="asked")
            time.sleep(rng.uniform(0, 2 * DEFAULTS.hang_check_s))  # wherever it is between two questions
            began_s = time.monotonic()
            broker.send(signal.SIGSTOP)
            wait_until(lambda: not serves(client), timeout_s=WORST_S + SCHEDULING_S, description="it is out")
            found_s.append(time.monotonic() - began_s)
            broker.send(signal.SIGCONT)
            began_s = time.monotonic()
            wait_until(lambda: serves(client), timeout_s=60, description="it is back")
            back_s.append(time.monotonic() - began_s)
    figures(f"out after SIGSTOP: {shown(found_s)}; back after SIGCONT: {shown(back_s)}; {ROUNDS} rounds")
    assert (
        min(found_s) >= DEFAULTS.hang_failures * DEFAULTS.hang_deadline_s - 0.1
    )  # a pause that is shorter is none


def shown(times_s: list[float]) -> str:
    return f"p50 {statistics.median(times_s):.3f} s, least {min(times_s):.3f} s, worst {max(times_s):.3f} s"


def figures(text: str) -> None:
    """Tell what was measured, also where it is not asked for (-s)."""
    sys.stderr.write(f"\n{text}")


def serves(client: RouteClient) -> bool:
    try:
        client.select_queue(TOPIC)
    except NoRoute:
        return False
    return True
