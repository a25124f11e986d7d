"""Groups in which a slave stands in for its master, or a controller chooses the master."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.remoting import RequestCode as Code
from tests.ports import free_port
from tests.real.rocketmq import RealController, RealNameServer, RealProcess
from tests.support import wait_until

from .cluster import MASTERS_AND_SLAVE, ask, broker_cluster, replicas, route
from .name_servers import Kind, name_servers
from .peers import Peer

pytestmark = pytest.mark.timeout(300)

TOPIC: Final = "DefaultCluster"
"""Of every broker, from its start on."""

ACTING: Final = {"enableSlaveActingMaster": "true"}
PATIENCE_S: Final = 60.0


@pytest.mark.parametrize("release", ["5.5.0", "5.3.3"])
@pytest.mark.parametrize("compatible", ["true", "false"])
def test_a_slave_stands_in_for_its_master(
    kind: Kind, folder: Path, redis_url: str, release: str, compatible: str
) -> None:
    place = folder / f"acting-{release}-{compatible}"
    settings = {
        name: {**MASTERS_AND_SLAVE[name], **ACTING, "compatibleWithOldNameSrv": compatible}
        for name in ("a-master", "a-slave")
    }
    supporting = {"supportActingMaster": "true"}
    with (
        name_servers(kind, place, redis_url=redis_url, release=release, settings=supporting) as servers,
        broker_cluster(release, place, servers, settings) as cluster,
    ):
        master, slave = cluster["a-master"].address, cluster["a-slave"].address
        for member in servers.members:
            assert replicas(member.address, TOPIC)["a"] == {"0": master, "1": slave}
        cluster["a-master"].kill()
        for member in servers.members:
            wait_until(
                lambda: replicas(member.address, TOPIC).get("a") == {"0": slave},  # noqa: B023
                timeout_s=PATIENCE_S,
                description=f"the slave stands in at {member.address}",
            )
            found = route(member.address, TOPIC)
            assert found is not None
            assert [one["perm"] & 2 for one in found["queueDatas"]] == [0]
            group = ask(
                member.address,
                Code.GET_BROKER_MEMBER_GROUP,
                {"clusterName": "DefaultCluster", "brokerName": "a"},
            )
            assert group["brokerMemberGroup"]["brokerAddrs"] == {"1": slave}
        cluster["a-master"].start()
        for member in servers.members:
            wait_until(
                lambda: replicas(member.address, TOPIC).get("a") == {"0": master, "1": slave},  # noqa: B023
                timeout_s=PATIENCE_S,
                description=f"the master is back at {member.address}",
            )


def controlled(controller: str) -> Mapping[str, Mapping[str, str]]:
    said = {"brokerName": "a", "enableControllerMode": "true", "controllerAddr": controller}
    said |= {"brokerId": "-1", "brokerRole": "SLAVE", "allAckInSyncStateSet": "true"}
    return {"one": said, "two": said}


@pytest.mark.parametrize("controller_is", ["beside", "in a name server"])
def test_a_controller_chooses_another_master(
    kind: Kind, folder: Path, redis_url: str, controller_is: str
) -> None:
    place = folder / f"controller-{controller_is.partition(' ')[0]}"
    port = free_port()
    where = f"127.0.0.1:{port}"
    controller: RealProcess
    if controller_is == "beside":
        controller = RealController("5.5.0", place / "controller", port)
    else:
        settings = RealController.settings(place / "controller", port)
        controller = RealNameServer(
            "5.5.0", place / "controller", {**settings, "enableControllerInNamesrv": "true"}
        )
    with (
        controller,
        name_servers(kind, place, redis_url=redis_url) as servers,
        broker_cluster("5.5.0", place, servers, controlled(where)) as cluster,
        Peer("5.5.0", place / "peer") as peer,
    ):
        addresses = {broker.address for broker in cluster.brokers.values()}

        def master() -> str:
            found = [replicas(member.address, TOPIC).get("a", {}) for member in servers.members]
            return found[0].get("0", "") if found[0] == found[1] else ""

        wait_until(master, timeout_s=PATIENCE_S, description="a master is chosen")
        wait_until(
            lambda: "#SyncStateSetNums\t2" in peer.admin("getSyncStateSet", "-a", where, "-b", "a"),
            timeout_s=PATIENCE_S,
            pause_s=0.5,
            description="the controller counts both as in sync: it chooses no other",
        )
        first = master()
        (other,) = addresses - {first}
        next(one for one in cluster.brokers.values() if one.address == first).kill()
        wait_until(lambda: master() == other, timeout_s=PATIENCE_S, description="the other is the master")
        with peer.producer(servers.addresses) as producer:
            producer.send(TOPIC, "sync", 10)
            assert producer.failed == []
