"""The commands of the pages on Sentinel, Cluster and replicas, on servers of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sharedroutes.registry import Broker, RegistryConfig, RouteStore, TopicConfig
from tests.cluster.servers import SERVICE, ClusterServers, SentinelServers
from tests.pages.blocks import blocks_of
from tests.pages.shell import Shell
from tests.support import wait_until

BLOCKS: Final = blocks_of(__file__)
LASTING: Final = RegistryConfig(lease_ttl_s=600.0)
"""Nobody renews the lease of this broker."""


def register(url: str) -> None:
    with RouteStore.from_url(url, LASTING) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])


def names(kind: str, ports: list[int], usual: list[int]) -> dict[str, str]:
    """Return where the hosts of a page are, as a URL and as redis-cli name them."""
    hosts = enumerate(zip(ports, usual, strict=True), 1)
    found = {}
    for number, (port, written) in hosts:
        found[f"{kind}{number}:{written}"] = f"127.0.0.1:{port}"
        found[f"-h {kind}{number} -p {written}"] = f"-h 127.0.0.1 -p {port}"
    return found


def test_the_commands_on_a_cluster(own_cluster: ClusterServers, tmp_path: Path) -> None:
    register(own_cluster.url)
    ports = [own_cluster.port(node) for node in own_cluster.nodes[:3]]
    with Shell(tmp_path, names("n", ports, [7000, 7000, 7000])) as shell:
        for block in BLOCKS["docs/howto/cluster.md"]:
            shell.try_out(block)
        assert "broker-a" in shell.run("sharedroutes brokers")


def test_the_commands_with_replicas(sentinels: SentinelServers, tmp_path: Path) -> None:
    primary = sentinels.primary()
    replica = next(server for server in sentinels.data if server is not primary)
    here = {"-h primary": f"-p {sentinels.port(primary)}", "-h r1": f"-p {sentinels.port(replica)}"}
    with Shell(tmp_path, here) as shell:
        for block in BLOCKS["docs/howto/many-clients.md"]:
            shell.try_out(block)


def test_the_commands_with_sentinels(own_sentinels: SentinelServers, tmp_path: Path) -> None:
    register(own_sentinels.url)
    before = own_sentinels.primary()
    own_sentinels.await_replicas(before, 2)
    ports = [own_sentinels.port(sentinel) for sentinel in own_sentinels.sentinels]
    with Shell(tmp_path, names("s", ports, [26379, 26379, 26379])) as shell:
        for block in BLOCKS["docs/howto/sentinel.md"]:
            assert SERVICE in block.text or "SHAREDROUTES_REDIS_URL" not in block.text
            shell.try_out(block)
        wait_until(
            lambda: own_sentinels.primary() is not before,
            timeout_s=60,
            description="there is another primary",
        )
        assert "broker-a" in shell.run("sharedroutes brokers")
