"""Pages that install from a checkout and run what they have installed, each in the order of its commands."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig
from tests.broker_agent.data_files import broker_conf, put, topics_json
from tests.client.test_rocketmq_producer import StoringBroker
from tests.deploy.files import AGENT
from tests.pages.blocks import ROOT, Block, blocks_of
from tests.pages.shell import Shell
from tests.ports import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

BLOCKS: Final = blocks_of(__file__)
AGENT_PAGES: Final = ("docs/agent.md", "docs/upgrading.md")
"""The second goes on with the agent of the first."""

OTHERS: Final = {page: blocks for page, blocks in BLOCKS.items() if page not in AGENT_PAGES}
RESTART: Final = "systemctl restart sharedroutes-agent\n"
URL: Final = "redis://127.0.0.1:6379/0"
NOT_COPIED: Final = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "*.egg-info", "tests", "docs"
)


@pytest.fixture
def shell(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[Shell]:
    """Return a terminal in a copy of the checkout, with an empty environment of Python."""
    checkout, environment = tmp_path / "checkout", tmp_path / "environment"
    shutil.copytree(ROOT, checkout, symlinks=True, ignore=NOT_COPIED)
    subprocess.run((sys.executable, "-m", "venv", environment), check=True)
    ports = {port: str(free_port()) for port in ("9876", "9877", "9878")}
    here = {URL: own_server.url, "/opt/": f"{tmp_path}/opt/", "/etc/": f"{tmp_path}/etc/", **ports}
    own = {
        "PATH": f"{environment}/bin{os.pathsep}{os.environ['PATH']}",
        "SHAREDROUTES_REDIS_URL": own_server.url,
        "SHAREDROUTES_HTTP": f"127.0.0.1:{ports['9877']}",
        "SHAREDROUTES_NAMESERVER_HTTP": f"127.0.0.1:{ports['9878']}",
        "SHAREDROUTES_STOP_WATCH": "0",  # as the unit has it
    }
    with Shell(checkout, here, own) as shell:
        yield shell


async def run(shell: Shell, blocks: list[Block]) -> None:
    """Run blocks outside of the event loop, in which brokers answer."""
    for block in blocks:
        await asyncio.to_thread(shell.until_shown, block)


@pytest.mark.parametrize("blocks", OTHERS.values(), ids=OTHERS)
async def test_what_a_page_installs_runs(
    blocks: list[Block], shell: Shell, own_server: EmbeddedServer
) -> None:
    config = RegistryConfig(lease_ttl_s=600.0)
    async with StoringBroker() as broker:
        with RouteStore.from_url(own_server.url, config) as store:
            store.register(Broker("broker-a", broker.address), [TopicConfig("orders", 1, 1)])
        await run(shell, blocks)
        counts = [int(count) for block in blocks for count in re.findall(r"--count (\d+)", block.text)]
        assert len(broker.stored) == sum(counts)


async def test_an_agent_is_installed_serves_its_broker_and_is_upgraded(shell: Shell, tmp_path: Path) -> None:
    start = next(block.text for block in BLOCKS["docs/agent.md"] if block.text.endswith("agent.toml\n"))
    etc, home = tmp_path / "etc", tmp_path / "home"
    async with StoringBroker() as broker:
        put(home / "config" / "topics.json", topics_json("orders"))
        put(etc / "rocketmq" / "broker.conf", broker_conf("broker-a", broker.port, home).encode())
        settings = (AGENT.folder / "agent.toml").read_text(encoding="utf-8")
        put(etc / "sharedroutes" / "agent.toml", shell.put_in(settings).encode())
        await run(shell, BLOCKS["docs/agent.md"])
        for block in BLOCKS["docs/upgrading.md"]:
            before, restart, after = block.text.partition(RESTART)
            await run(shell, [block._replace(text=before)])
            if restart:
                await asyncio.to_thread(shell.end, start.strip(), signal.SIGTERM)
                await run(shell, [block._replace(text=start), block._replace(text=after)])
        changes = await asyncio.to_thread(shell.run, "sharedroutes changes")
    assert " up " in changes
    assert " down " not in changes
