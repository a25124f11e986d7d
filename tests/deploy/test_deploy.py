"""The files under deploy/: real tools find nothing wrong with them, and the agent takes what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from sharedroutes import __version__
from sharedroutes.broker_agent.process.command import EXIT_CODES
from sharedroutes.broker_agent.settings.sidecar_config import DEFAULT_HTTP, OPTIONS
from sharedroutes.cli.agent_ctl import DEFAULT_HTTP as CTL_HTTP
from sharedroutes.daemon.pages import VIEWS

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"
UNIT: Final = DEPLOY / "sharedroutes-agent.service"
DOCKERFILE: Final = DEPLOY / "Dockerfile"
KUBERNETES: Final = DEPLOY / "kubernetes.yaml"
AGENT_TOML: Final = (DEPLOY / "agent.toml").read_text(encoding="utf-8")
BROKER_CONF: Final = "brokerName = broker-a\nbrokerIP1 = 10.0.0.1\nstorePathRootDir = /home/rocketmq/store\n"

_BROKER_ENDS_IN_S: Final = 20.0
"""So long RocketMQ's broker takes at most after a SIGTERM."""

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs Debian's systemd")
needs_hadolint = pytest.mark.skipif(
    sys.platform == "darwin" and not Path(sys.executable).with_name("hadolint").exists(),
    reason="its package has none for macOS",
)


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def tool(name: str) -> str:
    """Return the path of a tool of this environment."""
    return str(Path(sys.executable).with_name(name))


def settings_of_unit() -> list[tuple[str, str]]:
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    return [
        (key, value) for line in lines for key, eq, value in [line.partition("=")] if eq and key.isalpha()
    ]


def instruction(name: str) -> str:
    """Return what the last instruction of that name in the Dockerfile says."""
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    said: str = re.findall(rf"^{name} (.*)$", text, re.MULTILINE)[-1]
    return said


def entry_point() -> list[str]:
    """Return the command of the image, without the variable that `env` sets for it."""
    words: list[str]
    env, variable, *words = json.loads(instruction("ENTRYPOINT"))
    assert (env, variable) == ("env", "PYTHONOPTIMIZE=2")
    return words


def documents() -> Mapping[str, Any]:
    """Return the objects of the Kubernetes file by kind."""
    return {found["kind"]: found for found in yaml.safe_load_all(KUBERNETES.read_text(encoding="utf-8"))}


def container(name: str) -> dict[str, Any]:
    pod = documents()["StatefulSet"]["spec"]["template"]["spec"]
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


@needs_hadolint
def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    done = run(tool("hadolint"), str(DOCKERFILE))
    assert (done.returncode, done.stdout) == (0, "")


def test_the_kubernetes_file_is_valid() -> None:
    done = run(tool("kubernetes-validate"), "--strict", str(KUBERNETES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed") == len(documents())


@needs_systemd
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    installed = tool("sharedroutes")  # systemd looks whether it is there
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/sharedroutes/bin/sharedroutes", installed))
    done = run("systemd-analyze", "verify", str(unit))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
def test_systemd_calls_the_unit_hardened(tmp_path: Path) -> None:
    done = run("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=20", str(UNIT))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Overall exposure level" in done.stdout


def test_the_agent_takes_what_the_unit_says(tmp_path: Path) -> None:
    (command,) = [value for key, value in settings_of_unit() if key == "ExecStart"]
    assert "1 broker" in checked(shlex.split(command), tmp_path, usual_files())


def test_systemd_does_not_start_anew_what_cannot_work() -> None:
    unit = dict(settings_of_unit())
    assert unit["Restart"] == "on-failure"
    assert EXIT_CODES[int(unit["RestartPreventExitStatus"])].startswith("the configuration is wrong")
    assert unit["Type"] == "notify"
    assert unit["ExecReload"].endswith("-HUP $MAINPID")


def test_the_agent_takes_what_the_dockerfile_says(tmp_path: Path) -> None:
    words = [*entry_point(), *json.loads(instruction("CMD"))]
    assert "1 broker" in checked(words, tmp_path, usual_files())
    assert instruction("EXPOSE") == DEFAULT_HTTP.rpartition(":")[2]
    uid, _, gid = instruction("USER").partition(":")
    assert int(uid) > 0
    assert int(gid) > 0


def test_all_that_the_image_is_built_from_is_let_in() -> None:
    lines = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {path.partition("/")[0] for path in project["tool"]["setuptools"]["package-dir"].values()}
    named = {
        project["project"]["readme"],
        *project["project"]["license-files"],
        "pyproject.toml",
        "MANIFEST.in",
    }
    assert folders | named | {"requirements"} == let_in
    assert all((ROOT / name).exists() for name in let_in)


def test_what_asks_the_agent_is_a_command_of_it() -> None:
    words = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    assert words[0] == "sharedroutes"
    # Nobody listens there: that is said by the command itself, after it has understood all its words.
    done = run(sys.executable, "-m", "sharedroutes.cli", *words[1:], SHAREDROUTES_HTTP="127.0.0.1:1")
    assert done.returncode == 1
    assert "no agent answers at 127.0.0.1:1: " in done.stderr


def test_the_control_commands_ask_where_the_agent_serves() -> None:
    assert CTL_HTTP == DEFAULT_HTTP


def test_the_agent_takes_what_the_kubernetes_file_says(tmp_path: Path) -> None:
    agent, data = container("agent"), documents()["ConfigMap"]["data"]
    given = {one["name"]: one.get("value", "") for one in agent["env"]}
    given["SHAREDROUTES_REDIS_URL"] = "redis://:secret@redis:6379/0"
    given["SHAREDROUTES_BROKER_ADDRESS"] = given["SHAREDROUTES_BROKER_ADDRESS"].replace(
        "$(POD_IP)", "10.1.2.3"
    )
    assert set(given) - {"POD_IP"} <= {option.variable for option in OPTIONS}
    files = usual_files(data["agent.toml"], data["broker.conf"])
    words = [*entry_point(), *agent["args"]]
    assert "1 broker" in checked(words, tmp_path, files, **given)


def test_the_containers_of_the_pod_fit_together() -> None:
    broker, agent = container("broker"), container("agent")
    mounts = {one["mountPath"]: one for one in agent["volumeMounts"]}
    assert all(mount["readOnly"] for mount in mounts.values())
    (store,) = [one["mountPath"] for one in broker["volumeMounts"] if one["name"] == "store"]
    assert mounts[store]["name"] == "store"
    assert f"storePathRootDir = {store}\n" in documents()["ConfigMap"]["data"]["broker.conf"]
    (port,) = agent["ports"]
    settings = tomllib.loads(documents()["ConfigMap"]["data"]["agent.toml"])["agent"]
    assert settings["http"] == f"0.0.0.0:{port['containerPort']}"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert agent[probe]["httpGet"]["path"] in VIEWS
        assert agent[probe]["httpGet"]["port"] == port["name"]
    assert agent["image"].endswith(f":{__version__}")


def test_the_pod_has_the_time_to_drain() -> None:
    agent = tomllib.loads(documents()["ConfigMap"]["data"]["agent.toml"])["agent"]
    *_, script = container("broker")["lifecycle"]["preStop"]["exec"]["command"]
    (sleep_s,) = re.findall(r"^sleep (\d+)$", script, re.MULTILINE)
    grace_s = documents()["StatefulSet"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert agent["drain_wait_s"] < float(sleep_s)
    assert float(sleep_s) + _BROKER_ENDS_IN_S < agent["stop_watch_s"] < grace_s


def test_the_agent_is_a_sidecar_whose_own_restart_drains_nothing() -> None:
    agent = container("agent")
    assert agent["restartPolicy"] == "Always"
    assert "lifecycle" not in agent


def test_the_unit_and_its_broker_end_in_the_right_order() -> None:
    unit = settings_of_unit()
    environment = dict(
        value.split("=", 1) for key, value in unit if key == "Environment" and value.count("=") == 1
    )
    assert dict(unit)["Before"] == environment["BROKER_UNIT"]
    assert float(environment["SHAREDROUTES_STOP_WATCH"]) == 0
    assert environment.keys() - {"BROKER_UNIT"} <= {option.variable for option in OPTIONS}
