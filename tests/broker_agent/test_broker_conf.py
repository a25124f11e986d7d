"""Reading broker.conf: a real one, RocketMQ's defaults, and wrong values."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharedroutes.broker_agent.broker_conf import BrokerConf, Host, parse, read, this_host
from sharedroutes.registry import Broker, InvalidInput
from tests.broker_agent.data_files import REAL

HOST = Host("host-7", "10.0.0.7", Path("/home/rocketmq"))


def conf(*lines: str, host: Host = HOST, address: str = "") -> BrokerConf:
    return parse("\n".join(lines).encode("latin-1"), "broker.conf", host, address=address)


def problems(*lines: str, host: Host = HOST) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        conf(*lines, host=host)
    return str(caught.value).splitlines()


def test_the_file_of_a_real_broker_is_read() -> None:
    found = read(REAL / "broker.conf")
    assert found.broker == Broker("broker-a", "127.0.0.1:10911", 0, "DefaultCluster", "127.0.0.1:10912")
    assert found.topics_path == Path("/var/lib/rocketmq/store/config/topics.json")
    assert found.broker_permission == 6
    assert found.topics_elsewhere == ""


def test_an_empty_file_means_the_defaults_of_rocketmq() -> None:
    assert conf() == BrokerConf(
        broker=Broker("host-7", "10.0.0.7:10911", 0, "DefaultCluster", "10.0.0.7:10912"),
        topics_path=Path("/home/rocketmq/store/config/topics.json"),
    )


def test_java_properties_are_understood() -> None:
    found = conf("# a comment", "brokerName : b\\u0072oker\\", "   -x  ", "! another", "listenPort 1234")
    assert (found.broker.broker_name, found.broker.address) == ("broker-x", "10.0.0.7:1234")


def test_the_last_of_two_equal_keys_counts() -> None:
    assert conf("listenPort=1", "listenPort=2").broker.address == "10.0.0.7:2"


def test_addresses_and_ports_are_put_together() -> None:
    found = conf("brokerIP1=192.168.0.9", "brokerIP2=::1", "listenPort=30911", "haListenPort=40000")
    assert found.broker.address == "192.168.0.9:30911"
    assert found.broker.ha_address == "[::1]:40000"


def test_the_address_in_the_command_goes_before_the_one_in_the_file() -> None:
    found = conf("brokerIP1=192.168.0.9", address="broker.example:30911")
    assert found.broker.address == "broker.example:30911"


def test_a_wrong_address_in_the_command_is_refused() -> None:
    with pytest.raises(InvalidInput, match="broker address: 'nonsense' is not host:port"):
        conf(address="nonsense")


def test_a_host_without_an_address_needs_one_in_the_file() -> None:
    nowhere = HOST._replace(address=None)
    (problem,) = problems(host=nowhere)
    assert problem == "broker.conf: brokerIP1: is not set, and the address of this host is unknown; set it"
    assert conf("brokerIP1=10.1.1.1", host=nowhere).broker.ha_address == "10.1.1.1:10912"


@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SYNC_MASTER"])
def test_a_master_has_the_id_0_whatever_the_file_says(role: str) -> None:
    assert conf(f"brokerRole={role}", "brokerId=5").broker.broker_id == 0


def test_a_slave_has_the_id_in_the_file() -> None:
    assert conf("brokerRole=SLAVE", "brokerId=5").broker.broker_id == 5


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("", "listenPort=109x1"), "broker.conf:2: listenPort: '109x1' is not a whole number"),
        (("listenPort=65536",), "broker.conf:1: listenPort: 65536 is not within 1..65535"),
        (("brokerPermission=9",), "broker.conf:1: brokerPermission: 9 is not within 0..7"),
        (
            ("brokerName=a:b",),
            "broker.conf:1: brokerName: 'a:b' must not hold a colon",
        ),
        (
            ("brokerIP1=a b",),
            "broker.conf:1: brokerIP1:listenPort: 'a b:10911' is not host:port with a port within 1..65535",
        ),
        (
            ("brokerRole=SLAVE",),
            "broker.conf:1: brokerId: 0 is the id of a master; a SLAVE needs one above 0",
        ),
        (
            ("brokerRole=SLAVE", "brokerId=-1"),
            "broker.conf:2: brokerId: -1 is the id of a master; a SLAVE needs one above 0",
        ),
        (
            ("brokerRole=KING",),
            "broker.conf:1: brokerRole: 'KING' is none of ASYNC_MASTER, SYNC_MASTER, SLAVE",
        ),
        (
            ("enableControllerMode=true",),
            "broker.conf:1: enableControllerMode: this broker's role is elected at run time, not configured",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_line_and_key(lines: tuple[str, ...], problem: str) -> None:
    assert problems(*lines) == [problem]


def test_all_problems_are_reported_at_once() -> None:
    found = problems("# one", "listenPort=x", "long=a\\", "  b", "brokerPermission=y")
    assert [problem.split(":")[1] for problem in found] == ["2", "5"]


def test_an_escape_that_is_none_is_refused_with_its_line() -> None:
    assert problems("brokerName=b", "brokerClusterName=\\u12")[0].startswith("broker.conf:2: ")


@pytest.mark.parametrize("line", ["storeType=defaultRocksDB", "configManagerVersion=v2"])
def test_a_broker_with_its_topics_in_rocksdb_is_told_apart(line: str) -> None:
    assert conf(line).topics_elsewhere == line


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"^/nowhere/broker.conf: cannot be read: No such file"):
        read(Path("/nowhere/broker.conf"))


def test_this_host_has_a_name_and_a_home() -> None:
    host = this_host()
    assert host.name
    assert host.home.is_absolute()
    assert host.address is None or not host.address.startswith("127.")
