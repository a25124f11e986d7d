"""A small shop on a real server, with a real front and a real agent that show their pages of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sharedroutes.registry import (
    Broker,
    EmbeddedServer,
    RegistryConfig,
    RouteStore,
    TopicConfig,
)
from tests.broker_agent.agent_site import AgentProcess
from tests.broker_agent.data_files import topics_json
from tests.broker_agent.stand_ins import BrokerProcess
from tests.nameserver.running import FrontRun
from tests.support import wait_until

TOPICS: Final = ("audit", "clicks", "invoices", "mails", "orders", "payments", "prices", "returns", "stock")
_FOR_LONG_MS: Final = 600_000
_AS_ALICE: Final = RegistryConfig(actor="sharedroutes wipe of alice@ops")


@dataclass(frozen=True)
class Stage:
    """The processes, and the registry."""

    server: EmbeddedServer
    store: RouteStore
    front: FrontRun
    agent: AgentProcess

    @property
    def pages(self) -> dict[str, str]:
        """The addresses of the pages."""
        places = {"front": self.front.found(r"HTTP at (\S+)")[1], "agent": self.agent.http()}
        return {name: f"http://{place}/" for name, place in places.items()}


def broker(name: str, address: str, broker_id: int = 0) -> Broker:
    return Broker(name, address, broker_id, "shop", heartbeat_timeout_ms=_FOR_LONG_MS)


def topics(*names: str) -> list[TopicConfig]:
    return [TopicConfig(name, 8, 8) for name in names]


def furnish(store: RouteStore, url: str) -> None:
    """Register brokers: one whom clients cannot reach, one that an operator closed, one that is away."""
    store.register(broker("broker-b", "10.0.0.2:10911"), topics(*TOPICS[:6]))
    store.register(broker("broker-b", "10.0.0.12:10911", 1), topics(*TOPICS[:6]))
    store.register(broker("broker-c", "10.0.0.3:10911"), topics(*TOPICS[3:]))
    gone = store.register(broker("broker-d", "10.0.0.4:10911"), topics("returns", "legacy.archive"))
    store.unregister(gone, reason="broker gone")
    with RouteStore.from_url(url, _AS_ALICE) as operator:
        operator.admin.wipe_write_perm("broker-c")
    store.kv.put("ORDER_TOPIC_CONFIG", "orders", "broker-b:8")
    for client in ("checkout-1", "checkout-2"):
        store.hint(client, ["broker-b"], ttl_s=60.0)


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Run it all until the end of the block."""
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer())
        store = stack.enter_context(RouteStore.from_url(server.url))
        furnish(store, server.url)
        process = stack.enter_context(BrokerProcess())
        conf, table = folder / "broker.conf", folder / "store" / "config" / "topics.json"
        conf.write_text(
            f"brokerName = broker-a\nbrokerClusterName = shop\nbrokerIP1 = 127.0.0.1\n"
            f"listenPort = {process.port}\nstorePathRootDir = {folder / 'store'}\n"
        )
        table.parent.mkdir(parents=True)
        table.write_bytes(topics_json(*TOPICS[:4]))
        agent = AgentProcess(
            folder, "--broker-conf", str(conf), "--redis", server.url, "--http", "127.0.0.1:0"
        )
        stack.enter_context(agent)
        front = stack.enter_context(FrontRun(folder, "--redis", server.url))
        front.until_ready()
        wait_until(
            lambda: "orders" in store.topics() and len(store.brokers()) == 3,
            timeout_s=30.0,
            description="the agent has registered its broker",
        )
        yield Stage(server, store, front, agent)
