"""Every command of docs/tutorial.md, in the order of the page, beside a real broker, prints what is shown.

Put in are other ports, a home of its own, and RocketMQ's scripts: they come with its binary release, which is
not on Maven Central. `pkill` becomes an end of the very process that the test started.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from demo.nameserver.rocketmq import FEW_THREADS, NO_TLS
from tests.pages.blocks import ROOT, blocks_of
from tests.pages.shell import Shell
from tests.ports import free_broker_port, free_port
from tests.real.rocketmq import java

from .conftest import RELEASES

pytestmark = pytest.mark.timeout(400)

PORTS: Final = {"6379": free_port, "9876": free_port, "10911": free_broker_port}
SCRIPTS: Final = {
    "mqbroker": (
        NO_TLS,
        "-Xmx512m",
        "-XX:MaxDirectMemorySize=256m",
        "org.apache.rocketmq.broker.BrokerStartup",
    ),
    "mqadmin": ("-Xmx256m", "org.apache.rocketmq.tools.command.MQAdminStartup"),
}


def mq_scripts(folder: Path, home: Path) -> Path:
    """Write what the binary release has in its folder `bin`, and return that folder."""
    scripts = folder / "bin"
    scripts.mkdir(parents=True)
    (home / "conf").mkdir(parents=True)
    for name, words in SCRIPTS.items():
        own = (f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", *FEW_THREADS)
        command = " ".join(f"'{word}'" for word in java(RELEASES[0], *own, *words))
        script = scripts / name
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return scripts


@pytest.fixture
def shell(folder: Path) -> Iterator[Shell]:
    """Return the terminals of a reader at home, in a fresh clone."""
    home, checkout = folder / "tutorial" / "home", folder / "tutorial" / "checkout"
    scripts = mq_scripts(folder / "tutorial", home)
    subprocess.run(("git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), checkout), check=True)
    environment = {
        "HOME": str(home),
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip")),
        "ROCKETMQ_HOME": str(home),
        "SHAREDROUTES_NAMESERVER_HTTP": "off",
    }
    with Shell(checkout, {port: str(another()) for port, another in PORTS.items()}, environment) as shell:
        yield shell


def test_each_command_does_what_the_page_says(shell: Shell) -> None:
    ((page, blocks),) = blocks_of(__file__).items()
    assert page == "docs/tutorial.md"
    assert sum(bool(block.shown) for block in blocks) >= 7
    for block in blocks:
        text = block.text
        if "pkill" in text:
            shell.end("mqbroker ")
            text = re.sub(r"^pkill .*\n", "", text, flags=re.MULTILINE)
        shell.until_shown(block._replace(text=text))
