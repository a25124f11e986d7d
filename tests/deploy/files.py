"""The files under deploy/, as the tests of the agent's and of the front's read them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def tool(name: str) -> str:
    """Return the path of a tool of this environment."""
    return str(Path(sys.executable).with_name(name))


class Deployed(NamedTuple):
    """The folder with the files of one process."""

    folder: Path
    unit: Path
    kubernetes: Path

    @property
    def dockerfile(self) -> Path:
        return self.folder / "Dockerfile"

    def unit_settings(self) -> list[tuple[str, str]]:
        """Return the settings of the unit, some of which stand there several times."""
        lines = self.unit.read_text(encoding="utf-8").splitlines()
        return [
            (key, value) for line in lines for key, eq, value in [line.partition("=")] if eq and key.isalpha()
        ]

    def instruction(self, name: str) -> str:
        """Return what the last instruction of that name in the Dockerfile says."""
        text = self.dockerfile.read_text(encoding="utf-8").replace("\\\n", " ")
        said: str = re.findall(rf"^{name} (.*)$", text, re.MULTILINE)[-1]
        return said

    def entry_point(self) -> list[str]:
        """Return the command of the image, without the variable that `env` sets for it."""
        words: list[str]
        env, variable, *words = json.loads(self.instruction("ENTRYPOINT"))
        assert (env, variable) == ("env", "PYTHONOPTIMIZE=2")
        return words

    def objects(self) -> Mapping[str, Any]:
        """Return the objects of the Kubernetes file by kind."""
        return {one["kind"]: one for one in yaml.safe_load_all(self.kubernetes.read_text(encoding="utf-8"))}


DEPLOY: Final = ROOT / "deploy"
KUSTOMIZE: Final = DEPLOY / "kubernetes"
AGENT: Final = Deployed(DEPLOY, DEPLOY / "sharedroutes-agent.service", KUSTOMIZE / "agent" / "broker-a.yaml")
FRONT: Final = Deployed(
    DEPLOY / "nameserver",
    DEPLOY / "nameserver" / "sharedroutes-nameserver.service",
    KUSTOMIZE / "nameserver" / "nameserver.yaml",
)
