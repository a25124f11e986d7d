"""Brokers, clients and mqadmin of three releases with two name servers: two masters, one with a slave."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.registry import EmbeddedServer
from tests.support import wait_until

from .cluster import MASTERS_AND_SLAVE, BrokerCluster, broker_cluster, log_end, replicas, route
from .name_servers import Kind, NameServers, name_servers
from .peers import Peer, fresh

pytestmark = pytest.mark.timeout(240)

CLUSTER: Final = "DefaultCluster"
OF_EVERY_BROKER: Final = CLUSTER
"""A topic that a slave has from its start on: of a new one it hears from its master once a minute."""


@pytest.fixture(scope="module")
def beside(release: str, folder: Path) -> Iterator[NameServers]:
    """Return a name server of RocketMQ, with which the brokers register, too."""
    place = folder / f"beside-{release}"
    with name_servers("original", place, redis_url="", release=release, count=1) as one:
        yield one


@pytest.fixture(scope="module")
def running(
    kind: Kind, release: str, folder: Path, server: EmbeddedServer, beside: NameServers
) -> Iterator[BrokerCluster]:
    place = folder / f"cluster-{release}"
    with (
        name_servers(
            kind, place, redis_url=server.url, release=release, settings={"updateConfig": "true"}
        ) as servers,
        broker_cluster(release, place, servers, MASTERS_AND_SLAVE, also=beside.addresses) as cluster,
    ):
        yield cluster


@pytest.fixture
def cluster(running: BrokerCluster) -> BrokerCluster:
    """Return the cluster with all its brokers, which the test before may have ended."""
    running.wait_whole()
    return running


@pytest.fixture
def topic(peer: Peer, cluster: BrokerCluster) -> str:
    """Return a topic that mqadmin has made on both masters, and that both name servers have."""
    name = fresh("topic")
    servers = cluster.name_servers.addresses
    words = ("updateTopic", "-n", servers, "-c", CLUSTER, "-t", name, "-r", "4", "-w", "4")
    # On a busy machine a broker may not answer within mqadmin's patience.
    wait_until(
        lambda: peer.admin(*words).count("success") == 2,
        timeout_s=60,
        description=f"mqadmin makes {name} on both masters",
    )
    for member in cluster.name_servers.members:
        wait_until(
            lambda: set(replicas(member.address, name)) == {"a", "b"},  # noqa: B023 - called in this round
            timeout_s=60,
            description=f"{name} at {member.address}",
        )
    return name


def test_topics_that_mqadmin_makes_and_deletes_are_at_both_name_servers(
    peer: Peer, cluster: BrokerCluster, beside: NameServers, topic: str
) -> None:
    for member in cluster.name_servers.members:
        assert topic in peer.admin("topicList", "-n", member.address).split()
        found = route(member.address, topic)
        assert found is not None
        assert [
            (one["brokerName"], one["writeQueueNums"]) for one in sorted(found["queueDatas"], key=str)
        ] == [
            ("a", 4),
            ("b", 4),
        ]
        assert replicas(member.address, topic) == {
            "a": {"0": cluster["a-master"].address, "1": cluster["a-slave"].address},
            "b": {"0": cluster["b-master"].address},
        }
    everywhere = f"{cluster.name_servers.addresses};{beside.addresses}"
    said = peer.admin("deleteTopic", "-n", everywhere, "-c", CLUSTER, "-t", topic)
    assert said.count("success") == 2, said  # of the brokers, and of the name servers
    for member in cluster.name_servers.members:
        wait_until(
            lambda: route(member.address, topic) is None,  # noqa: B023 - called in this round
            timeout_s=10,
            description=f"{member.address} has heard that {topic} was deleted",
        )
        assert topic not in peer.admin("topicList", "-n", member.address).split()


@pytest.mark.parametrize("mode", ["sync", "async", "oneway"])
def test_messages_arrive(peer: Peer, cluster: BrokerCluster, topic: str, mode: str) -> None:
    servers = cluster.name_servers.addresses
    with peer.producer(servers) as producer, peer.consumer(servers, topic) as consumer:
        bodies = producer.send(topic, mode, 40)
        assert producer.failed == []
        assert sorted(consumer.wait_received(40)) == sorted(bodies)
        if mode != "oneway":
            assert {one["broker"] for one in producer.sent} == {"a", "b"}


def test_ordered_messages_arrive_in_their_order(peer: Peer, cluster: BrokerCluster, topic: str) -> None:
    servers = cluster.name_servers.addresses
    with peer.producer(servers) as producer, peer.consumer(servers, topic, ordered=True) as consumer:
        bodies = producer.send(topic, "ordered", 40)
        assert producer.failed == []
        assert consumer.wait_received(40) == bodies


@pytest.mark.parametrize("way", ["killed", "stopped"])
def test_no_send_fails_when_a_name_server_ends(
    peer: Peer, cluster: BrokerCluster, topic: str, way: str
) -> None:
    first, second = cluster.name_servers.members
    servers = cluster.name_servers.addresses
    with peer.producer(servers) as producer, peer.consumer(servers, topic) as consumer:
        producer.begin(topic, "sync", 300, pause_ms=10)
        producer.wait_sent(50)
        (first.kill if way == "killed" else first.stop)()
        try:
            producer.wait_done()
            # Of its ends, none took a broker with it, and who comes now finds everything at the other one.
            with peer.producer(second.address) as later:
                later.send(topic, "sync", 20)
                assert later.failed == []
            assert replicas(second.address, topic)["a"].keys() == {"0", "1"}
        finally:
            first.start()
        assert producer.failed == []
        assert len(set(consumer.wait_received(320))) == 320


def test_consumers_go_on_at_the_slave_when_their_master_is_killed(peer: Peer, cluster: BrokerCluster) -> None:
    servers, topic, group = cluster.name_servers.addresses, OF_EVERY_BROKER, fresh("group")
    with peer.producer(servers) as producer:
        producer.send(topic, "sync", 80)
        assert {one["broker"] for one in producer.sent} == {"a", "b"}
        # No status tells this: a master of 5.x counts a slave only when it is connected.
        wait_until(
            lambda: 0 < log_end(cluster["a-slave"].address) == log_end(cluster["a-master"].address),
            timeout_s=30,
            description="the slave has copied what its master got",
        )
        cluster["a-master"].kill()
        try:
            for member in cluster.name_servers.members:
                wait_until(
                    lambda: replicas(member.address, topic)["a"].keys() == {"1"},  # noqa: B023
                    timeout_s=10,
                    description=f"only the slave is left at {member.address}",
                )
            with peer.consumer(servers, topic, group=group) as consumer:
                assert set(consumer.wait_received(len(producer.bodies))) == set(producer.bodies)
            # Messages go to the master that is left.
            with peer.producer(servers) as later:
                later.send(topic, "sync", 10)
                assert later.failed == []
                assert {one["broker"] for one in later.sent} == {"b"}
        finally:
            cluster["a-master"].start()


def test_routes_are_back_after_redis_came_back_empty(
    kind: Kind, server: EmbeddedServer, peer: Peer, cluster: BrokerCluster, topic: str
) -> None:
    if kind == "original":
        pytest.skip("RocketMQ's own name servers share no table")
    servers = cluster.name_servers.addresses
    with peer.producer(servers) as producer:
        producer.send(topic, "sync", 10)
        server.kill()
        server.start()
        producer.send(topic, "sync", 10)
        cluster.wait_whole()
        for member in cluster.name_servers.members:
            assert replicas(member.address, topic).keys() == {"a", "b"}
        producer.send(topic, "sync", 10)
        assert producer.failed == []


READING: Final = (
    ("clusterList",),
    ("clusterList", "-m"),
    ("topicList",),
    ("topicList", "-c"),
    ("topicRoute", "-t", "{topic}"),
    ("topicRoute", "-t", "{topic}", "-l"),
    ("topicRoute", "-t", "nowhere"),
    ("topicStatus", "-t", "{topic}"),
    ("topicClusterList", "-t", "{topic}"),
    ("allocateMQ", "-t", "{topic}", "-i", "10.0.0.1,10.0.0.2"),
    ("statsAll", "-t", "{topic}"),
    ("updateOrderConf", "-t", "{topic}", "-m", "get"),
    ("getNamesrvConfig",),
)
CHANGING: Final = (
    ("updateTopic", "-c", CLUSTER, "-t", "{topic}", "-r", "8", "-w", "8"),
    ("updateTopic", "-c", CLUSTER, "-t", "{topic}", "-o", "true"),
    ("updateTopicPerm", "-c", CLUSTER, "-t", "{topic}", "-p", "6"),
    ("updateSubGroup", "-c", CLUSTER, "-g", "group-{topic}"),
    ("wipeWritePerm", "-b", "b"),
    ("addWritePerm", "-b", "b"),
    ("wipeWritePerm", "-b", "nobody"),
    ("updateKvConfig", "-s", "space", "-k", "{topic}", "-v", "value"),
    ("deleteKvConfig", "-s", "space", "-k", "{topic}"),
    ("updateOrderConf", "-t", "{topic}", "-v", "a:4;b:4", "-m", "put"),
    ("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true"),
    ("getNamesrvConfig",),
    ("topicRoute", "-t", "{topic}"),
    ("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "false"),
    ("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/elsewhere"),
    ("updateOrderConf", "-t", "{topic}", "-m", "delete"),
    ("deleteSubGroup", "-c", CLUSTER, "-g", "group-{topic}"),
    ("deleteTopic", "-c", CLUSTER, "-t", "{topic}"),
)


def printed(peer: Peer, command: tuple[str, ...], server: str, topic: str) -> list[str]:
    """Return the lines without what differs from call to call: the name server, rates, times, places.

    And without what other tests have left there. Brokers tell of groups' topics one-way, and RocketMQ's
    name server takes in a table that it has missed only with the next version of the whole table.
    """
    words = [word.format(topic=topic) for word in command]
    text = peer.admin(words[0], "-n", server, *words[1:]).replace(server, "name server")
    lines = [line for line in text.splitlines() if not set(_OF_TESTS.findall(line)) - {topic}]
    plain = (_OF_4.sub("in black list.", _RATES.sub("#", _TIMES.sub("#", line))).rstrip() for line in lines)
    return sorted(line for line in plain if not _OF_JAVA.match(line))


def shared(ours: list[str], theirs: list[str]) -> tuple[list[str], list[str]]:
    """Return the settings that both have: a front has no pools, and the original no store."""
    tables = [dict(line.split("=", 1) for line in lines if "=  " in line) for lines in (ours, theirs)]
    both = tables[0].keys() & {key for key in tables[1] if key.strip() not in _OF_ONE}
    found, expected = ([f"{key}={table[key]}" for key in sorted(both)] for table in tables)
    assert any("orderMessageEnable" in line for line in found), ours
    return found, expected


def test_mqadmin_prints_what_it_prints_with_rocketmqs_own_name_server(
    peer: Peer, cluster: BrokerCluster, beside: NameServers, topic: str
) -> None:
    wait_until(
        lambda: replicas(beside.addresses, topic) == replicas(cluster.name_servers[0].address, topic),
        timeout_s=60,
        description=f"{topic} at RocketMQ's own name server",
    )

    def both_print(command: tuple[str, ...]) -> tuple[list[str], list[str]]:
        ours, theirs = (
            printed(peer, command, server, topic)
            for server in (cluster.name_servers[0].address, beside.addresses)
        )
        return shared(ours, theirs) if command[0] == "getNamesrvConfig" else (ours, theirs)

    def list_the_same() -> bool:
        ours, theirs = both_print(("topicList",))
        return ours == theirs

    with suppress(AssertionError):  # what is compared next says what differs
        wait_until(list_the_same, timeout_s=60, pause_s=0.5, description="the same topics at both")
    for command in (*READING, *CHANGING, *READING):
        ours, theirs = both_print(command)
        assert ours == theirs, command


_OF_TESTS: Final = re.compile(r"%RETRY%|\btopic-\d+")
_TIMES: Final = re.compile(r"\d{4}-\d{2}-\d{2} [\d:,]+")
_RATES: Final = re.compile(r"\s+\d+\.\d+\(.*|\s+\d+\s+\d+\s+\d+\s+\d+$")
"""What clusterList prints of a broker's load behind its version, and with -m of its messages."""

_OF_JAVA: Final = re.compile(r"\s+(at |\.\.\. )|See https?://")
"""Where in a program an exception was thrown, and where its release has a page about it."""

_OF_4: Final = re.compile(r"(?<=Can not update config )path$")
"""Other words for the same refusal."""

_OF_ONE: Final = ("bindAddress", "listenPort", "shutdownWaitTimeSeconds")
"""Settings that are a name server's own; the last has another default."""
