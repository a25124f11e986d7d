"""What a broker.conf says about a broker's registration (RocketMQ: BrokerStartup, BrokerIdentity)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from ...registry import MASTER_ID, Broker, InvalidInput
from ...registry.checks import check_address, check_broker_name, check_name
from .properties import ConfValues, of_file, of_running

_MASTER_ROLES: Final = ("ASYNC_MASTER", "SYNC_MASTER")
_SLAVE_ROLE: Final = "SLAVE"
_LONG: Final = 2**63 - 1
_LAST_PORT: Final = 65_535
_PORT: Final = 10_911
_PORT_IN_CONTAINER: Final = 6_888
_CONTROLLER: Final = "enableControllerMode"
_DLEDGER: Final = "enableDLegerCommitLog"
_ACTING_MASTER: Final = "enableSlaveActingMaster"
_BETWEEN_LOOKS_S: Final = 0.1
_MOST_LOOKS: Final = 20


class Site(NamedTuple):
    """What counts besides a broker.conf: its host's defaults, and what the operator has set."""

    name: str
    address: str | None
    """The IP address that other machines reach this one by; None when it cannot be told."""

    home: Path | None
    """Of the user; None when it has none."""

    zone: str = ""
    """Where the machine stands (RocketMQ: property rocketmq.zone)."""

    advertised: str = ""
    """host:port that clients are told instead of brokerIP1:listenPort."""

    overrides: Mapping[str, str] = MappingProxyType({})
    """Settings by their keys in broker.conf; they go before what the file says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConf:
    """The part of a broker.conf that matters to a registry.

    The lease is the agent's, so its TTL does not come from here: brokerNotActiveTimeoutMillis suits the
    broker's own heartbeats, one a second, and would end the lease of an agent that sends one in five.
    """

    broker: Broker
    """With the id of a master where the role is `elected`: the running broker knows the real one."""

    named: bool = True
    """Whether brokerName is set; else the host's name stands for it."""

    topics_path: Path
    """The file in which the broker keeps its topics: `<storePathRootDir>/config/topics.json`."""

    broker_permission: int = 6
    """Permission bits of the broker itself: 6, or 4 while it is being drained."""

    topics_elsewhere: str = ""
    """The setting by which the broker keeps its topics in RocksDB instead of topics.json; '' = none."""

    elected: bool = False
    """Whether the id is elected while the broker runs (a controller, or DLedger), not configured."""


def read(path: Path, site: Site | None = None) -> BrokerConf:
    """Return what the file says; raises InvalidInput with every problem, each with file, line and key.

    Half a file is a valid one with fewer settings, and can name another broker: what counts has to be there
    at two looks, 0.1 s apart.
    """
    content = _settled(path)
    if isinstance(content, str):
        raise InvalidInput(f"{path}: {content}")
    return parse(content, str(path), site or this_site())


def _settled(path: Path) -> bytes | str:
    """Return what the file holds at two looks in a row, or why that cannot be told."""
    content = _look(path)
    for _ in range(_MOST_LOOKS):
        time.sleep(_BETWEEN_LOOKS_S)
        before, content = content, _look(path)
        if content == before:
            return content
    return "it changes all the time: no two looks found the same"


def _look(path: Path) -> bytes | str:
    try:
        return path.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def this_site(
    *, advertised: str = "", zone: str = "", overrides: Mapping[str, str] = MappingProxyType({})
) -> Site:
    """Return the defaults of this machine, with what the operator has set; an empty zone is ROCKETMQ_ZONE.

    RocketMQ takes the first address of its interfaces that is neither loopback nor 192.168.*. Here it is the
    one from which packets to the outside leave: the same on a host with one interface, and the one that is
    reachable on a host with bridges for containers. On other hosts brokerIP1 has to be set, as for RocketMQ.
    """
    name, address = socket.gethostname() or "DEFAULT_BROKER", _outgoing_address()
    return Site(name, address, _home(), zone or os.environ.get("ROCKETMQ_ZONE", ""), advertised, overrides)


def _outgoing_address() -> str | None:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # a documentation address; connecting a UDP socket sends nothing
            address: str = probe.getsockname()[0]
            return address
    except OSError:  # also on a host without IPv4
        return None


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # a user without an entry, such as one of a container
        return None


def parse(content: bytes, source: str, site: Site) -> BrokerConf:
    """Return what the content of a broker.conf says; `source` is its name in messages.

    Raises InvalidInput with every problem, each with source, line and key.
    """
    values = of_file(content, source, site.overrides)
    elected = _elected(values)
    broker_id = MASTER_ID if elected else _configured_id(values)
    root = values.get("storePathRootDir")
    if root and not Path(root).is_absolute():  # it depends on where the broker was started
        values.problem("storePathRootDir", f"{root!r} is no full path: write where the broker is to find it")
    return _conf(values, site, broker_id, elected=elected)


def parse_running(content: bytes, source: str, site: Site) -> BrokerConf | None:
    """Return what a running broker says of itself (request GET_BROKER_CONFIG); None = it has no role yet.

    Raises InvalidInput with every problem.
    """
    values = of_running(content, source, site.overrides)
    elected = _elected(values)
    broker_id = values.number("brokerId", MASTER_ID, -_LONG, _LONG)
    values.raise_problems()
    by_controller, role = values.flag(_CONTROLLER), values.get("brokerRole")
    if broker_id < MASTER_ID or (elected and not _is_settled(broker_id, role, by_controller=by_controller)):
        return None
    return _conf(values, site, broker_id, elected=elected)


def _conf(values: ConfValues, site: Site, broker_id: int, *, elected: bool) -> BrokerConf:
    if site.advertised:
        check_address("broker address", site.advertised)
    name = values.text("brokerName", site.name, check_broker_name)
    cluster = values.text("brokerClusterName", "DefaultCluster", partial(check_name, "brokerClusterName"))
    advertised, ha_address = _addresses(values, site)
    permission = values.number("brokerPermission", 6, 0, 7)
    # Not said is not false: RocketMQ 4 knows no such setting, and a slave of it brings no topics.
    acting_master = values.flag(_ACTING_MASTER) if values.get(_ACTING_MASTER) else None
    root = _root(values, site)
    if site.zone:
        values.check("zone", lambda: check_name("zone", site.zone))
    topics_elsewhere = _topics_elsewhere(values)
    values.raise_problems()
    broker = Broker(
        name,
        advertised,
        broker_id,
        cluster,
        ha_address,
        zone_name=site.zone,
        enable_acting_master=acting_master,
    )
    return BrokerConf(
        broker=broker,
        named=bool(values.get("brokerName")),
        topics_path=Path(root) / "config" / "topics.json",
        broker_permission=permission,
        topics_elsewhere=topics_elsewhere,
        elected=elected,
    )


def _root(values: ConfValues, site: Site) -> str:
    if site.home is None and not values.get("storePathRootDir"):
        values.problem("storePathRootDir", "is not set, and this user has no home; set it")
        return ""
    return values.text("storePathRootDir", str(site.home / "store") if site.home else "")


def _elected(values: ConfValues) -> bool:
    controller, dledger = values.flag(_CONTROLLER), values.flag(_DLEDGER)
    if controller and dledger:
        values.problem(_DLEDGER, f"cannot be true together with {_CONTROLLER}")
    return controller or dledger


def _configured_id(values: ConfValues) -> int:
    """Return the id in the group: masters are 0 whatever stands there, slaves need one above 0."""
    role = values.text("brokerRole", _MASTER_ROLES[0])
    value = values.number("brokerId", MASTER_ID, -_LONG - 1, _LONG)
    if role in _MASTER_ROLES:
        return MASTER_ID
    if role != _SLAVE_ROLE:
        roles = ", ".join((*_MASTER_ROLES, _SLAVE_ROLE))
        values.problem("brokerRole", f"{role!r} is none of {roles}")
        return MASTER_ID
    if value <= MASTER_ID:
        key = "brokerId" if values.get("brokerId") else "brokerRole"
        what = f"{value} is the id of a master; a {_SLAVE_ROLE} needs one above 0"
        values.problem(key, what, about="brokerId")
        return MASTER_ID
    return value


def _is_settled(broker_id: int, role: str, *, by_controller: bool) -> bool:
    """Whether id and role agree: they are set one after the other, and before the first election they do not.

    A controller makes its master a SYNC_MASTER. Until then a broker shows what its file says, which may be
    id 0 and ASYNC_MASTER, RocketMQ's defaults: such a broker has not been elected.
    """
    if broker_id == MASTER_ID:
        return role == "SYNC_MASTER" if by_controller else role in _MASTER_ROLES
    return broker_id > MASTER_ID and role == _SLAVE_ROLE


def _addresses(values: ConfValues, site: Site) -> tuple[str, str]:
    """Return the address for clients and the one for replication (RocketMQ: brokerAddr, haServerAddr)."""
    in_container = values.flag("isInBrokerContainer")
    port = values.number("listenPort", _PORT_IN_CONTAINER if in_container else _PORT, 1, _LAST_PORT)
    ha_port = values.number("haListenPort", 0, 0, _LAST_PORT)
    if in_container or not ha_port:  # a container ignores the file's (BrokerContainerProcessor)
        ha_port = min(port + 1, _LAST_PORT)
    local = site.advertised.rpartition(":")[0] or site.address or ""
    if not local and not values.get("brokerIP1"):
        values.problem("brokerIP1", "is not set, and the address of this host is unknown; set it")
        return "", ""
    address = site.advertised or f"{_host_part(values.text('brokerIP1', local))}:{port}"
    ha_address = f"{_host_part(values.text('brokerIP2', local or values.get('brokerIP1')))}:{ha_port}"
    values.check("brokerIP1", lambda: check_address("brokerIP1:listenPort", address))
    values.check("brokerIP2", lambda: check_address("brokerIP2:haListenPort", ha_address))
    return address, ha_address


def _topics_elsewhere(values: ConfValues) -> str:
    """Return the setting by which the broker keeps its topics elsewhere than in topics.json, or ''."""
    version = values.word("configManagerVersion", "v1", "v2")
    store = values.word("storeType", "default", "defaultRocksDB", ignore_case=True)  # as RocketMQ does
    if version == "v2":
        return "configManagerVersion=v2"
    return f"storeType={values.get('storeType')}" if store == "defaultRocksDB" else ""


def _host_part(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
