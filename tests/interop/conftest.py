"""Name servers and the jars of RocketMQ for the tests in this folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from demo.nameserver.rocketmq import JARS, JarsUnavailable, fetch
from sharedroutes.registry import EmbeddedServer

from .name_servers import Kind
from .peers import Peer

RELEASES: Final = ("5.5.0", "5.3.3", "4.9.7")

_HERE: Final = Path(__file__).parent


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have Maven copy the jars that are not there yet, before pytest's processes start."""
    if hasattr(session.config, "workerinput"):
        return
    for project in sorted(_HERE.glob("*/pom.xml")):
        folder = JARS / project.parent.name
        try:
            if not folder.exists():
                fetch(project, folder)
        except JarsUnavailable as error:
            pytest.exit(str(error), returncode=pytest.ExitCode.INTERNAL_ERROR)


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


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """Return a release of RocketMQ; a test that names some releases itself runs with these alone."""
    return str(request.param)


@pytest.fixture(scope="module")
def server(release: str) -> Iterator[EmbeddedServer]:
    """Return a server for each release: fronts that end before their brokers leave those in the table."""
    with EmbeddedServer() as server:
        yield server


@pytest.fixture(scope="module")
def peer(release: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Peer]:
    """Return the clients and mqadmin of a release."""
    with Peer(release, folder / f"peer-{request.path.stem}-{release}") as peer:
        yield peer
