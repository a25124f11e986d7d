"""A store whose clock steps, or stands still for a while; needs Debian's faketime, as tests/cluster does."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharedroutes.registry import EmbeddedServer
from sharedroutes.registry.embedded import find_server
from tests.cluster.test_clock import _START, IN_STEP, STANDING, Clock, faketime_library
from tests.faults.plant import Plant


@pytest.fixture
def stepping(tmp_path: Path) -> Iterator[Clock]:
    """Return a server whose clock the test sets; it is in step at first."""
    start, time_file = tmp_path / "start", tmp_path / "time"
    parts = {"library": faketime_library(), "time_file": str(time_file), "binary": find_server()}
    start.write_text(_START.format(**{name: shlex.quote(part) for name, part in parts.items()}))
    start.chmod(0o755)
    time_file.write_text(f"{IN_STEP}\n")
    server = EmbeddedServer(binary=str(start)).start()
    yield Clock(server, time_file)
    server.kill()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("step", ["+65 x1", "-65 x1", STANDING])
def test_agents_go_on_whatever_the_clock_of_the_store_does(
    tmp_path: Path, stepping: Clock, step: str
) -> None:
    with Plant(tmp_path, stepping.server) as plant:
        agents = plant.agent("first"), plant.agent("second")
        plant.until_served()
        stepping.show(step)
        plant.rewrite_topics("payments")
        plant.until_served()
        plant.broker.kill()
        plant.until_gone()
        plant.broker.start()
        plant.until_served()
        stepping.show(IN_STEP)
        plant.rewrite_topics("audit")
        plant.until_served()
        plant.until_settled()
        for agent in agents:
            agent.kill()
        plant.until_gone()
