"""The files under deploy/ for the agent: it takes what they say, and they fit together."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sharedroutes import __version__
from sharedroutes.broker_agent.process.command import EXIT_CODES
from sharedroutes.broker_agent.settings.sidecar_config import DEFAULT_HTTP, OPTIONS
from sharedroutes.cli.processes import AGENT_HTTP
from sharedroutes.daemon.pages import VIEWS
from tests.deploy.files import AGENT, run

AGENT_TOML: Final = (AGENT.folder / "agent.toml").read_text(encoding="utf-8")
BROKER_CONF: Final = "brokerName = broker-a\nbrokerIP1 = 10.0.0.1\nstorePathRootDir = /home/rocketmq/store\n"

_BROKER_ENDS_IN_S: Final = 20.0
"""So long RocketMQ's broker takes at most after a SIGTERM."""


def container(name: str) -> dict[str, Any]:
    pod = AGENT.objects()["StatefulSet"]["spec"]["template"]["spec"]
    (found,) = [one for one in pod["initContainers"] + pod["containers"] if one["name"] == name]
    return dict(found)


def checked(words: Sequence[str], folder: Path, files: Mapping[str, str], **environment: str) -> str:
    """Run the command with --check=files in a place where these files are; return what it said."""
    for path, content in files.items():
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content.replace("/etc/", f"{folder}/etc/"))
    assert Path(words[0]).name == "sharedroutes"
    arguments = [word.replace("/etc/", f"{folder}/etc/") for word in words[1:]]
    done = run(sys.executable, "-m", "sharedroutes.cli", *arguments, "--check=files", **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def usual_files(agent_toml: str = AGENT_TOML, broker_conf: str = BROKER_CONF) -> dict[str, str]:
    return {"/etc/sharedroutes/agent.toml": agent_toml, "/etc/rocketmq/broker.conf": broker_conf}


def test_the_agent_takes_what_the_unit_says(tmp_path: Path) -> None:
    (command,) = [value for key, value in AGENT.unit_settings() if key == "ExecStart"]
    assert "1 broker" in checked(shlex.split(command), tmp_path, usual_files())


def test_systemd_does_not_start_anew_what_cannot_work() -> None:
    unit = dict(AGENT.unit_settings())
    assert unit["Restart"] == "on-failure"
    assert EXIT_CODES[int(unit["RestartPreventExitStatus"])].startswith("the configuration is wrong")
    assert unit["Type"] == "notify"
    assert unit["ExecReload"].endswith("-HUP $MAINPID")


def test_the_agent_takes_what_the_dockerfile_says(tmp_path: Path) -> None:
    words = [*AGENT.entry_point(), *json.loads(AGENT.instruction("CMD"))]
    assert "1 broker" in checked(words, tmp_path, usual_files())
    assert AGENT.instruction("EXPOSE") == DEFAULT_HTTP.rpartition(":")[2]


def test_what_asks_the_agent_is_a_command_of_it() -> None:
    words = json.loads(AGENT.instruction("HEALTHCHECK").partition("CMD ")[2])
    assert words[0] == "sharedroutes"
    # Nobody listens there: that is said by the command itself, after it has understood all its words.
    done = run(sys.executable, "-m", "sharedroutes.cli", *words[1:], SHAREDROUTES_HTTP="127.0.0.1:1")
    assert done.returncode == 1
    assert "no agent answers at 127.0.0.1:1: " in done.stderr


def test_the_control_commands_ask_where_the_agent_serves() -> None:
    assert AGENT_HTTP == DEFAULT_HTTP


def test_the_agent_takes_what_the_kubernetes_file_says(tmp_path: Path) -> None:
    agent, data = container("agent"), AGENT.objects()["ConfigMap"]["data"]
    given = {one["name"]: one.get("value", "") for one in agent["env"]}
    given["SHAREDROUTES_REDIS_URL"] = "redis://:secret@redis:6379/0"
    given["SHAREDROUTES_BROKER_ADDRESS"] = given["SHAREDROUTES_BROKER_ADDRESS"].replace(
        "$(POD_IP)", "10.1.2.3"
    )
    assert set(given) - {"POD_IP"} <= {option.variable for option in OPTIONS}
    files = usual_files(data["agent.toml"], data["broker.conf"])
    words = [*AGENT.entry_point(), *agent["args"]]
    assert "1 broker" in checked(words, tmp_path, files, **given)


def test_the_containers_of_the_pod_fit_together() -> None:
    broker, agent = container("broker"), container("agent")
    mounts = {one["mountPath"]: one for one in agent["volumeMounts"]}
    assert all(mount["readOnly"] for mount in mounts.values())
    (store,) = [one["mountPath"] for one in broker["volumeMounts"] if one["name"] == "store"]
    assert mounts[store]["name"] == "store"
    assert f"storePathRootDir = {store}\n" in AGENT.objects()["ConfigMap"]["data"]["broker.conf"]
    (port,) = agent["ports"]
    settings = tomllib.loads(AGENT.objects()["ConfigMap"]["data"]["agent.toml"])["agent"]
    assert settings["http"] == f"0.0.0.0:{port['containerPort']}"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert agent[probe]["httpGet"]["path"] in VIEWS
        assert agent[probe]["httpGet"]["port"] == port["name"]
    assert agent["image"].endswith(f":{__version__}")


def test_the_pod_has_the_time_to_drain() -> None:
    agent = tomllib.loads(AGENT.objects()["ConfigMap"]["data"]["agent.toml"])["agent"]
    *_, script = container("broker")["lifecycle"]["preStop"]["exec"]["command"]
    (sleep_s,) = re.findall(r"^sleep (\d+)$", script, re.MULTILINE)
    grace_s = AGENT.objects()["StatefulSet"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert agent["drain_wait_s"] < float(sleep_s)
    assert float(sleep_s) + _BROKER_ENDS_IN_S < agent["stop_watch_s"] < grace_s


def test_the_agent_is_a_sidecar_whose_own_restart_drains_nothing() -> None:
    agent = container("agent")
    assert agent["restartPolicy"] == "Always"
    assert "lifecycle" not in agent


def test_the_unit_and_its_broker_end_in_the_right_order() -> None:
    unit = AGENT.unit_settings()
    environment = dict(
        value.split("=", 1) for key, value in unit if key == "Environment" and value.count("=") == 1
    )
    assert dict(unit)["Before"] == environment["BROKER_UNIT"]
    assert float(environment["SHAREDROUTES_STOP_WATCH"]) == 0
    assert environment.keys() - {"BROKER_UNIT"} <= {option.variable for option in OPTIONS}
