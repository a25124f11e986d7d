"""A broker and its clients move from a real name server to a front and back: the steps of docs/migrate.md."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.remoting import RequestCode as Code
from tests.pages.blocks import blocks_of
from tests.pages.shell import Shell
from tests.ports import free_port
from tests.real.rocketmq import RealBroker, RealNameServer, RealProcess
from tests.support import wait_until

from .cluster import addresses, ask, route
from .conftest import RELEASES
from .name_servers import Front
from .peers import Consumer, Peer, Producer
from .test_tutorial import mq_scripts

pytestmark = pytest.mark.timeout(240)

RELEASE: Final = RELEASES[0]
TOPIC: Final = "moved"
QUICK: Final = {
    "registerNameServerPeriod": "10000",
    "updateNameServerAddrPeriod": "1000",
    "clientChannelMaxIdleTimeSeconds": "30",
    "mappedFileSizeCommitLog": str(64 << 20),
}
"""The broker reads its list of name servers anew each second, and not every two minutes.

When one is no longer in it, the broker closes their connection at once only if it last asked that one; else
the connection stays until it has been idle for so long, and so does the broker in the table at its other end.
"""


class Move:
    """A name server, a front, a broker that is told which of them to register at, and Java clients."""

    def __init__(self, old: RealNameServer, front: Front, broker: RealBroker, peer: Peer, http: str) -> None:
        self.old = old
        self.front = front
        self.peer = peer
        self.broker = broker
        self.http = http
        self._sent: list[str] = []

    @property
    def both(self) -> str:
        """The list in which both stand."""
        return f"{self.old.address};{self.front.address}"

    def list_at_broker(self, *servers: RealProcess) -> None:
        """Tell the broker its name servers, and wait until these have it and the others have not."""
        told = ";".join(server.address for server in servers)
        command = ("updateBrokerConfig", "-b", self.broker.address, "-k", "namesrvAddr", "-v", told)
        said = self.peer.admin(*command)
        assert "success" in said, said
        for server in (self.old, self.front):
            self.wait_listed(server, is_listed=server in servers)

    def wait_listed(self, server: RealProcess, *, is_listed: bool = True) -> None:
        """Wait until a name server has the broker, or has it no more."""
        expected = {self.broker.address} if is_listed else set()
        wait_until(
            lambda: addresses(server.address) == expected,
            timeout_s=60,
            pause_s=0.1,
            description=f"{expected} at {server.address}",
        )

    def send(self, *producers: Producer) -> None:
        """Have each producer send some messages, of which none fails."""
        for producer in producers:
            self._sent += producer.send(TOPIC, "sync", 10)
            assert producer.failed == []

    def send_anew(self, name_servers: str) -> None:
        """Have a producer send that begins now."""
        with self.peer.producer(name_servers) as producer:
            self.send(producer)

    def check_received(self, consumer: Consumer) -> None:
        """Wait until all that was sent has arrived."""
        assert set(self._sent) <= set(consumer.wait_received(len(set(self._sent))))


@pytest.fixture
def move(folder: Path, redis_url: str) -> Iterator[Move]:
    place, http = folder / "migration", f"127.0.0.1:{free_port()}"
    with (
        RealNameServer(RELEASE, place / "old") as old,
        Front(redis_url, place / "front", http=http) as front,
        RealBroker(RELEASE, place / "broker", {**QUICK, "namesrvAddr": old.address}) as broker,
        Peer(RELEASE, place / "peer") as peer,
    ):
        moving = Move(old, front, broker, peer, http)
        moving.wait_listed(old)
        said = peer.admin("updateTopic", "-n", old.address, "-b", broker.address, "-t", TOPIC)
        assert "success" in said, said
        wait_until(
            lambda: route(old.address, TOPIC), timeout_s=60, description="the name server has the topic"
        )
        yield moving


@pytest.fixture
def shell(move: Move, folder: Path, redis_url: str) -> Iterator[Shell]:
    """Return a terminal of whoever moves, with the hosts of the page."""
    scripts = mq_scripts(folder / "migration", folder / "migration" / "home")
    names = {
        "old1:9876;old2:9876;front1:9876;front2:9876": move.both,
        "old1:9876": move.old.address,
        "front1:9876": move.front.address,
        "front1:9878": move.http,
        "BROKER:10911": move.broker.address,
        "URL": redis_url,
        "-t TOPIC": f"-t {TOPIC}",
        "~/namesrv/kvConfig.json": str(move.old.conf.with_name("kv.json")),
    }
    path = os.pathsep.join([str(scripts), str(Path(sys.executable).parent), os.environ["PATH"]])
    with Shell(folder / "migration", names, {"PATH": path}) as shell:
        yield shell


def test_messages_flow_at_each_step_to_the_front_and_back(move: Move, shell: Shell) -> None:
    old, front, peer = move.old, move.front, move.peer
    ((look, copy, list_both, compare),) = blocks_of(__file__).values()
    with peer.producer(old.address) as at_old:
        move.send(at_old)
        assert addresses(front.address) == set()
        shell.until_shown(look)

        peer.admin("updateOrderConf", "-n", old.address, "-t", TOPIC, "-m", "put", "-v", "broker-real:4")
        shell.run(copy.text)
        table = {"namespace": "ORDER_TOPIC_CONFIG"}
        assert ask(front.address, Code.GET_KVLIST_BY_NAMESPACE, table) == {"table": {TOPIC: "broker-real:4"}}

        shell.run(list_both.text)
        move.wait_listed(front)
        assert shell.run(compare.text).count(move.broker.address) == 4
        assert route(front.address, TOPIC) == route(old.address, TOPIC)
        with (
            peer.producer(move.both) as at_both,
            peer.producer(front.address) as at_front,
            peer.consumer(move.both, TOPIC) as consumer,
        ):
            move.send(at_old, at_both, at_front)
            move.check_received(consumer)

            move.list_at_broker(front)
            move.send(at_both, at_front)
            old.stop()
            move.send(at_both, at_front)
            move.send_anew(front.address)
            move.check_received(consumer)

            old.start()
            move.list_at_broker(old, front)
            move.send(at_both, at_front)
            move.send_anew(old.address)
            move.list_at_broker(old)
            front.stop()
            move.send(at_both)
            move.send_anew(old.address)
            move.check_received(consumer)
