"""The Java and the command of docs/howto/java.md: compiled with each release, run beside fronts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from demo.nameserver.rocketmq import FEW_THREADS, JARS
from sharedroutes.registry import EmbeddedServer
from tests.pages.blocks import blocks_of
from tests.pages.shell import Shell
from tests.real.rocketmq import RealBroker, java
from tests.support import wait_until

from .conftest import RELEASES
from .name_servers import NameServers, name_servers
from .test_tutorial import mq_scripts

pytestmark = pytest.mark.timeout(300)

((JAVA, MQADMIN),) = blocks_of(__file__).values()
PROGRAM: Final = """
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

public class Service {{
    public static void main(String[] words) throws Exception {{
        try {{
            {lines}
            producer.start();
            System.out.println(producer.send(new Message("orders", "paid".getBytes())).getSendStatus());
        }} finally {{
            System.exit(0);  // after a send that fails, the producer's threads would keep it alive for ever
        }}
    }}
}}
"""


@pytest.fixture(scope="module")
def servers(folder: Path) -> Iterator[NameServers]:
    """Return the two fronts of the page, at which a broker has registered."""
    place = folder / "java-page"
    with EmbeddedServer() as server, name_servers("front", place, redis_url=server.url) as fronts:
        settings = {"namesrvAddr": fronts.addresses}
        with RealBroker(RELEASES[0], place / "broker", settings):
            yield fronts


@pytest.fixture
def shell(servers: NameServers, folder: Path, tmp_path: Path) -> Iterator[Shell]:
    """Return a terminal in which front1 and front2 are the two fronts."""
    scripts = mq_scripts(folder / "java-page" / tmp_path.name, folder / "java-page" / tmp_path.name / "home")
    names = {f"front{place + 1}:9876": servers[place].address for place in range(2)}
    with Shell(tmp_path, names, {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}) as shell:
        yield shell


@pytest.mark.parametrize("release", RELEASES)
def test_a_service_sends_after_one_address_has_changed(release: str, shell: Shell, tmp_path: Path) -> None:
    source = tmp_path / "Service.java"
    source.write_text(PROGRAM.format(lines=shell.put_in(JAVA.text)), encoding="utf-8")
    compiled = subprocess.run(
        ("javac", "-Xlint:all", "-Werror", "-proc:none", "-cp", f"{JARS / release}/*", source),
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr
    command = java(release, *FEW_THREADS, "-Xmx128m", f"-Duser.home={tmp_path}", "Service")
    command[2] += f"{os.pathsep}{tmp_path}"
    wait_until(lambda: "SEND_OK" in said(command), timeout_s=90, description="the service has sent")
    wait_until(
        lambda: "broker-real" in shell.run(MQADMIN.text), timeout_s=60, description="mqadmin shows the route"
    )


def said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
