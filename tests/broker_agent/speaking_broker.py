"""A stand-in for a broker that speaks its protocol: in the event loop of a test, or a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import orjson

from sharedroutes.remoting import (
    FrameError,
    FrameReader,
    LanguageCode,
    RemotingCommand,
    RequestCode,
    ResponseCode,
    encode,
    response_to,
)
from sharedroutes.remoting.command import ACCESS_KEY, SIGNATURE, signature
from tests.ports import free_port
from tests.support import await_until, wait_until

_ROOT: Final = Path(__file__).resolve().parents[2]
_READ_BYTES: Final = 65_536
_MOST_TOPICS_A_PAGE: Final = 2_000


def topic(name: str, **fields: Any) -> dict[str, Any]:
    """Return a topic as a broker writes it."""
    return {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    } | fields


class SpeakingBroker:
    """Answers as a broker of 5.3.3: its topics (21), its settings (26), heartbeats (34), and else code 3."""

    def __init__(self, host: str = "127.0.0.1", port: int | None = None) -> None:
        self.host = host
        self.port = free_port() if port is None else port
        self.topics: dict[str, dict[str, Any]] = {}
        self.mappings: dict[str, dict[str, Any]] = {}
        self.version = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
        self.settings: dict[str, str] = {}
        self.refusals: dict[int, tuple[int, str]] = {}
        """The code and the remark with which requests of these codes are refused."""

        self.users: dict[str, str] | None = None
        """The secret keys of those who may ask, by access key; None = everybody may."""

        self.tls: ssl.SSLContext | None = None
        """How it speaks TLS, from its start on, and to nobody without; None = not at all."""

        self.pages = False
        """Whether it has pages, as releases after 5.3.3 (RocketMQ: enableSplitMetadata)."""

        self.hangs = False
        """Whether it accepts connections and requests, and answers none until `wake`."""

        self.late_s = 0.0
        self.idle_s: float | None = None
        """After so many seconds without a request it closes a connection (120 at a real broker)."""

        self.accepted = 0
        self.asked: Counter[int] = Counter()
        self.told: list[Mapping[str, str]] = []
        """The fields of requests that want no answer."""

        self.after_page: list[dict[str, Any] | Callable[[], None]] = []
        """What somebody does after each page, in this order: a topic to create, or anything to call."""

        self._awake = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"{self.host}:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.die()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, self.host, self.port, ssl=self.tls)

    async def die(self) -> None:
        """Stop listening and close all connections, as the system does for a process that dies."""
        if self._server is not None:
            self._server.close()
            self._server = None
        serving, answering = [*self._connections.values()], [*self._answering]
        self.hang_up()
        for task in answering:
            task.cancel()
        await asyncio.gather(*serving, *answering, return_exceptions=True)

    def hang_up(self) -> None:
        """Close all connections and listen on."""
        for writer in self._connections:
            writer.transport.abort()

    def hang(self) -> None:
        """Answer nothing until `wake`."""
        self.hangs = True
        self._awake.clear()

    def wake(self) -> None:
        """Answer what was asked meanwhile, and everything else again."""
        self.hangs = False
        self._awake.set()

    def create(self, name: str, **fields: Any) -> None:
        """Create or change a topic; the version of the table grows."""
        self.topics[name] = topic(name, **fields)
        self.version = self.version | {"counter": self.version["counter"] + 1}

    async def asked_again(self, times: int = 1) -> None:
        """Wait until so many more requests have come."""
        count = self.asked.total()
        await await_until(
            lambda: self.asked.total() >= count + times, timeout_s=30.0, description="it is asked again"
        )

    def become(self, broker_id: int) -> None:
        """Be broker-a in controller mode, with this id; -1 = it has no role yet."""
        self.settings = {
            "brokerName": "broker-a",
            "brokerIP1": self.host,
            "listenPort": str(self.port),
            "enableControllerMode": "true",
            "enableSlaveActingMaster": "true",
            "brokerId": str(broker_id),
            "brokerRole": "SLAVE" if broker_id else "SYNC_MASTER",
        }

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._connections[writer] = task
        try:
            await self._serve(reader, writer)
        finally:
            del self._connections[writer]
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        with suppress(OSError, TimeoutError, FrameError):  # each of them ends the connection, as at a broker
            while data := await self._received(reader):
                for command in frames.feed(data):
                    self.asked[command.code] += 1
                    if command.is_oneway:
                        self.told.append(command.ext_fields or {})
                    task = asyncio.create_task(self._answer(command, writer))
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)

    async def _received(self, reader: asyncio.StreamReader) -> bytes:
        async with asyncio.timeout(self.idle_s):
            return await reader.read(_READ_BYTES)

    async def _answer(self, command: RemotingCommand, writer: asyncio.StreamWriter) -> None:
        if self.hangs:
            await self._awake.wait()
        if self.late_s:
            await asyncio.sleep(self.late_s)
        if not command.is_oneway:
            writer.write(encode(self.answer(command), max_frame_bytes=sys.maxsize))

    def answer(self, command: RemotingCommand) -> RemotingCommand:
        """Return what the broker answers."""
        if command.code in self.refusals:
            code, remark = self.refusals[command.code]
            return _response(command, code, remark=remark)
        if refusal := self._refusal(command):
            return _response(command, ResponseCode.NO_PERMISSION, remark=refusal)
        match command.code:
            case RequestCode.GET_ALL_TOPIC_CONFIG:
                return self._topics(command)
            case RequestCode.GET_BROKER_CONFIG:
                text = "".join(f"{key}={value}\n" for key, value in sorted(self.settings.items()))
                return _response(
                    command, 0, {"version": orjson.dumps(self.version).decode()}, body=text.encode()
                )
            case RequestCode.HEART_BEAT:
                return _response(command, 0, {"IS_SUB_CHANGE": "true", "IS_SUPPORT_HEART_BEAT_V2": "true"})
            case code:
                unknown = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                return _response(command, unknown, remark=f" request type {code} not supported")

    def _refusal(self, command: RemotingCommand) -> str:
        """Return what a broker with authenticationEnabled says to this one; empty = it may ask."""
        user = command.ext_field(ACCESS_KEY)
        if self.users is None:
            return ""
        if user is None:
            return "username cannot be null."
        if user not in self.users:
            return f"User:{user} is not found."
        expected = signature(command.ext_fields or {}, command.body, self.users[user])
        return "" if command.ext_field(SIGNATURE) == expected else "check signature failed."

    def _topics(self, command: RemotingCommand) -> RemotingCommand:
        names, fields = sorted(self.topics), None
        if self.pages:
            fields = {"totalTopicNum": str(len(names))}
            names = _page(names, command, self.version)
        page = {
            "dataVersion": self.version,
            "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 0},
            "topicConfigTable": {name: self.topics[name] for name in names},
            "topicQueueMappingDetailMap": {n: self.mappings[n] for n in names if n in self.mappings},
        }
        answer = _response(command, 0, fields, body=legacy_json(page))
        if self.after_page:
            done = self.after_page.pop(0)
            if isinstance(done, dict):
                self.create(done["topicName"], **done)
            else:
                done()
        return answer


def legacy_json(value: Any) -> bytes:
    """Write JSON as fastjson does by default: numbers as keys are not quoted."""
    if isinstance(value, dict):
        return b"{%s}" % b",".join(
            orjson.dumps(key) + b":" + legacy_json(item) for key, item in value.items()
        )
    if isinstance(value, list):
        return b"[%s]" % b",".join(map(legacy_json, value))
    return orjson.dumps(value)


def _page(names: list[str], command: RemotingCommand, version: Mapping[str, int]) -> list[str]:
    """Return what a broker puts into the page that is asked for (RocketMQ: subTopicConfigTable)."""
    asked = [command.ext_field(name) for name in ("topicSeq", "maxTopicNum", "dataVersion")]
    if asked == [None] * 3:  # an old client wants all of them
        return names
    sequence, most, known = asked
    begin = int(sequence or 0) if known and orjson.loads(known) == version else 0
    return names[begin : begin + min(_MOST_TOPICS_A_PAGE, int(most or _MOST_TOPICS_A_PAGE))]


def _response(
    command: RemotingCommand, code: int, fields: dict[str, str] | None = None, **kw: Any
) -> RemotingCommand:
    return response_to(command, code, fields, language=LanguageCode.JAVA, **kw)


class SpeakingProcess:
    """A process that is a SpeakingBroker; what it serves is given as the attributes of one."""

    def __init__(self, host: str = "127.0.0.1", port: int | None = None, **serves: Any) -> None:
        self.host = host
        self.port = free_port() if port is None else port
        self._serves = serves
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._folder.cleanup()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The number of the process, which has been started."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it listens."""
        path = self._tell()
        command = (sys.executable, "-m", __spec__.name, self.host, str(self.port), str(path))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (_ROOT / "src", _ROOT)))}
        self._process = subprocess.Popen(command, cwd=_ROOT, env=environment)
        wait_until(self._listens, timeout_s=30, description="the speaking broker listens")

    def serve(self, **serves: Any) -> None:
        """Serve this besides from now on; the running process takes it over in a moment."""
        self._serves |= serves
        self._tell()
        self.send(signal.SIGHUP)

    def send(self, signal_number: int) -> None:
        """Send it a signal, for example SIGSTOP."""
        os.kill(self.pid, signal_number)

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _tell(self) -> Path:
        path = Path(self._folder.name, "serves.json")
        new = path.with_suffix(".new")
        new.write_bytes(orjson.dumps(self._serves))
        return new.replace(path)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the speaking broker has ended"
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.port)) == 0


async def _main(host: str, port: str, path: str) -> None:
    broker = SpeakingBroker(host, int(port))

    def take_over() -> None:
        for name, value in orjson.loads(Path(path).read_bytes()).items():
            setattr(broker, name, value)

    take_over()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, take_over)
    async with broker:
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
