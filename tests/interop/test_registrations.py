"""Brokers that register in each of the ways that their settings offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.registry import EmbeddedServer
from sharedroutes.remoting import RequestCode as Code
from tests.support import wait_until

from .cluster import BrokerCluster, ask, broker_cluster, route
from .name_servers import Kind, name_servers
from .peers import Peer, fresh

pytestmark = pytest.mark.timeout(240)

CLUSTER: Final = "DefaultCluster"
PATIENCE_S: Final = 60.0
PAUSE_S: Final = 0.1
SHAPE: Final = ("readQueueNums", "writeQueueNums", "perm")

_NOWHERE: Final[Mapping[str, Any]] = {"queueDatas": ()}

EVERYWHERE: Final = {"asking": {"forceRegister": "false"}, "compressed": {"compressedRegister": "true"}}
IN_5: Final = {
    "split": {"enableSplitRegistration": "true", "splitRegistrationSize": "3"},
    "single": {"enableSingleTopicRegister": "true"},
}
WAYS: Final = {"4.9.7": EVERYWHERE, "5.3.3": {**EVERYWHERE, **IN_5}, "5.5.0": {**EVERYWHERE, **IN_5}}


@pytest.fixture(scope="module")
def running(release: str, kind: Kind, folder: Path, server: EmbeddedServer) -> Iterator[BrokerCluster]:
    """Run a master for each way to register."""
    if kind == "original":
        pytest.skip("a broker of 5.x that compresses cannot register there")
    place = folder / f"ways-{release}"
    settings = {way: {"brokerName": way, **said} for way, said in WAYS[release].items()}
    with (
        name_servers(kind, place, redis_url=server.url, release=release) as servers,
        broker_cluster(release, place, servers, settings) as cluster,
    ):
        yield cluster


@pytest.fixture
def cluster(running: BrokerCluster) -> BrokerCluster:
    running.wait_whole()
    return running


@pytest.fixture(params=[*EVERYWHERE, *IN_5])
def way(request: pytest.FixtureRequest, release: str) -> str:
    if request.param not in WAYS[release]:
        pytest.skip(f"{release} has no such setting")
    return str(request.param)


def own_topics(cluster: BrokerCluster, way: str) -> Mapping[str, tuple[int, ...]]:
    """Return the queues and the permission of each topic that a broker has."""
    table = ask(cluster[way].address, Code.GET_ALL_TOPIC_CONFIG)["topicConfigTable"]
    return {name: tuple(one[key] for key in SHAPE) for name, one in table.items()}


def routed_topics(address: str, way: str, topics: Mapping[str, object]) -> Mapping[str, tuple[int, ...]]:
    """Return what a name server says of these topics at a broker."""
    rows = ((topic, one) for topic in topics for one in (route(address, topic) or _NOWHERE)["queueDatas"])
    return {topic: tuple(one[key] for key in SHAPE) for topic, one in rows if one["brokerName"] == way}


def wait_equal(cluster: BrokerCluster, way: str) -> Mapping[str, tuple[int, ...]]:
    """Wait until both name servers have the broker's own table; return it."""
    own: Mapping[str, tuple[int, ...]] = {}
    for member in cluster.name_servers.members:

        def is_equal(address: str = member.address) -> bool:
            nonlocal own
            own = own_topics(cluster, way)
            return routed_topics(address, way, own) == own

        wait_until(
            is_equal,
            timeout_s=PATIENCE_S,
            pause_s=PAUSE_S,
            description=f"{member.address} has {own} of {way}, not {routed_topics(member.address, way, own)}",
        )
    return own


def make(peer: Peer, cluster: BrokerCluster, way: str, topic: str, *, queues: int, perm: int) -> None:
    """Have mqadmin make or change a topic at one broker, which may answer late on a busy machine."""
    words = ("-b", cluster[way].address, "-t", topic, "-r", str(queues), "-w", str(queues), "-p", str(perm))
    wait_until(
        lambda: "success" in peer.admin("updateTopic", "-n", cluster.name_servers.addresses, *words),
        timeout_s=PATIENCE_S,
        description=f"mqadmin makes {topic} at {way}",
    )


def test_topics_are_made_changed_and_deleted(peer: Peer, cluster: BrokerCluster, way: str) -> None:
    topic, other = fresh("topic"), fresh("topic")
    make(peer, cluster, way, topic, queues=4, perm=6)
    make(peer, cluster, way, other, queues=2, perm=6)
    assert wait_equal(cluster, way)[topic] == (4, 4, 6)
    make(peer, cluster, way, topic, queues=8, perm=4)
    own = wait_equal(cluster, way)
    assert (own[topic], own[other]) == ((8, 8, 4), (2, 2, 6))
    said = peer.admin("deleteTopic", "-n", cluster.name_servers.addresses, "-c", CLUSTER, "-t", topic)
    assert "success" in said, said
    for member in cluster.name_servers.members:
        wait_until(
            lambda: route(member.address, topic) is None,  # noqa: B023 - called in this round
            timeout_s=PATIENCE_S,
            description=f"{member.address} has heard that {topic} was deleted",
        )
    # What the broker registers next does not bring it back.
    make(peer, cluster, way, other, queues=3, perm=6)
    own = wait_equal(cluster, way)
    assert topic not in own
    assert own[other] == (3, 3, 6)
    assert [route(member.address, topic) for member in cluster.name_servers.members] == [None, None]


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_nothing_is_lost_when_a_broker_starts_again(
    peer: Peer, cluster: BrokerCluster, way: str, end: str
) -> None:
    topics = [fresh("topic") for _ in range(5)]
    for queues, topic in enumerate(topics, 1):
        make(peer, cluster, way, topic, queues=queues, perm=6)
    before = wait_equal(cluster, way)
    assert [before[topic] for topic in topics] == [(queues, queues, 6) for queues in range(1, 6)]
    broker = cluster[way]
    (broker.stop if end == "stopped" else broker.kill)()
    for member in cluster.name_servers.members:
        wait_until(
            lambda: route(member.address, topics[0]) is None,  # noqa: B023 - called in this round
            timeout_s=PATIENCE_S,
            description=f"{way} is gone at {member.address}",
        )
    broker.start()
    cluster.wait_whole()
    assert wait_equal(cluster, way).items() >= before.items()  # some of its own it makes late
