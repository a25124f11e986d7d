"""The files under deploy/nameserver/: the front takes what they say, and they fit together."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sharedroutes import __version__
from sharedroutes.cli.processes import FRONT_HTTP
from sharedroutes.daemon.pages import VIEWS
from sharedroutes.nameserver.command import EXIT_CODES
from sharedroutes.nameserver.process_config import DEFAULT_HTTP, DEFAULT_LISTEN, OPTIONS, ProcessConfig
from tests.deploy.files import FRONT, run

URL: Final = "redis://:secret@redis:6379/0"


def pod() -> dict[str, Any]:
    return dict(FRONT.objects()["Deployment"]["spec"]["template"]["spec"])


def settings(words: Sequence[str], **environment: str) -> dict[str, str]:
    """Return what the command takes the words for, by the names in a namesrv.conf; nothing is warned of."""
    assert Path(words[0]).name == "sharedroutes"
    given = [word.replace("/etc/sharedroutes", str(FRONT.folder)) for word in words[1:]]
    done = run(sys.executable, "-m", "sharedroutes.cli", *given, "--print-config", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_the_front_takes_what_the_unit_says() -> None:
    found = settings(shlex.split(dict(FRONT.unit_settings())["ExecStart"]), SHAREDROUTES_REDIS_URL="")
    assert (found["listenPort"], found["redis"]) == ("9876", "redis://127.0.0.1:6379/0")


def test_systemd_starts_anew_what_can_work_and_gives_it_time_to_end() -> None:
    found = dict(FRONT.unit_settings())
    assert (found["Type"], found["Restart"], found["KillMode"]) == ("notify", "on-failure", "mixed")
    assert EXIT_CODES[int(found["RestartPreventExitStatus"])].startswith("the settings are wrong")
    assert found["ExecReload"].endswith("-HUP $MAINPID")
    assert ProcessConfig().drain_s < float(found["TimeoutStopSec"])
    assert ProcessConfig().max_connections < int(found["LimitNOFILE"])


def test_the_front_takes_what_the_dockerfile_says() -> None:
    found = settings(
        [*FRONT.entry_point(), *json.loads(FRONT.instruction("CMD"))], SHAREDROUTES_REDIS_URL=URL
    )
    ports = [address.rpartition(":")[2] for address in (DEFAULT_LISTEN, DEFAULT_HTTP)]
    assert FRONT.instruction("EXPOSE").split() == ports
    assert found["http"] == f"0.0.0.0:{ports[1]}"
    asks = json.loads(FRONT.instruction("HEALTHCHECK").partition("CMD ")[2])
    assert asks == ["sharedroutes", "agent-ctl", "--http", DEFAULT_HTTP, "health"]


def test_doctor_looks_for_a_front_where_it_serves() -> None:
    assert FRONT_HTTP == DEFAULT_HTTP


def test_the_front_takes_what_the_kubernetes_file_says() -> None:
    (container,) = pod()["containers"]
    given = {one["name"]: one.get("value", URL) for one in container["env"]}
    assert given.keys() <= {option.variable for option in OPTIONS}
    found = settings(FRONT.entry_point(), **given)
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
    service, deployment = FRONT.objects()["Service"]["spec"], FRONT.objects()["Deployment"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert service["selector"] == labels == deployment["selector"]["matchLabels"]
    (port,) = service["ports"]
    (container,) = pod()["containers"]
    assert port["port"] in [one["containerPort"] for one in container["ports"]]
    assert FRONT.objects()["PodDisruptionBudget"]["spec"]["minAvailable"] < deployment["replicas"]
