"""The Go client, ali-ons of Node, and the gRPC client through a proxy, with a broker and two name servers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from demo.nameserver.rocketmq import JARS
from tests.ports import free_port
from tests.real.rocketmq import RealProxy, java

from .cluster import MASTERS_AND_SLAVE, BrokerCluster, broker_cluster
from .name_servers import Kind, name_servers
from .peers import Peer, fresh

pytestmark = pytest.mark.timeout(400)

HERE: Final = Path(__file__).parent
BUILD_S: Final = 150
BUILDS: Final = 2
RUN_S: Final = 150
CLUSTER: Final = "DefaultCluster"


@pytest.fixture(scope="module")
def cluster(kind: Kind, folder: Path, redis_url: str) -> Iterator[BrokerCluster]:
    place = folder / "others"
    settings = {"b-master": MASTERS_AND_SLAVE["b-master"]}
    with (
        name_servers(kind, place, redis_url=redis_url) as servers,
        broker_cluster("5.5.0", place, servers, settings) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def peer(folder: Path) -> Iterator[Peer]:
    with Peer("5.5.0", folder / "peer-of-others") as peer:
        yield peer


@pytest.fixture
def topic(peer: Peer, cluster: BrokerCluster) -> str:
    name = fresh("topic")
    said = peer.admin("updateTopic", "-n", cluster.name_servers.addresses, "-c", CLUSTER, "-t", name)
    assert "success" in said, said
    return name


def built(name: str, command: Sequence[str], product: str, registry: str) -> Path:
    """Return the folder of a client that is built beside the jars, once for each state of its sources."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not on PATH")
    sources = sorted(one for one in (HERE / name).iterdir() if one.is_file())
    folder = JARS.parent / name
    told = json.dumps([one.read_text(encoding="utf-8") for one in sources])
    mark = folder / "built-from"
    if not (folder / product).exists() or not mark.exists() or mark.read_text(encoding="utf-8") != told:
        folder.mkdir(parents=True, exist_ok=True)
        for one in sources:
            shutil.copy(one, folder)
        build(command, folder, registry)
        mark.write_text(told, encoding="utf-8")
    return folder


def build(command: Sequence[str], folder: Path, registry: str) -> None:
    """Run what builds a client, which downloads parts from a registry."""
    for _ in range(BUILDS):
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
        if done.returncode == 0:
            return
    said = done.stdout + done.stderr
    pytest.fail(f"{' '.join(command)} failed {BUILDS} times; it needs {registry}:\n{said}", pytrace=False)


def received(command: Sequence[str], folder: Path) -> set[str]:
    """Return the bodies that a client prints."""
    environment = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return {words[1] for words in lines if len(words) == 2 and words[0] == "received"}


def test_the_go_client_sends_and_receives(cluster: BrokerCluster, topic: str, tmp_path: Path) -> None:
    client = built("go", ("go", "build", "-o", "client", "."), "client", "proxy.golang.org") / "client"
    command = (str(client), cluster.name_servers.addresses, topic)
    assert received(command, tmp_path) == {f"go-{number}" for number in range(10)}


def test_ali_ons_sends_and_receives(cluster: BrokerCluster, topic: str, tmp_path: Path) -> None:
    install = ("npm", "ci", "--no-audit", "--no-fund")
    client = built("node", install, "node_modules/ali-ons", "registry.npmjs.org") / "client.js"
    command = ("node", str(client), cluster.name_servers.addresses, topic)
    assert received(command, tmp_path) == {f"node-{number}" for number in range(10)}


def test_a_message_goes_through_the_grpc_proxy(
    peer: Peer, cluster: BrokerCluster, topic: str, folder: Path, tmp_path: Path
) -> None:
    group = fresh("group")
    said = peer.admin("updateSubGroup", "-n", cluster.name_servers.addresses, "-c", CLUSTER, "-g", group)
    assert "success" in said, said
    with RealProxy("5.5.0", folder / "proxy", cluster.name_servers.addresses, free_port()) as proxy:
        command = java("grpc", str(HERE / "Grpc.java"), proxy.address, topic, group)
        assert received(command, tmp_path) == {f"grpc-{number}" for number in range(10)}
