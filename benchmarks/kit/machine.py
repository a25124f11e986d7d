"""The machine and the software of a run, and how busy it was."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from sharedroutes.registry.embedded import find_server

_CPUINFO: Final = Path("/proc/cpuinfo")
_MODEL: Final = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
_VERSION: Final = re.compile(r"^(\w+) server v=(\S+)", re.IGNORECASE)
_PACKAGES: Final = ("redis", "hiredis", "uvloop", "kazoo", "aetcd", "grpcio", "protobuf", "pyspark")
_PROGRAMS: Final = (("java", "-version"), ("etcd", "--version"), ("redis-benchmark", "--version"))
_VERSION_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware, software and date of a run."""

    cpu: str
    cores: int
    system: str
    """Name and release of the kernel, and what the platform adds to it."""

    python: str
    server: str
    date: str
    """UTC, ISO 8601."""

    versions: Mapping[str, str] = field(default_factory=dict)
    """Of what else took part: packages, and other servers that are installed."""

    def __str__(self) -> str:
        others = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return (
            f"{self.cpu}, {self.cores} cores, {self.system}; Python {self.python}, {self.server}, {others}; "
            f"{self.date}"
        )


def this_machine() -> Machine:
    """Return the machine of this process; raises EmbeddedServerError without a server to measure with."""
    return Machine(
        cpu=cpu_model(_CPUINFO.read_text(encoding="utf-8") if _CPUINFO.exists() else ""),
        cores=os.cpu_count() or 1,
        system=platform.platform(),
        python=platform.python_version(),
        server=server_version(_said(find_server(), "--version")),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=dict(_versions()),
    )


def load_now() -> float:
    """Return how many processes wanted to run, in the mean of the last minute."""
    return os.getloadavg()[0]


def cpu_model(cpuinfo: str) -> str:
    """Return the model that the text of /proc/cpuinfo names, else what the platform calls the processor."""
    found = _MODEL.search(cpuinfo)
    return found[1].strip() if found else platform.processor() or platform.machine()


def server_version(described: str) -> str:
    """Return name and version from what a server prints for --version."""
    found = _VERSION.match(described)
    return f"{found[1]} {found[2]}" if found else described.strip()


def version_said(program: str, flag: str) -> str:
    """Return the first line that a program says of its version."""
    return next(iter(_said(program, flag).splitlines()), "").strip()


def _versions() -> Iterator[tuple[str, str]]:
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "absent"
    for program, flag in _PROGRAMS:
        if found := shutil.which(program):
            yield program, _number(version_said(found, flag))


def _number(said: str) -> str:
    """Return the version in a line that says more."""
    found = re.search(r"\d+(?:\.\d+)+\S*", said)
    return found[0].strip('"') if found else said


def _said(program: str, flag: str) -> str:
    done = subprocess.run((program, flag), capture_output=True, text=True, timeout=_VERSION_S, check=True)
    return done.stdout or done.stderr
