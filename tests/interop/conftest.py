"""Name servers and the jars of RocketMQ for the tests in this folder."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.registry import EmbeddedServer
from tests.real.rocketmq import JARS

from .name_servers import Kind

RELEASES: Final = ("5.5.0", "5.3.3", "4.9.7")

_HERE: Final = Path(__file__).parent
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_DOWNLOAD_S: Final = 600


def pytest_sessionstart() -> None:
    """Have Maven copy the jars that are not there yet."""
    for project in _HERE.glob("*/pom.xml"):
        folder = JARS / project.parent.name
        if not folder.exists():
            _copy(project, folder)


def _copy(project: Path, folder: Path) -> None:
    """Copy a project's jars to a folder that is there only when they all are."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", str(project), _COPY, "-DincludeScope=runtime"]
    subprocess.run([*command, f"-DoutputDirectory={partial}"], check=True, timeout=_DOWNLOAD_S)
    partial.rename(folder)


@pytest.fixture(scope="session")
def kind(request: pytest.FixtureRequest) -> Kind:
    """Return which name servers are tested."""
    return "original" if request.config.getoption("--original") else "front"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return where processes keep their files: in memory, as brokers want a disk less than 90 % full."""
    memory = Path("/dev/shm")  # noqa: S108
    if not memory.is_dir():
        yield tmp_path_factory.mktemp("rocketmq")
        return
    with tempfile.TemporaryDirectory(prefix="interop-", dir=memory, ignore_cleanup_errors=True) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """Return the address of a fresh server."""
    with EmbeddedServer() as server:
        yield server.url
