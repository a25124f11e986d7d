"""A cluster of real brokers among name servers, and what the name servers say of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from sharedroutes.remoting import RequestCode as Code
from sharedroutes.remoting.fastjson import loads
from tests.real.rocketmq import RealBroker
from tests.support import wait_until

from .name_servers import NameServers
from .wire import Link, RawAnswer, Request

_REGISTERED_S: Final = 150.0
"""About half of the brokers of 5.x register for the first time ten seconds after they have started."""

_PAUSE_S: Final = 0.1
_GET_BROKER_RUNTIME_INFO: Final = 28

_QUICK: Final = {
    "registerNameServerPeriod": "10000",
    "mappedFileSizeCommitLog": str(64 << 20),
    "slaveReadEnable": "true",
}


class BrokerCluster:
    """Brokers by a name of the test's own, as `a-master`."""

    def __init__(self, brokers: Mapping[str, RealBroker], name_servers: NameServers) -> None:
        self.brokers = brokers
        self.name_servers = name_servers

    def __getitem__(self, name: str) -> RealBroker:
        return self.brokers[name]

    def wait_whole(self) -> None:
        """Wait until every name server has every broker at its address."""
        expected = {broker.address for broker in self.brokers.values()}
        for server in self.name_servers.members:
            try:
                wait_until(
                    lambda: addresses(server.address) == expected,  # noqa: B023 - called in this round
                    timeout_s=_REGISTERED_S,
                    pause_s=_PAUSE_S,
                    description=f"{expected} at {server.address}",
                )
            except AssertionError as error:
                there = addresses(server.address)
                missing = [broker for broker in self.brokers.values() if broker.address not in there]
                said = "\n".join(broker.said()[-4000:] for broker in missing)
                raise AssertionError(f"{error}; there: {there}; the others said:\n{said}") from None


def ask(address: str, code: int, fields: Mapping[str, str] | None = None) -> Any:
    """Return the body of a name server's answer, or None without a body."""
    link = Link(address)
    try:
        answer = link.ask(Request(code=code, fields=fields))
    finally:
        link.close()
    assert isinstance(answer, RawAnswer), f"{address}: {answer}"
    return loads(answer.body) if answer.body else None


def addresses(address: str) -> set[str]:
    """Return the addresses of all brokers that a name server knows."""
    table = ask(address, Code.GET_BROKER_CLUSTER_INFO)["brokerAddrTable"]
    return {one for broker in table.values() for one in broker["brokerAddrs"].values()}


def route(address: str, topic: str) -> dict[str, Any] | None:
    """Return a name server's route of a topic."""
    found = ask(address, Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    return None if found is None else dict(found)


def replicas(address: str, topic: str) -> dict[str, dict[str, str]]:
    """Return the addresses in a route, by the broker's name and by id."""
    found = route(address, topic) or {"brokerDatas": []}
    return {broker["brokerName"]: broker["brokerAddrs"] for broker in found["brokerDatas"]}


def log_end(address: str) -> int:
    """Return the offset, in bytes, at which a broker's commit log ends; 0 from one that just starts."""
    found = ask(address, _GET_BROKER_RUNTIME_INFO)
    return 0 if found is None else int(found["table"]["commitLogMaxOffset"])


@contextmanager
def broker_cluster(
    release: str,
    folder: Path,
    name_servers: NameServers,
    settings: Mapping[str, Mapping[str, str]],
    *,
    also: str = "",
) -> Iterator[BrokerCluster]:
    """Run brokers and wait until the name servers have them; `also`: more name servers for the brokers."""
    told = ";".join(filter(None, (name_servers.addresses, also)))
    brokers = {
        name: RealBroker(release, folder / name, {**_QUICK, "namesrvAddr": told, **said})
        for name, said in settings.items()
    }
    with ExitStack() as stack, ThreadPoolExecutor() as starters:
        list(starters.map(stack.enter_context, brokers.values()))
        cluster = BrokerCluster(brokers, name_servers)
        cluster.wait_whole()
        yield cluster


_COPIED: Final = {"inSyncReplicas": "2", "enableAutoInSyncReplicas": "true"}
"""A master of 5.x answers when the slave has the message, if there is one, as one of 4.x always does."""

MASTERS_AND_SLAVE: Final = {
    "a-master": {"brokerName": "a", "brokerId": "0", "brokerRole": "SYNC_MASTER", **_COPIED},
    "a-slave": {"brokerName": "a", "brokerId": "1", "brokerRole": "SLAVE"},
    "b-master": {"brokerName": "b", "brokerId": "0", "brokerRole": "ASYNC_MASTER"},
}
