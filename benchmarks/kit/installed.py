"""The agent as an operator installs it: as deploy/ says, and with nothing else of this checkout's extras."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).resolve().parents[2]
_UNIT: Final = _ROOT / "deploy" / "sharedroutes-agent.service"
_PLACE: Final = "/opt/sharedroutes"
"""Where the operator installs it."""

_NOT_COPIED: Final = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "*.egg-info", "tests", "docs"
)


class Interpreter(NamedTuple):
    """A Python, and the environment in which it runs agents."""

    python: str
    environment: Mapping[str, str]


HERE: Final = Interpreter(sys.executable, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
"""What this process runs on, with all that it can import."""


def install_agent(folder: Path) -> Interpreter:
    """Install the agent of this checkout in a new environment: half a minute; raises CalledProcessError."""
    print("installing an agent as an operator does ...", file=sys.stderr, flush=True)
    place, checkout = folder / "installed", folder / "checkout"
    shutil.copytree(_ROOT, checkout, symlinks=True, ignore=_NOT_COPIED)  # a build leaves files there
    # What the shell of a developer sets, such as PYTHONDONTWRITEBYTECODE, is not set by systemd.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    constraints = checkout / "requirements" / "constraints.txt"
    pip = (place / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(environment, sys.executable, "-m", "venv", place)
    _run(environment, *pip, "--constraint", constraints, f"{checkout}[agent]")
    environment |= _of_the_unit(place)
    _run(environment, place / "bin" / "sharedroutes", "agent", "--help")  # leaves the bytecode
    return Interpreter(str(place / "bin" / "python"), environment)


def _of_the_unit(place: Path) -> dict[str, str]:
    """Return the variables that the systemd unit sets, for another place than the operator's."""
    lines = _UNIT.read_text(encoding="utf-8").splitlines()
    words = [word for line in lines if line.startswith("Environment=") for word in shlex.split(line)]
    pairs = [word.removeprefix("Environment=").partition("=") for word in words]
    return {name: value.replace(_PLACE, str(place)) for name, _, value in pairs}


def _run(environment: Mapping[str, str], *command: str | Path) -> None:
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
