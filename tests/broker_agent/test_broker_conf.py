"""Reading broker.conf: a real one, RocketMQ's defaults, and wrong values."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.broker_agent.rocketmq.broker_conf import (
    BrokerConf,
    Site,
    parse,
    parse_running,
    read,
    this_site,
)
from sharedroutes.registry import Broker, InvalidInput
from tests.broker_agent.data_files import REAL

SITE = Site("host-7", "10.0.0.7", Path("/home/rocketmq"))


def conf(*lines: str, site: Site = SITE, **settings: Any) -> BrokerConf:
    return parse("\n".join(lines).encode("latin-1"), "broker.conf", site._replace(**settings))


def problems(*lines: str, site: Site = SITE, **settings: Any) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        conf(*lines, site=site, **settings)
    return str(caught.value).splitlines()


def running(*lines: str, **settings: Any) -> BrokerConf | None:
    usual = ("brokerName=broker-a", "brokerIP1=10.0.0.9", "listenPort=10911", "haListenPort=10912")
    content = "\n".join((*usual, *lines)).encode()
    return parse_running(content, "10.0.0.9:10911", SITE._replace(**settings))


def broker_of(name: str, address: str, ha_address: str, **fields: Any) -> Broker:
    return Broker(name, address, ha_address=ha_address, **fields)


def test_the_file_of_a_real_broker_is_read() -> None:
    found = read(REAL / "broker.conf")
    assert found.broker == broker_of("broker-a", "127.0.0.1:10911", "127.0.0.1:10912")
    assert found.topics_path == Path("/var/lib/rocketmq/store/config/topics.json")
    assert found.broker_permission == 6
    assert found.topics_elsewhere == ""


def test_an_empty_file_means_the_defaults_of_rocketmq() -> None:
    assert conf() == BrokerConf(
        named=False,
        broker=broker_of("host-7", "10.0.0.7:10911", "10.0.0.7:10912"),
        topics_path=Path("/home/rocketmq/store/config/topics.json"),
    )


def test_half_a_file_is_not_taken_for_one_with_fewer_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of it comes between two looks."""
    path = tmp_path / "broker.conf"
    path.write_bytes(b"brokerIP1=10.0.0.7\nbroker")
    monkeypatch.setattr(
        time, "sleep", lambda _: path.write_bytes(b"brokerIP1=10.0.0.7\nbrokerName=broker-x\n")
    )
    found = read(path)
    assert (found.broker.broker_name, found.named) == ("broker-x", True)


def test_a_file_that_is_away_for_a_moment_is_read_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broker.conf"
    monkeypatch.setattr(time, "sleep", lambda _: path.write_bytes(b"brokerName=broker-x\n"))
    assert read(path).broker.broker_name == "broker-x"


def test_a_file_that_changes_all_the_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"")
    monkeypatch.setattr(time, "sleep", lambda _: path.write_bytes(path.read_bytes() + b"a=b\n"))
    with pytest.raises(InvalidInput, match=r"broker\.conf: it changes all the time"):
        read(path)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("listenPort=1", "listenPort=2"), {"address": "10.0.0.7:2"}),
        (("brokerIP1=192.168.0.9", "listenPort=30911"), {"address": "192.168.0.9:30911"}),
        (("brokerIP2=::1", "haListenPort=40000"), {"ha_address": "[::1]:40000"}),
        # Java's way to write properties
        (("# a comment", "brokerName : b\\u0072oker\\", "   -x  ", "! another"), {"broker_name": "broker-x"}),
        (("listenPort 1234",), {"address": "10.0.0.7:1234"}),
        # A master has the id 0 whatever the file says.
        (("brokerRole=ASYNC_MASTER", "brokerId=5"), {"broker_id": 0}),
        (("brokerRole=SYNC_MASTER", "brokerId=5"), {"broker_id": 0}),
        (("brokerRole=SLAVE", "brokerId=5"), {"broker_id": 5}),
        # A broker in a container has ports of its own.
        (("isInBrokerContainer=true",), {"address": "10.0.0.7:6888", "ha_address": "10.0.0.7:6889"}),
        (
            ("isInBrokerContainer=true", "listenPort=20911", "haListenPort=40000"),
            {"address": "10.0.0.7:20911", "ha_address": "10.0.0.7:20912"},
        ),
        # The lease is the agent's whatever a broker asks of name servers.
        (
            ("enableSlaveActingMaster=true", "brokerNotActiveTimeoutMillis=5000"),
            {"heartbeat_timeout_ms": None},
        ),
    ],
)
def test_what_a_file_says_makes_the_broker(lines: tuple[str, ...], expected: dict[str, Any]) -> None:
    broker = conf(*lines).broker
    assert {name: getattr(broker, name) for name in expected} == expected


def test_the_address_in_the_command_goes_before_the_one_in_the_file() -> None:
    found = conf("brokerIP1=192.168.0.9", advertised="broker.example:30911")
    assert found.broker.address == "broker.example:30911"


def test_a_wrong_address_in_the_command_is_refused() -> None:
    with pytest.raises(InvalidInput, match="broker address: 'nonsense' is not host:port"):
        conf(advertised="nonsense")


def test_a_host_without_an_address_needs_one_in_the_file() -> None:
    nowhere = SITE._replace(address=None)
    (problem,) = problems(site=nowhere)
    assert problem == "broker.conf: brokerIP1: is not set, and the address of this host is unknown; set it"
    assert conf("brokerIP1=10.1.1.1", site=nowhere).broker.ha_address == "10.1.1.1:10912"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("", "listenPort=109x1"), "2: listenPort: '109x1' is not a whole number"),
        (("listenPort=1_0",), "1: listenPort: '1_0' is not a whole number"),
        (("listenPort=65536",), "1: listenPort: 65536 is not within 1..65535"),
        (("brokerPermission=9",), "1: brokerPermission: 9 is not within 0..7"),
        (("brokerId=0L",), "1: brokerId: '0L' is not a whole number"),
        (("brokerName=a:b",), "1: brokerName: 'a:b' must not hold a colon"),
        (
            ("brokerIP1=a b",),
            "1: brokerIP1:listenPort: 'a b:10911' is not host:port with a port within 1..65535",
        ),
        (("brokerRole=SLAVE",), "1: brokerId: 0 is the id of a master; a SLAVE needs one above 0"),
        (
            ("brokerRole=SLAVE", "brokerId=-1"),
            "2: brokerId: -1 is the id of a master; a SLAVE needs one above 0",
        ),
        (("brokerRole=KING",), "1: brokerRole: 'KING' is none of ASYNC_MASTER, SYNC_MASTER, SLAVE"),
        (
            ("enableControllerMode=true", "enableDLegerCommitLog=true"),
            "2: enableDLegerCommitLog: cannot be true together with enableControllerMode",
        ),
        (("enableSlaveActingMaster=yes",), "1: enableSlaveActingMaster: 'yes' is neither true nor false"),
        (("storeType=rocksdb",), "1: storeType: 'rocksdb' is neither default nor defaultRocksDB"),
        (("configManagerVersion=V2",), "1: configManagerVersion: 'V2' is neither v1 nor v2"),
        *(
            (
                (f"storePathRootDir={root}",),
                f"1: storePathRootDir: {root!r} is no full path: write where the broker is to find it",
            )
            for root in ("data/store", "~/store", "${user.home}/store")
        ),
    ],
)
def test_a_wrong_value_is_refused_with_line_and_key(lines: tuple[str, ...], problem: str) -> None:
    assert problems(*lines) == [f"broker.conf:{problem}"]


def test_all_problems_are_reported_at_once() -> None:
    found = problems("# one", "listenPort=x", "long=a\\", "  b", "brokerPermission=y")
    assert [problem.split(":")[1] for problem in found] == ["2", "5"]


def test_an_escape_that_is_none_is_refused_with_its_line() -> None:
    assert problems("brokerName=b", "brokerClusterName=\\u12")[0].startswith("broker.conf:2: ")


@pytest.mark.parametrize(
    "line", ["storeType=defaultRocksDB", "storeType=DefaultRocksDb", "configManagerVersion=v2"]
)
def test_a_broker_with_its_topics_in_rocksdb_is_told_apart(line: str) -> None:
    assert conf(line).topics_elsewhere == line


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"^/nowhere/broker.conf: cannot be read: No such file"):
        read(Path("/nowhere/broker.conf"))


@pytest.mark.parametrize("key", ["enableControllerMode", "enableDLegerCommitLog"])
def test_a_role_that_is_elected_is_told_apart(key: str) -> None:
    found = conf(f"{key}=TRUE", "brokerRole=SLAVE", "brokerId=-1")
    assert found.elected
    assert found.broker.broker_id == 0
    assert not conf(f"{key}=false").elected


@pytest.mark.parametrize(
    ("said", "acting"),
    [
        (("enableSlaveActingMaster=true",), True),
        (("enableSlaveActingMaster=False",), False),
        (("enableSlaveActingMaster=",), None),
        ((), None),  # in a file of RocketMQ 5 it may mean false, of RocketMQ 4 that there is no such thing
    ],
)
def test_whether_a_slave_may_act_for_its_master_is_what_is_said_of_it(
    said: tuple[str, ...], *, acting: bool | None
) -> None:
    slave = ("brokerRole=SLAVE", "brokerId=1", *said)
    assert conf(*slave).broker.enable_acting_master is acting
    found = running(*slave)
    assert found is not None
    assert found.broker.enable_acting_master is acting
    override = {"enableSlaveActingMaster": "true"}
    assert conf(*slave, overrides=override).broker.enable_acting_master is True


def test_the_zone_is_the_environments_or_the_one_that_is_given() -> None:
    there = SITE._replace(zone="z1")
    assert conf(site=there).broker.zone_name == "z1"
    assert conf(site=there, zone="z2").broker.zone_name == "z2"


def test_a_wrong_zone_is_refused() -> None:
    found = problems(zone="a zone")
    assert found == [
        "broker.conf: zone: 'a zone' must not be empty nor hold white space or control characters"
    ]


def test_this_host_is_in_the_zone_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_ZONE", "zone-b")
    assert this_site().zone == "zone-b"
    assert this_site(zone="z2").zone == "z2"


def test_overrides_go_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=a\nlistenPort=x\nbrokerRole=SLAVE\nbrokerId=3\n")
    given_ones = {
        "listenPort": "20911",
        "brokerIP1": "10.1.1.1",
        "brokerName": " ",
        "brokerRole": "SYNC_MASTER",
    }
    found = read(path, this_site(overrides=given_ones))
    assert (found.broker.broker_name, found.broker.broker_id) == ("a", 0)
    assert found.broker.address == "10.1.1.1:20911"


def test_a_wrong_override_is_named_as_one() -> None:
    found = problems("brokerPermission=4", "listenPort=x", overrides={"brokerPermission": "9"})
    assert found == [
        "broker.conf:2: listenPort: 'x' is not a whole number",
        "override: brokerPermission: 9 is not within 0..7",
    ]


@pytest.mark.parametrize(
    ("lines", "broker_id"),
    [
        (("brokerId=0", "brokerRole=SYNC_MASTER", "enableControllerMode=true"), 0),
        (("brokerId=3", "brokerRole=SLAVE", "enableControllerMode=true"), 3),
        (("brokerId=0", "brokerRole=ASYNC_MASTER", "enableDLegerCommitLog=true"), 0),
        (("brokerId=2", "brokerRole=SLAVE", "enableDLegerCommitLog=true"), 2),
        (("brokerId=5", "brokerRole=SLAVE"), 5),
    ],
)
def test_a_running_broker_has_the_id_that_it_says(lines: tuple[str, ...], broker_id: int) -> None:
    found = running(*lines, "brokerPermission=4")
    assert found is not None
    assert found.broker.broker_id == broker_id
    assert found.broker.address == "10.0.0.9:10911"
    assert found.broker_permission == 4


@pytest.mark.parametrize(
    "lines",
    [
        ("brokerId=-1", "brokerRole=SLAVE", "enableControllerMode=true"),
        ("brokerId=-1", "brokerRole=ASYNC_MASTER", "enableDLegerCommitLog=true"),
        ("brokerId=0", "brokerRole=ASYNC_MASTER", "enableControllerMode=true"),  # RocketMQ's defaults
        ("brokerId=0", "brokerRole=SLAVE", "enableControllerMode=true"),
        ("brokerId=2", "brokerRole=SYNC_MASTER", "enableDLegerCommitLog=true"),
        ("brokerId=-1", "brokerRole=SLAVE"),
    ],
)
def test_a_running_broker_that_is_not_elected_has_no_role(lines: tuple[str, ...]) -> None:
    assert running(*lines) is None


def test_the_settings_of_a_running_broker_are_taken_as_they_are() -> None:
    """RocketMQ escapes nothing when it answers."""
    found = running("storePathRootDir=C:\\users\\store", "=", "no value", "long=a\\")
    assert found is not None
    assert found.topics_path == Path("C:\\users\\store") / "config" / "topics.json"


def test_a_wrong_setting_of_a_running_broker_is_named() -> None:
    with pytest.raises(
        InvalidInput, match=r"^10\.0\.0\.9:10911: brokerPermission: 'x' is not a whole number$"
    ):
        running("brokerPermission=x")
    with pytest.raises(InvalidInput, match=r"^10\.0\.0\.9:10911: brokerId: 'x' is not a whole number$"):
        running("brokerId=x", "enableControllerMode=true")


def test_what_is_given_goes_before_what_a_running_broker_says() -> None:
    found = running(advertised="broker.example:1", zone="z", overrides={"brokerPermission": "4"})
    assert found is not None
    assert found.broker.address == "broker.example:1"
    assert found.broker.zone_name == "z"
    assert found.broker_permission == 4


@given(st.binary(max_size=60))
def test_any_bytes_are_understood_or_refused_with_a_place(content: bytes) -> None:
    for reading in (parse, parse_running):
        said = ""
        try:
            reading(content, "here", SITE)
        except InvalidInput as error:
            said = str(error)
        assert all(line.startswith("here") for line in said.splitlines())


def test_this_host_has_a_name_and_a_home() -> None:
    host = this_site()
    assert host.name
    assert host.home is not None
    assert host.home.is_absolute()
    assert host.address is None or not host.address.startswith("127.")


def test_on_a_host_without_ipv4_the_file_has_to_say_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", unsupported)
    host = this_site()
    assert host.address is None
    assert conf("brokerIP1=10.0.0.8", site=host).broker.address == "10.0.0.8:10911"


def test_for_a_user_without_a_home_the_file_has_to_say_where_the_store_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    host = this_site()._replace(address="10.0.0.7")
    assert conf("storePathRootDir=/store", site=host).topics_path == Path("/store/config/topics.json")
    expected = "broker.conf: storePathRootDir: is not set, and this user has no home; set it"
    assert problems(site=host) == [expected]
