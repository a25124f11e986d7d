"""What a broker.conf says about a broker's registration (RocketMQ: BrokerStartup, BrokerIdentity)."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import javaproperties

from ..registry import MASTER_ID, Broker, InvalidInput
from ..registry.checks import check_address, check_broker_name, check_int, check_name

__all__ = ["BrokerConf", "Host", "parse", "read", "this_host"]

_MASTER_ROLES: Final = ("ASYNC_MASTER", "SYNC_MASTER")
_SLAVE_ROLE: Final = "SLAVE"
_LAST_PORT: Final = 65_535
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class Host(NamedTuple):
    """What the defaults of a broker.conf are made from."""

    name: str
    address: str | None
    """The IP address that other machines reach this one by; None when it cannot be told."""

    home: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConf:
    """The part of a broker.conf that matters to a registry."""

    broker: Broker
    topics_path: Path
    """The file in which the broker keeps its topics: `<storePathRootDir>/config/topics.json`."""

    broker_permission: int = 6
    """Permission bits of the broker itself: 6, or 4 while it is being drained."""

    topics_elsewhere: str = ""
    """The setting by which the broker keeps its topics in RocksDB instead of topics.json; '' = none."""


def read(path: Path, *, address: str = "") -> BrokerConf:
    """Return what the file says, with `address` (host:port) advertised instead of brokerIP1:listenPort.

    Raises InvalidInput with every problem, each with file, line and key.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from error
    return parse(content, str(path), this_host(), address=address)


def this_host() -> Host:
    """Return the defaults of this machine.

    RocketMQ takes the first address of its interfaces that is neither loopback nor 192.168.*. Here it is the
    one from which packets to the outside leave: the same on a host with one interface, and the one that is
    reachable on a host with bridges for containers. On other hosts brokerIP1 has to be set, as for RocketMQ.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation address; connecting a UDP socket sends nothing
            address: str | None = probe.getsockname()[0]
        except OSError:
            address = None
    return Host(socket.gethostname() or "DEFAULT_BROKER", address, Path.home())


def parse(content: bytes, source: str, host: Host, *, address: str = "") -> BrokerConf:
    """Return what the content of a broker.conf says; `source` is its name in messages.

    Raises InvalidInput with every problem, each with source, line and key.
    """
    if address:
        check_address("broker address", address)
    values = _Values(source, content)
    values.refuse_elected_roles()
    name = values.text("brokerName", host.name, check_broker_name)
    cluster = values.text(
        "brokerClusterName", "DefaultCluster", lambda value: check_name("brokerClusterName", value)
    )
    broker_id = values.broker_id()
    advertised, ha_address = values.addresses(host, address)
    permission = values.number("brokerPermission", 6, 0, 7)
    root = values.text("storePathRootDir", str(host.home / "store"))
    values.raise_problems()
    return BrokerConf(
        broker=Broker(name, advertised, broker_id, cluster, ha_address),
        topics_path=Path(root) / "config" / "topics.json",
        broker_permission=permission,
        topics_elsewhere=values.topics_elsewhere(),
    )


class _Value(NamedTuple):
    line: int
    text: str


class _Values:
    """The settings of one file; collects the problems instead of stopping at the first."""

    def __init__(self, source: str, content: bytes) -> None:
        self._source = source
        self._problems: list[str] = []
        self._found = dict(self._read(content))

    def _read(self, content: bytes) -> Iterator[tuple[str, _Value]]:
        line = 1
        try:
            for element in javaproperties.parse(content):
                if isinstance(element, javaproperties.KeyValue):
                    yield element.key, _Value(line, element.value.strip())
                line += len(_LINE_END.findall(element.source))
        except javaproperties.InvalidUEscapeError as error:
            self._problems.append(f"{self._source}:{line}: {error}")

    def text(self, key: str, default: str, check: Callable[[str], None] | None = None) -> str:
        """Return a setting; a setting that is empty counts as one that is not there."""
        value = self._get(key) or default
        if check is not None:
            self._check(key, lambda: check(value))
        return value

    def number(self, key: str, default: int, low: int, high: int) -> int:
        """Return a setting that is a whole number within low..high."""
        text = self._get(key)
        if not text:
            return default
        try:
            value = int(text)
        except ValueError:
            self._problem(key, f"{key}: {text!r} is not a whole number")
            return default
        return value if self._check(key, lambda: check_int(key, value, low, high)) else default

    def broker_id(self) -> int:
        """Return the id in the group: masters are 0 whatever stands there, slaves need one above 0."""
        role = self.text("brokerRole", _MASTER_ROLES[0])
        if role in _MASTER_ROLES:
            return MASTER_ID
        if role != _SLAVE_ROLE:
            roles = ", ".join((*_MASTER_ROLES, _SLAVE_ROLE))
            self._problem("brokerRole", f"brokerRole: {role!r} is none of {roles}")
            return MASTER_ID
        value = self.number("brokerId", MASTER_ID, -(2**63), 2**63 - 1)
        if value <= MASTER_ID:
            key = "brokerId" if "brokerId" in self._found else "brokerRole"
            self._problem(key, f"brokerId: {value} is the id of a master; a {_SLAVE_ROLE} needs one above 0")
        return value

    def addresses(self, host: Host, override: str) -> tuple[str, str]:
        """Return the address for clients and the one for replication (RocketMQ: brokerAddr, haServerAddr)."""
        port = self.number("listenPort", 10_911, 1, _LAST_PORT)
        ha_port = self.number("haListenPort", 0, 0, _LAST_PORT) or min(port + 1, _LAST_PORT)
        local = override.rpartition(":")[0] or host.address or ""
        if not override and not self._get("brokerIP1") and not local:
            self._problem(
                "brokerIP1", "brokerIP1: is not set, and the address of this host is unknown; set it"
            )
            return "", ""
        address = override or f"{_host_part(self.text('brokerIP1', local))}:{port}"
        ha_address = f"{_host_part(self.text('brokerIP2', local or self._get('brokerIP1')))}:{ha_port}"
        self._check("brokerIP1", lambda: check_address("brokerIP1:listenPort", address))
        self._check("brokerIP2", lambda: check_address("brokerIP2:haListenPort", ha_address))
        return address, ha_address

    def refuse_elected_roles(self) -> None:
        """Note a problem when the file does not tell the role: registering a wrong master would be worse."""
        for key in ("enableDLegerCommitLog", "enableControllerMode"):
            if self._is_true(key):
                self._problem(key, f"{key}: this broker's role is elected at run time, not configured")

    def topics_elsewhere(self) -> str:
        """Return the setting by which the broker keeps its topics elsewhere than in topics.json, or ''."""
        for key, values in (("storeType", ("defaultRocksDB",)), ("configManagerVersion", ("v2",))):
            if self._get(key) in values:
                return f"{key}={self._get(key)}"
        return ""

    def raise_problems(self) -> None:
        """Raise InvalidInput when there are problems."""
        if self._problems:
            raise InvalidInput("\n".join(self._problems))

    def _get(self, key: str) -> str:
        return self._found[key].text if key in self._found else ""

    def _is_true(self, key: str) -> bool:
        return self._get(key).lower() == "true"

    def _check(self, key: str, check: Callable[[], None]) -> bool:
        try:
            check()
        except InvalidInput as error:
            self._problem(key, str(error))
            return False
        return True

    def _problem(self, key: str, what: str) -> None:
        place = f"{self._source}:{self._found[key].line}" if key in self._found else self._source
        self._problems.append(f"{place}: {what}")


def _host_part(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
