"""The agent as operators run it: a process beside a broker process and a real server."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

from sharedroutes.broker_agent.process.command import agent_command
from sharedroutes.registry import Broker, EmbeddedServer, RouteStore
from tests.broker_agent.agent_site import RUN, AgentProcess, Site
from tests.broker_agent.data_files import REAL, put, topics_json
from tests.broker_agent.stand_ins import BrokerProcess
from tests.support import run_python, wait_until

pytestmark = pytest.mark.long


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


def test_a_broker_that_goes_on_is_left_to_the_next_agent(site: Site) -> None:
    with site.agent() as agent:
        site.until_served()
        assert site.served() == site.broker.address
        assert agent.end() == 0
        assert site.served() == site.broker.address
    assert "broker-a:0: handed over" in agent.log()
    assert "Traceback" not in agent.log()


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
    with site.agent("--heartbeat", "5", "--stop-deadline", "1") as agent:
        site.until_served()
        site.server.pause()
        assert agent.end() == 0
        assert "handed over without a last heartbeat, the store does not answer" in agent.log()
    site.server.resume()


@pytest.mark.parametrize("name", ["topics.json", "broker.conf"])
def test_a_stop_does_not_wait_for_a_read_that_never_returns(site: Site, name: str) -> None:
    with site.agent("--recheck", "0.05") as agent:
        site.until_served()
        path = site.topics if name == "topics.json" else site.conf
        path.unlink()
        os.mkfifo(path)
        writer = os.open(path, os.O_WRONLY)  # returns when the agent has opened it: nothing will come
        assert agent.end() == 0
        os.close(writer)
    assert "broker-a:0: handed over" in agent.log()


def test_a_stop_does_not_wait_for_the_settings(site: Site) -> None:
    pipe = site.conf.with_name("agent.toml")
    os.mkfifo(pipe)
    with site.agent("--config", str(pipe)) as agent:
        writer = os.open(pipe, os.O_WRONLY)
        assert agent.end() == 0
        os.close(writer)


WITH_A_THREAD_THAT_NEVER_RETURNS = """
import asyncio, threading
from sharedroutes.broker_agent.process import sidecar
from sharedroutes.broker_agent.process.command import agent_command

run = sidecar.Sidecar.run

async def run_with_thread(self):
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    await run(self)

sidecar.Sidecar.run = run_with_thread
"""
WITH_A_TASK_THAT_NEVER_ENDS = """
import asyncio
from sharedroutes.broker_agent.process import sidecar
from sharedroutes.broker_agent.process.command import agent_command

async def stay(self):
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

sidecar.Sidecar._watch_progress = stay
"""
WITH_A_FAULT = """
from sharedroutes.registry import AsyncSweeper

async def fail(self):
    raise ZeroDivisionError("a bug")

AsyncSweeper.run = fail
"""


@pytest.mark.parametrize("program", [WITH_A_THREAD_THAT_NEVER_RETURNS, WITH_A_TASK_THAT_NEVER_ENDS])
def test_what_never_ends_does_not_keep_the_process(site: Site, program: str) -> None:
    with site.agent("--stop-deadline", "10", program=program + RUN) as agent:
        site.until_served()
        assert agent.end() == 0
    assert " exiting without waiting for " in agent.log().splitlines()[-1]


@pytest.mark.parametrize("program", [WITH_A_THREAD_THAT_NEVER_RETURNS, WITH_A_TASK_THAT_NEVER_ENDS])
def test_what_never_ends_does_not_keep_a_process_with_a_fault(site: Site, program: str) -> None:
    with site.agent("--stop-deadline", "10", program=program + WITH_A_FAULT + RUN) as agent:
        assert agent.process.wait(30.0) == 1
    assert "ZeroDivisionError: a bug" in agent.log()


WITH_ANOTHER_FAULT = """
async def fail(self, store):
    raise ZeroDivisionError("a bug")

sidecar.Sidecar._work = fail
"""


def test_what_never_ends_does_not_keep_a_process_with_a_fault_of_its_own(site: Site) -> None:
    program = WITH_A_THREAD_THAT_NEVER_RETURNS + WITH_ANOTHER_FAULT + RUN
    with site.agent(program=program) as agent:
        assert agent.process.wait(30.0) == 1
    assert "ZeroDivisionError: a bug" in agent.log()


@pytest.mark.parametrize("how", ["--check", "--print-config"])
def test_a_look_at_the_configuration_that_is_interrupted_is_no_success(site: Site, how: str) -> None:
    pipe = site.conf.with_name("agent.toml")
    os.mkfifo(pipe)
    with site.agent(how, "--config", str(pipe)) as agent:
        writer = os.open(pipe, os.O_WRONLY)
        assert agent.end() == 128 + signal.SIGTERM
        os.close(writer)


def test_a_signal_ends_an_agent_that_has_not_begun_as_one_that_has() -> None:
    program = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "sharedroutes.broker_agent":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Finder())
sys.argv = ["sharedroutes", "agent", "--help"]
from sharedroutes.cli.main import main
main()
"""
    done = run_python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


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
        "SHAREDROUTES_HTTP": "off",
        "SHAREDROUTES_STOP_WATCH": "0",
    }
    with AgentProcess(site.folder, **environment) as agent, redis.Redis.from_url(site.url) as admin:
        agent.until_said("registered: broker.example:1234, 1 topics")
        assert "HTTP at" not in agent.log()
        assert admin.get("{other}:lease:broker-a:0").endswith(b" broker.example:1234")
        assert agent.end(signal.SIGINT) == 0


def test_signals_drain_the_broker_and_bring_it_back(site: Site) -> None:
    with site.agent("--drain-wait", "0.1") as agent:
        site.until_served()
        agent.process.send_signal(signal.SIGUSR1)
        agent.until_said("draining: no write permission from now on")
        site.until_gone()
        agent.process.send_signal(signal.SIGUSR2)
        site.until_served()
        assert agent.end() == 0


def test_a_hangup_reads_everything_anew(site: Site) -> None:
    config = site.folder / "agent.toml"
    config.write_text("[agent]\nrecheck_s = 60\n")
    with site.agent("--config", str(config)) as agent:
        site.until_served()
        config.write_text("[agent]\nrecheck_s = 50\nlog_format = 'json'\n")
        agent.process.send_signal(signal.SIGHUP)
        agent.until_said('"message":"reloaded"')
        assert "recheck_s (" in agent.log()
        assert "has changed: restart the agent to apply it" in agent.log()


def test_the_control_commands_ask_and_tell_the_agent(site: Site) -> None:
    with site.agent() as agent:
        site.until_served()
        assert "broker-a:0: serving for " in agent.ctl("status").stdout
        assert json.loads(agent.ctl("status", "--output", "json").stdout)["ready"] is True
        assert (agent.ctl("health").returncode, agent.ctl("ready").returncode) == (0, 0)
        drained = agent.ctl("drain", "--after", "0.1", "--wait", "10")
        assert (drained.returncode, drained.stdout) == (0, "drain: broker-a:0\n")
        assert site.served() is None
        unready = agent.ctl("ready")
        assert (unready.returncode, unready.stderr) == (1, "Error: broker-a:0: paused\n")
        assert agent.ctl("resume", "--broker", "broker-a").returncode == 0
        site.until_served()
        assert agent.ctl("pause", "--broker", "broker-b").returncode == 1
        assert agent.ctl("pause").returncode == 0
        site.until_gone()
        assert agent.ctl("reload").returncode == 0
    gone = agent.ctl("health")
    assert gone.returncode == 1
    assert f"no agent answers at {agent.http()}: " in gone.stderr


def test_a_drain_of_an_agent_that_is_about_to_end_is_seen_to_be_done(site: Site) -> None:
    with site.agent("--stop-watch", "20") as agent:
        site.until_served()
        agent.process.send_signal(signal.SIGTERM)
        agent.until_said("watching it for 20 s")
        drained = agent.ctl("drain", "--after", "0", "--wait", "30")
        assert (drained.returncode, drained.stdout) == (0, "drain: broker-a:0\n"), drained.stderr
        assert not site.served()
        assert agent.process.wait(30.0) == 0


def test_a_drain_that_takes_too_long_is_said(site: Site) -> None:
    with site.agent() as agent:
        site.until_served()
        late = agent.ctl("drain", "--after", "60", "--wait", "0.1")
        assert late.returncode == 1
        assert "not out of the registry within 0.1 s: broker-a:0 " in late.stderr


def test_a_drain_is_not_done_while_the_store_may_serve_the_broker(site: Site) -> None:
    with site.agent() as agent:
        site.until_served()
        site.server.pause()
        assert agent.ctl("pause").returncode == 0

        def nobody_knows() -> bool:
            (broker,) = json.loads(agent.ctl("status", "--output", "json").stdout)["brokers"]
            return broker["epoch"] is None and broker["phase"] == "paused"

        wait_until(nobody_knows, timeout_s=30.0, description="the end of the lease was not answered")
        hung = agent.ctl("drain", "--after", "0", "--wait", "0.5")
        assert hung.returncode == 1
        assert "not out of the registry within 0.5 s: broker-a:0 paused" in hung.stderr
        site.server.resume()
        assert agent.ctl("drain", "--after", "0", "--wait", "30").returncode == 0
        assert site.served() is None


def test_an_agent_waits_for_its_broker_conf(site: Site) -> None:
    site.conf.rename(site.folder / "later")
    with site.agent() as agent:
        agent.until_said(f"{site.conf}: cannot be read: No such file or directory: waiting for it")
        assert agent.ctl("health").returncode == 0
        unready = agent.ctl("ready")
        assert (unready.returncode, "broker.conf: cannot be read: " in unready.stderr) == (1, True)
        assert "waiting for it\n" in agent.ctl("status").stdout
        (site.folder / "later").rename(site.conf)
        site.until_served()
        assert agent.end() == 0


def test_json_lines_are_what_is_logged_if_that_is_wanted(site: Site) -> None:
    with site.agent("--log-format", "json") as agent:
        site.until_served()
        agent.end()
    messages = [json.loads(line) for line in agent.log().splitlines()]
    (registered,) = [line for line in messages if ": registered: " in line["message"]]
    assert (registered["level"], registered["broker"], registered["topics"]) == ("info", "broker-a:0", 20)


def test_an_address_that_is_taken_ends_it_with_3(site: Site) -> None:
    with site.agent() as agent:
        address = agent.http()
        with site.agent("--http", address) as second:  # its log takes the place of that of the first
            assert second.process.wait(20.0) == 3
            assert f"HTTP cannot be served at {address}: " in second.log()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--heartbeat", "9"], "lease_ttl_s: 15.0 is less than twice heartbeat_s"),
        (["--namespace", "a b"], "namespace: 'a b'"),
        (["--redis", "nonsense"], "Redis URL: "),
        (["--broker-address", "nonsense"], "--broker-address: 'nonsense'"),
        (["--probe", "nonsense"], "probe: 'nonsense'"),
        (["--broker-conf", "/nowhere", "--check"], "/nowhere: cannot be read: No such file"),
    ],
)
def test_a_wrong_configuration_is_named_and_ends_with_2(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(agent_command, ["--broker-conf", str(REAL / "broker.conf"), *arguments])
    assert result.exit_code == 2
    assert complaint in result.output


def test_a_slave_is_told_its_master_at_the_command_line_and_in_a_file(site: Site) -> None:
    conf = site.conf.read_text().replace("brokerRole", "# brokerRole").replace("brokerId", "# brokerId")
    site.conf.write_text(conf + "\nbrokerRole=SLAVE\nbrokerId=1\n")
    name = site.conf.read_text().partition("brokerName")[2].splitlines()[0].strip(" =")
    path = site.folder / "master"
    with RouteStore.from_url(site.url) as store, site.agent("--master-file", str(path)) as agent:
        held = store.register(Broker(name, "10.0.0.1:1", ha_address="10.0.0.1:2"), [])
        told = "masterAddr=10.0.0.1:1\nhaServerAddr=10.0.0.1:2\n"
        wait_until(lambda: path.exists() and path.read_text() == told, timeout_s=30.0, description="the file")
        asked = agent.ctl("master")
        assert (asked.returncode, asked.stdout) == (0, f"{name}:1: master 10.0.0.1:1, HA 10.0.0.1:2\n")
        store.unregister(held)
        wait_until(lambda: agent.ctl("master").returncode == 1, timeout_s=30.0, description="it is lost")
        assert agent.ctl("master").stdout == f"{name}:1: no master is alive\n"
