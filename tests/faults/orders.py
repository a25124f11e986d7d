"""The orders in which systemd and Kubernetes tell a broker and its agent to end."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.ending import Pod, Told

UNIT: Final = Path(__file__).resolve().parents[2] / "deploy" / "sharedroutes-agent.service"


class Order(NamedTuple):
    """Who is told when, how long the broker takes to end, and how long the agent watches it."""

    told: Told
    ends_in_s: float
    stop_watch_s: float


def exec_stop(process: int, folder: Path, *, state: str, job: str = "") -> None:
    """Run the unit's ExecStop for a process, as systemd does, where systemctl says these things."""
    (line,) = re.findall(r"^ExecStop=\+?(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    systemctl = tools / "systemctl"
    says = f'case "$1" in is-system-running) echo {state};; show) echo "{job}";; *) exit 1;; esac'
    systemctl.write_text(f"#!/bin/sh\n{says}\n")
    systemctl.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "MAINPID": str(process)}
    command = [word.replace("$$", "$").replace("${MAINPID}", str(process)) for word in shlex.split(line)]
    subprocess.run(command, check=True, env=environment, timeout=30.0)


def _broker_first(pod: Pod) -> None:
    pod.broker.send_signal(signal.SIGTERM)
    pod.broker.wait()
    pod.agent.process.send_signal(signal.SIGTERM)


def _agent_first_at_shutdown(pod: Pod) -> None:
    exec_stop(pod.agent.process.pid, pod.folder, state="stopping")
    assert pod.agent.end() == 0
    pod.broker.send_signal(signal.SIGTERM)


def _agent_first_by_the_brokers_job(pod: Pod) -> None:
    exec_stop(pod.agent.process.pid, pod.folder, state="running", job="1742")
    assert pod.agent.end() == 0
    pod.broker.send_signal(signal.SIGTERM)


def _both_at_once(pod: Pod) -> None:
    pod.agent.process.send_signal(signal.SIGTERM)
    pod.broker.send_signal(signal.SIGTERM)


def _agent_first_by_a_moment(pod: Pod) -> None:
    pod.agent.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)  # the order is what is tested
    pod.broker.send_signal(signal.SIGTERM)


SYSTEMD: Final[Mapping[str, Order]] = {
    "broker first": Order(_broker_first, 0.3, 0.0),
    "agent first, at shutdown": Order(_agent_first_at_shutdown, 0.3, 0.0),
    "agent first, the broker has a job": Order(_agent_first_by_the_brokers_job, 0.3, 0.0),
}
KUBERNETES: Final[Mapping[str, Order]] = {
    "both at once": Order(_both_at_once, 2.0, 40.0),
    "broker first": Order(_broker_first, 0.3, 40.0),
    "agent first by a moment": Order(_agent_first_by_a_moment, 0.5, 40.0),
}
