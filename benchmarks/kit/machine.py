"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from sharedroutes.registry.embedded import find_server

_CPUINFO: Final = Path("/proc/cpuinfo")
_MODEL: Final = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
_VERSION: Final = re.compile(r"^(\w+) server v=(\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware, software and date of a run."""

    cpu: str
    cores: int
    system: str
    python: str
    redis_py: str
    hiredis: str
    server: str
    date: str
    """UTC, ISO 8601."""

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.system}; Python {self.python}, redis-py {self.redis_py}, "
            f"hiredis {self.hiredis}, {self.server}; {self.date}"
        )


def this_machine() -> Machine:
    """Return where this process runs; raises EmbeddedServerError without a server to measure with."""
    described = subprocess.run((find_server(), "--version"), capture_output=True, text=True, check=True)
    return Machine(
        cpu=cpu_model(_CPUINFO.read_text(encoding="utf-8") if _CPUINFO.exists() else ""),
        cores=os.cpu_count() or 1,
        system=platform.platform(),
        python=platform.python_version(),
        redis_py=_installed("redis"),
        hiredis=_installed("hiredis"),
        server=server_version(described.stdout),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def cpu_model(cpuinfo: str) -> str:
    """Return the model that the text of /proc/cpuinfo names, else what the platform calls the processor."""
    found = _MODEL.search(cpuinfo)
    return found[1].strip() if found else platform.processor() or platform.machine()


def server_version(described: str) -> str:
    """Return name and version from what a server prints for --version."""
    found = _VERSION.match(described)
    return f"{found[1]} {found[2]}" if found else described.strip()


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
