"""An agent that is started anew leaves no gap, and one that ends with its broker takes it out: once each.

tests/faults/long/test_ending.py does it 20 times, and says how long it took.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sharedroutes.registry import ChangeKind, EmbeddedServer
from tests.deploy.test_agent_deploy import container
from tests.faults.ending import Lookups, Pod
from tests.faults.orders import KUBERNETES, SYSTEMD, Order, exec_stop
from tests.ports import free_port

pytestmark = pytest.mark.long

ORDERS = [
    *(pytest.param(order, id=f"systemd, {name}") for name, order in SYSTEMD.items()),
    *(pytest.param(order, id=f"Kubernetes, {name}") for name, order in KUBERNETES.items()),
]


def test_no_lookup_fails_while_the_agent_of_the_only_broker_is_started_anew(
    tmp_path: Path, own_server: EmbeddedServer
) -> None:
    with Pod(tmp_path, own_server.url) as pod:
        pod.until_registered()
        with Lookups(own_server.url) as lookups:
            lookups.until_served(0.0)
            missed = lookups.missed
            pod.restart_agent()
            exec_stop(pod.agent.process.pid, tmp_path, state="running")
            pod.restart_agent()
            pod.replace_agent()
            lookups.until_served(lookups.last_served_s)
            assert lookups.missed == missed
        kinds = [change.kind for change in pod.changes()]
    assert kinds == [ChangeKind.TOPICS, *[ChangeKind.UP] * 4]


def test_a_second_signal_ends_the_watch(tmp_path: Path, own_server: EmbeddedServer) -> None:
    with Pod(tmp_path, own_server.url, stop_watch_s=600.0) as pod:
        pod.until_registered()
        pod.agent.process.terminate()
        pod.agent.until_said("watching it for 600 s")
        assert pod.agent.process.poll() is None
        assert pod.agent.end() == 0
        assert "handed over" in pod.agent.log()
        assert ChangeKind.DOWN not in [change.kind for change in pod.changes()]


def test_the_brokers_pre_stop_hook_of_the_pod_drains_it(tmp_path: Path, own_server: EmbeddedServer) -> None:
    port = free_port()
    words = [
        word.replace("/9877", f"/{port}").replace("sleep 15", "")
        for word in container("broker")["lifecycle"]["preStop"]["exec"]["command"]
    ]
    with Pod(tmp_path, own_server.url, http=f"127.0.0.1:{port}") as pod:
        pod.until_registered()
        subprocess.run(words, check=True, timeout=30.0)
        pod.agent.until_said("draining: no write permission from now on")


@pytest.mark.parametrize("order", ORDERS)
def test_a_broker_that_ends_with_its_agent_is_out_at_its_end(
    tmp_path: Path, own_server: EmbeddedServer, order: Order
) -> None:
    pod = Pod(tmp_path, own_server.url, ends_in_s=order.ends_in_s, stop_watch_s=order.stop_watch_s)
    with pod, Lookups(own_server.url) as lookups:
        lookups.until_served(0.0)
        pod.out_after_s(order.told, lookups)  # within 10 s: less than the lease
