"""The same broker at a new address, with real processes: its former host is lost, or still there."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.broker_agent.agent_site import AgentProcess, served
from tests.broker_agent.data_files import broker_conf, put, topics_json
from tests.broker_agent.speaking_broker import SpeakingProcess
from tests.support import wait_until

pytestmark = pytest.mark.long

TTL_S: Final = 600.0
"""So that no lease ends by itself here."""

PASS_S: Final = 60.0


class BrokerHost:
    """A broker with its agent, both processes."""

    def __init__(self, folder: Path, url: str, *arguments: str) -> None:
        folder.mkdir()
        self._folder, self._url, self._arguments = folder, url, arguments
        self.broker = SpeakingProcess()

    @contextmanager
    def up(self) -> Iterator[AgentProcess]:
        conf, store = self._folder / "broker.conf", self._folder / "store"
        put(store / "config" / "topics.json", topics_json("orders"))
        put(conf, broker_conf("broker-a", self.broker.port, store).encode())
        usual = ("--broker-conf", str(conf), "--redis", self._url, "--http", "127.0.0.1:0")
        with (
            self.broker,
            AgentProcess(self._folder, *usual, "--lease-ttl", str(TTL_S), *self._arguments) as self.agent,
        ):
            yield self.agent

    def signal(self, number: int) -> None:
        """Send a signal to both processes."""
        self.broker.send(number)
        self.agent.process.send_signal(number)


@pytest.fixture
def hosts(tmp_path: Path, redis_url: str) -> Iterator[tuple[BrokerHost, BrokerHost]]:
    """Return a host whose broker is served, and another one for a broker of the same name, not yet up."""
    first = BrokerHost(tmp_path / "first", redis_url)
    second = BrokerHost(tmp_path / "second", redis_url)
    with ExitStack() as stack:
        stack.enter_context(first.up())
        until_served(redis_url, first.broker.address)
        yield first, second
        first.signal(signal.SIGCONT)


def failures(agent: AgentProcess) -> int:
    """Return how often the store has refused an agent the broker."""
    found = json.loads(agent.ctl("status", "--output", "json").stdout)
    count: int = found["brokers"][0]["failures"]
    return count


def until_served(url: str, address: str) -> None:
    wait_until(lambda: served(url) == address, timeout_s=PASS_S, description=f"{address} is served")


def test_a_broker_whose_former_host_is_lost_is_served_from_its_new_address(
    hosts: tuple[BrokerHost, BrokerHost], redis_url: str
) -> None:
    first, second = hosts
    first.signal(signal.SIGSTOP)
    with second.up() as agent:
        until_served(redis_url, second.broker.address)
        agent.until_said("and is gone")
        first.signal(signal.SIGCONT)  # it was only away, and takes nothing back
        first.agent.until_said("another agent has taken the broker over")
        first.agent.until_said(f"is held by {second.broker.address}")
        assert served(redis_url) == second.broker.address
        assert "and is gone" not in first.agent.log()


def test_a_broker_whose_former_process_was_killed_with_its_agent_is_served_from_its_new_address(
    hosts: tuple[BrokerHost, BrokerHost], redis_url: str
) -> None:
    first, second = hosts
    first.agent.process.kill()
    first.broker.send(signal.SIGKILL)
    first.agent.process.wait()
    with second.up() as agent:
        until_served(redis_url, second.broker.address)
        agent.until_said("and is gone")
    first.agent.process.poll()


def test_of_two_live_brokers_with_one_name_the_second_waits_and_says_so(
    hosts: tuple[BrokerHost, BrokerHost], redis_url: str
) -> None:
    first, second = hosts
    with second.up() as agent:
        agent.until_said(f"{first.broker.address} answers: two brokers have one name and id")
        since = failures(agent)
        wait_until(
            lambda: failures(agent) >= since + 5,
            timeout_s=PASS_S,
            description="it has looked again",
        )
        assert served(redis_url) == first.broker.address
        assert "and is gone" not in agent.log()
    assert served(redis_url) == first.broker.address
