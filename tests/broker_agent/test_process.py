"""The agent as operators run it: a process beside a broker process and a real server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
import redis
from click.testing import CliRunner

from sharedroutes.broker_agent.command import agent_command
from sharedroutes.registry import EmbeddedServer, RouteStore, StoreUnavailable
from tests.broker_agent.data_files import REAL, put, rewrite, topics_json
from tests.broker_agent.stand_ins import BrokerProcess
from tests.support import wait_until


class AgentProcess:
    """`python -m sharedroutes.broker_agent`, and what it says."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self._log_path = folder / "agent.log"
        command = (sys.executable, "-m", "sharedroutes.broker_agent", *arguments)
        with self._log_path.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log, env={**os.environ, **environment})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def log(self) -> str:
        """Return what it has said so far."""
        return self._log_path.read_text()

    def until_said(self, text: str) -> None:
        wait_until(lambda: text in self.log(), timeout_s=30.0, description=f"the agent says {text!r}")

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(how)
        return self.process.wait(30.0)


class Site:
    """A broker process, its files, a server, and the registry as others see it."""

    def __init__(self, folder: Path, server: EmbeddedServer, broker: BrokerProcess) -> None:
        self.folder, self.server, self.broker = folder, server, broker
        self.conf = folder / "broker.conf"
        self.topics = folder / "store" / "config" / "topics.json"
        self.url = server.url

    def agent(self, *arguments: str, **environment: str) -> AgentProcess:
        """Start an agent with heartbeats of 0.2 s."""
        usual = ("--broker-conf", str(self.conf), "--redis", self.url, "--heartbeat", "0.2")
        return AgentProcess(self.folder, *usual, *arguments, **environment)

    def served(self, topic: str = "orders") -> str | None:
        """Return the address of the live master that holds a topic."""
        with RouteStore.from_url(self.url) as store:
            try:
                route = store.routes([topic]).get(topic)
            except StoreUnavailable:
                return None
            return route.broker_datas[0].master_address if route else None

    def until_served(self, topic: str = "orders") -> None:
        wait_until(lambda: self.served(topic), timeout_s=30.0, description=f"{topic} is served")

    def until_gone(self) -> None:
        """Wait less than the usual lease of 15 s."""
        wait_until(lambda: not self.served(), timeout_s=12.0, description="orders is not served")


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    """Return a broker process."""
    with BrokerProcess() as broker:
        yield broker


@pytest.fixture
def site(tmp_path: Path, own_server: EmbeddedServer, broker: BrokerProcess) -> Site:
    """Return the site of a real broker: its broker.conf, with another port and folder, and its topics."""
    site = Site(tmp_path, own_server, broker)
    conf = (REAL / "broker.conf").read_text()
    conf = conf.replace("/var/lib/rocketmq/store", str(site.folder / "store"))
    site.conf.write_text(conf.replace("10911", str(broker.port)))
    put(site.topics, (REAL / "topics.json").read_bytes())
    return site


def test_a_broker_is_served_from_start_to_sigterm(site: Site) -> None:
    with site.agent() as agent:
        site.until_served()
        assert site.served() == site.broker.address
        assert agent.end() == 0
        assert site.served() is None
    assert "broker-a:0: unregistered" in agent.log()
    assert "Traceback" not in agent.log()


def test_a_changed_file_changes_the_routes(site: Site) -> None:
    with site.agent() as agent:
        site.until_served()
        rewrite(site.topics, topics_json("orders", "brand-new", counter=8))
        site.until_served("brand-new")
        assert site.served("payments") is None
        agent.until_said("wrote its changed table")


def test_a_broker_that_is_killed_leaves_the_registry_at_once_and_comes_back(site: Site) -> None:
    with site.agent() as agent:  # with the usual lease of 15 s
        site.until_served()
        site.broker.kill()
        site.until_gone()
        agent.until_said("the broker is gone")
        site.broker.start()
        site.until_served()


def test_an_agent_that_is_killed_is_replaced_without_waiting_for_its_lease(site: Site) -> None:
    with site.agent() as first:
        site.until_served()
        first.end(signal.SIGKILL)
        with site.agent() as second:
            second.until_said("broker-a:0: registered")
            assert site.served() == site.broker.address


def test_an_agent_that_is_killed_is_forgotten_when_its_lease_ends(site: Site) -> None:
    with site.agent("--lease-ttl", "1") as agent:
        site.until_served()
        agent.end(signal.SIGKILL)
        site.until_gone()


def test_a_store_that_is_absent_at_first_is_waited_for_and_reported_once(site: Site) -> None:
    site.server.stop()
    with site.agent() as agent:
        agent.until_said("the store cannot be reached")
        site.server.start()
        site.until_served()
        agent.until_said("works again, after")
        assert agent.log().count("the store cannot be reached") == 1
        assert agent.end() == 0


def test_a_store_that_is_killed_and_comes_back_empty_is_filled_again(site: Site) -> None:
    with site.agent():
        site.until_served()
        site.server.kill()
        site.server.start()
        site.until_served()


def test_a_store_that_hangs_longer_than_the_lease_is_outlived(site: Site) -> None:
    with site.agent("--lease-ttl", "0.5") as agent:
        site.until_served()
        site.server.pause()
        agent.until_said("the store did not answer in time")
        site.server.resume()
        site.until_served()
        agent.until_said("works again, after")


def test_a_stop_does_not_wait_for_a_store_that_hangs(site: Site) -> None:
    with site.agent("--heartbeat", "5") as agent:
        site.until_served()
        site.server.pause()
        assert agent.end() == 0
        assert "not unregistered, the store does not answer" in agent.log()
    site.server.resume()


def test_a_wrong_password_is_reported_once_and_tried_until_it_is_right(site: Site) -> None:
    with redis.Redis.from_url(site.url) as admin:
        admin.config_set("requirepass", "right")
    right_url = site.url.replace("redis://", "redis://:right@")
    with site.agent("--redis", site.url.replace("//", "//:wrong@")) as agent:
        agent.until_said("the store refuses these credentials")
        with redis.Redis.from_url(right_url) as admin:
            admin.config_set("requirepass", "wrong")
        site.url = right_url.replace("right", "wrong")
        site.until_served()
        agent.until_said("works again, after")
        assert agent.log().count("the store refuses these credentials") == 1


def test_every_option_can_be_in_the_environment(site: Site) -> None:
    topics = site.folder / "elsewhere.json"
    put(topics, topics_json("from-environment"))
    environment = {
        "SHAREDROUTES_BROKER_CONF": str(site.conf),
        "SHAREDROUTES_TOPICS": str(topics),
        "SHAREDROUTES_REDIS_URL": site.url,
        "SHAREDROUTES_NAMESPACE": "other",
        "SHAREDROUTES_HEARTBEAT": "0.2",
        "SHAREDROUTES_LEASE_TTL": "20",
        "SHAREDROUTES_BROKER_ADDRESS": "broker.example:1234",
        "SHAREDROUTES_PROBE": site.broker.address,
    }
    with AgentProcess(site.folder, **environment) as agent, redis.Redis.from_url(site.url) as admin:
        agent.until_said("registered: broker.example:1234, 1 topics")
        assert admin.get("{other}:lease:broker-a:0").endswith(b" broker.example:1234")
        assert agent.end(signal.SIGINT) == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--heartbeat", "9"], "lease_ttl_s: 15.0 is less than twice heartbeat_s"),
        (["--namespace", "a b"], "namespace: 'a b'"),
        (["--redis", "nonsense"], "Redis URL: "),
        (["--broker-address", "nonsense"], "broker address: 'nonsense'"),
        (["--probe", "nonsense"], "probe: 'nonsense'"),
        (["--broker-conf", "/nowhere"], "/nowhere: cannot be read: No such file"),
    ],
)
def test_a_wrong_configuration_is_named_and_ends_with_2(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(agent_command, ["--broker-conf", str(REAL / "broker.conf"), *arguments])
    assert result.exit_code == 2
    assert complaint in result.output
