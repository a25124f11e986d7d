"""Name server fronts as processes, and what brokers and clients say to a name server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from sharedroutes.registry import TopicConfig
from sharedroutes.remoting import FrameReader, RemotingCommand, RequestCode, ResponseCode, encode, request

from .load import OPAQUE
from .processes import bound
from .server_process import free_port

_LOOPBACK: Final = "127.0.0.1"
_CLUSTER: Final = "DefaultCluster"
_END_S: Final = 20.0
_ANSWER_S: Final = 60.0
_READ_BYTES: Final = 1 << 20
_LASTING_MS: Final = 3_600_000
"""The heartbeat timeout of the brokers here: it outlasts every run."""

_WITHOUT_UVLOOP: Final = (
    "import runpy, sys; sys.modules['uvloop'] = None; runpy.run_module('sharedroutes', run_name='__main__')"
)


class Front:
    """`sharedroutes nameserver` as a process; its log goes to the file `log`."""

    def __init__(self, redis_url: str, log: Path, *, uvloop: bool = True) -> None:
        self.port = free_port()
        self._log = log
        program = ("-m", "sharedroutes") if uvloop else ("-c", _WITHOUT_UVLOOP)
        address = f"{_LOOPBACK}:{self.port}"
        flags = ("nameserver", "--listen", address, "--redis", redis_url, "--http", "off")
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                bound(sys.executable, *program, *flags),
                stdout=said,
                stderr=said,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def check(self) -> None:
        """Raise RuntimeError with its last words when it has ended."""
        if self._process.poll() is not None:
            words = self._log.read_text(encoding="utf-8").strip().splitlines()
            raise RuntimeError(f"the front has ended: {' | '.join(words[-5:]) or 'it said nothing'}")


class Link:
    """A connection to a name server."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((_LOOPBACK, port), timeout=_ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameReader()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, command: RemotingCommand) -> RemotingCommand:
        """Return the answer to a request; raises OSError."""
        return self.send(encode(command))

    def send(self, frame: bytes) -> RemotingCommand:
        """Return the answer to a request that is encoded; raises OSError."""
        self._socket.sendall(frame)
        while not (answers := self._frames.feed(self._received())):
            pass
        return answers[0]

    def _received(self) -> bytes:
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError("the name server has closed the connection")
        return data


def route_request(topic: str) -> RemotingCommand:
    """Return what a Java client asks for the route of a topic."""
    return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, opaque=OPAQUE)


def registration(
    name: str, address: str, topics: Mapping[str, TopicConfig], *, counter: int = 1
) -> RemotingCommand:
    """Return the registration of a master, as a broker of release 5 writes it; `counter`: of its version."""
    fields = {
        "brokerId": "0",
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": _CLUSTER,
        "haServerAddr": address,
        "bodyCrc32": "0",
        "compressed": "false",
        "enableActingMaster": "false",
        "heartbeatTimeoutMillis": str(_LASTING_MS),
    }
    body = json.dumps(_body(topics, counter), separators=(",", ":")).encode()
    return request(RequestCode.REGISTER_BROKER, fields, body=body, opaque=OPAQUE)


def heartbeat(name: str, address: str) -> RemotingCommand:
    """Return what a broker says between its registrations."""
    fields = {"brokerName": name, "brokerAddr": address, "clusterName": _CLUSTER, "brokerId": "0"}
    return request(RequestCode.BROKER_HEARTBEAT, fields, opaque=OPAQUE)


def unregistration(name: str, address: str) -> RemotingCommand:
    """Return how a broker leaves."""
    fields = {"brokerId": "0", "brokerName": name, "brokerAddr": address, "clusterName": _CLUSTER}
    return request(RequestCode.UNREGISTER_BROKER, fields, opaque=OPAQUE)


def _body(topics: Mapping[str, TopicConfig], counter: int) -> Mapping[str, Any]:
    table = {
        name: {
            "attributes": {},
            "order": False,
            "perm": config.perm,
            "readQueueNums": config.read_queue_nums,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0,
            "writeQueueNums": config.write_queue_nums,
        }
        for name, config in topics.items()
    }
    version = {"counter": counter, "stateVersion": 0, "timestamp": 1_795_202_976_261}
    wrapper = {
        "dataVersion": version,
        "mappingDataVersion": {**version, "counter": 0},
        "topicConfigTable": table,
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    return {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}


def brokers_of(answer: RemotingCommand) -> Sequence[str]:
    """Return the names of the brokers in a route."""
    if answer.code != ResponseCode.SUCCESS:
        return ()
    return [broker["brokerName"] for broker in json.loads(answer.body)["brokerDatas"]]


def loopback(number: int, port: int) -> str:
    """Return the address of a broker, on a loopback address of its own."""
    return f"127.0.{1 + number // 250}.{1 + number % 250}:{port}"
