"""The commands of the pages that need no more than a store, in the order of each page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig
from tests.cluster.certificates import Certificates
from tests.pages.blocks import Block, blocks_of
from tests.pages.shell import Shell

pytestmark = pytest.mark.long

BLOCKS: Final = blocks_of(__file__)
JUST_NOW: Final = {"'yesterday noon'": "now", "14:05": "now", "--from 2h": "--from 0s"}
"""Nothing has happened here yesterday."""

LASTING: Final = RegistryConfig(lease_ttl_s=600.0)
"""Nobody renews the leases of these brokers."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return certificates, and a front's with its key in one file."""
    made = Certificates(tmp_path_factory.mktemp("certificates")).make()
    parts = (Path(made.key("server")), Path(made.crt("server")))
    Path(made.crt("front")).write_text("".join(part.read_text() for part in parts))
    return made


@pytest.fixture
def shell(own_server: EmbeddedServer, certificates: Certificates, tmp_path: Path) -> Iterator[Shell]:
    """Return the terminal of somebody who has brokers with the topic of the pages, and a backup."""
    here = {"/etc/ssl/front.pem": certificates.crt("front"), "/etc/ssl/ca.pem": certificates.crt("ca")}
    at_free_ports = {f"SHAREDROUTES_NAMESERVER_{name}": "127.0.0.1:0" for name in ("LISTEN", "HTTP")}
    environment = {"SHAREDROUTES_REDIS_URL": own_server.url, "PASSWORD": "of-the-reader", **at_free_ports}
    with (
        RouteStore.from_url(own_server.url, LASTING) as store,
        Shell(tmp_path, here | JUST_NOW, environment) as shell,
    ):
        for name in ("broker-a", "broker-b"):
            store.register(Broker(name, f"10.0.0.{ord(name[-1])}:10911"), [TopicConfig("orders")])
        shell.run(
            "sharedroutes kv put ORDER_TOPIC_CONFIG orders broker-a:4\nsharedroutes export backup.ndjson"
        )
        yield shell


@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
def test_the_commands_of_a_page_run_as_they_stand(blocks: list[Block], shell: Shell) -> None:
    for block in blocks:
        shell.try_out(block)


def test_a_user_of_the_page_may_read_and_not_write(shell: Shell, own_server: EmbeddedServer) -> None:
    (block,) = [one for one in BLOCKS["docs/howto/acl-and-tls.md"] if "redis-cli" in one.text]
    shell.run(block.text)
    reader = own_server.url.replace("redis://", "redis://sharedroutes-reader:of-the-reader@")
    assert "broker-b" in shell.run(f"sharedroutes brokers --redis {reader}")
    with pytest.raises(AssertionError, match="role"):
        shell.run(f"sharedroutes wipe broker-a --redis {reader}")
