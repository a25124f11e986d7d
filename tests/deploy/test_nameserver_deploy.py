"""The files under deploy/nameserver/: tools find nothing wrong in them; the front takes what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from sharedroutes import __version__
from sharedroutes.daemon.pages import VIEWS
from sharedroutes.nameserver.command import EXIT_CODES
from sharedroutes.nameserver.process_config import DEFAULT_HTTP, DEFAULT_LISTEN, OPTIONS, ProcessConfig

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy" / "nameserver"
UNIT: Final = DEPLOY / "sharedroutes-nameserver.service"
DOCKERFILE: Final = DEPLOY / "Dockerfile"
KUBERNETES: Final = DEPLOY / "kubernetes.yaml"
URL: Final = "redis://:secret@redis:6379/0"

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


def unit() -> dict[str, str]:
    """Return the last value of each setting of the unit."""
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    return {key: value for line in lines for key, eq, value in [line.partition("=")] if eq and key.isalpha()}


def instruction(name: str) -> str:
    """Return what the last instruction of that name in the Dockerfile says."""
    said: str = re.findall(rf"^{name} (.*)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)[-1]
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


def pod() -> dict[str, Any]:
    return dict(documents()["Deployment"]["spec"]["template"]["spec"])


def settings(words: Sequence[str], **environment: str) -> dict[str, str]:
    """Return what the command takes the words for, by the names in a namesrv.conf; nothing is warned of."""
    assert Path(words[0]).name == "sharedroutes"
    given = [word.replace("/etc/sharedroutes", str(DEPLOY)) for word in words[1:]]
    done = run(sys.executable, "-m", "sharedroutes.cli", *given, "--print-config", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


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
    copy = tmp_path / UNIT.name
    installed = tool("sharedroutes")  # systemd looks whether it is there
    copy.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/sharedroutes/bin/sharedroutes", installed))
    done = run("systemd-analyze", "verify", str(copy))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
def test_systemd_calls_the_unit_hardened() -> None:
    done = run("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=20", str(UNIT))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Overall exposure level" in done.stdout


def test_the_front_takes_what_the_unit_says() -> None:
    found = settings(shlex.split(unit()["ExecStart"]), SHAREDROUTES_REDIS_URL="")
    assert (found["listenPort"], found["redis"]) == ("9876", "redis://127.0.0.1:6379/0")


def test_systemd_starts_anew_what_can_work_and_gives_it_time_to_end() -> None:
    found = unit()
    assert (found["Type"], found["Restart"], found["KillMode"]) == ("notify", "on-failure", "mixed")
    assert EXIT_CODES[int(found["RestartPreventExitStatus"])].startswith("the settings are wrong")
    assert found["ExecReload"].endswith("-HUP $MAINPID")
    assert ProcessConfig().drain_s < float(found["TimeoutStopSec"])
    assert ProcessConfig().max_connections < int(found["LimitNOFILE"])


def test_the_front_takes_what_the_dockerfile_says() -> None:
    found = settings([*entry_point(), *json.loads(instruction("CMD"))], SHAREDROUTES_REDIS_URL=URL)
    ports = [address.rpartition(":")[2] for address in (DEFAULT_LISTEN, DEFAULT_HTTP)]
    assert instruction("EXPOSE").split() == ports
    assert found["http"] == f"0.0.0.0:{ports[1]}"
    words = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    assert words == ["sharedroutes", "agent-ctl", "--http", DEFAULT_HTTP, "health"]
    assert min(int(number) for number in instruction("USER").split(":")) > 0


def test_both_images_are_built_from_the_same() -> None:
    name = "Dockerfile.dockerignore"
    assert (DEPLOY / name).read_text() == (DEPLOY.parent / name).read_text()


def test_the_front_takes_what_the_kubernetes_file_says() -> None:
    (container,) = pod()["containers"]
    given = {one["name"]: one.get("value", URL) for one in container["env"]}
    assert given.keys() <= {option.variable for option in OPTIONS}
    found = settings(entry_point(), **given)
    ports = {one["name"]: str(one["containerPort"]) for one in container["ports"]}
    assert (found["listenPort"], found["http"]) == (ports["remoting"], f"0.0.0.0:{ports['http']}")
    assert pod()["terminationGracePeriodSeconds"] > float(found["drainWait"]) + float(
        found["shutdownWaitTimeSeconds"]
    )
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in VIEWS
        assert container[probe]["httpGet"]["port"] in ports
    assert container["image"].endswith(f":{__version__}")


def test_the_service_leads_to_the_fronts() -> None:
    service, deployment = documents()["Service"]["spec"], documents()["Deployment"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert service["selector"] == labels == deployment["selector"]["matchLabels"]
    (port,) = service["ports"]
    (container,) = pod()["containers"]
    assert port["port"] in [one["containerPort"] for one in container["ports"]]
    assert documents()["PodDisruptionBudget"]["spec"]["minAvailable"] < deployment["replicas"]
