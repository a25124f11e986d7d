"""Records the frames that RocketMQ's own brokers, clients and tools send to a name server.

    python -m tests.fuzz.record

It takes Java and the jars that `make interop` copies to ~/.cache/sharedroutes/rocketmq, and some minutes. Of
each kind of frame the first one is kept in corpus.txt; what stands there behind the recorded ones stays.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sharedroutes.registry import EmbeddedServer
from sharedroutes.remoting import FrameReader, RequestCode
from tests.fuzz.mutations import CORPUS
from tests.interop.name_servers import Front
from tests.interop.peers import Peer
from tests.real.rocketmq import RealBroker, java
from tests.support import wait_until

_SENT_S: Final = 90.0
_LENGTH_BYTES: Final = 4
_CLUSTER: Final = "DefaultCluster"
_LISTS: Final = Path(__file__).with_name("Lists.java")
_RELEASES: Final = {407: "4.9.7", 513: "5.5.0"}
"""By what stands in a header."""

_QUICK: Final = {"registerNameServerPeriod": "10000", "mappedFileSizeCommitLog": str(16 << 20)}
_BROKERS: Final[Mapping[str, tuple[str, Mapping[str, str], RequestCode]]] = {
    "plain": ("5.5.0", {}, RequestCode.GET_BROKER_CLUSTER_INFO),
    "deflated": ("5.5.0", {"compressedRegister": "true"}, RequestCode.REGISTER_BROKER),
    "asking": ("5.5.0", {"forceRegister": "false"}, RequestCode.QUERY_DATA_VERSION),
    "acting": ("5.5.0", {"enableSlaveActingMaster": "true"}, RequestCode.QUERY_DATA_VERSION),
    "beating": (
        "5.5.0",
        {"enableSlaveActingMaster": "true", "compatibleWithOldNameSrv": "false"},
        RequestCode.BROKER_HEARTBEAT,
    ),
    "single": ("5.5.0", {"enableSingleTopicRegister": "true"}, RequestCode.REGISTER_BROKER),
    "old": ("4.9.7", {}, RequestCode.REGISTER_BROKER),
    "old-deflated": ("4.9.7", {"compressedRegister": "true"}, RequestCode.REGISTER_BROKER),
}
"""Brokers by name: their release, their settings, and what they send at last of themselves."""

_ADMIN: Final = (
    "clusterList",
    "topicList",
    f"topicList -c {_CLUSTER}",
    "topicRoute -t orders",
    "updateKvConfig -s ns -k k -v v",
    "deleteKvConfig -s ns -k k",
    "updateOrderConf -m put -t orders -v plain:4",
    "updateOrderConf -m get -t orders",
    "wipeWritePerm -b {broker}",
    "addWritePerm -b {broker}",
    "getNamesrvConfig",
    "updateNamesrvConfig -k enableTopicList -v true",
    f"deleteTopic -c {_CLUSTER} -t orders",
)


class Recorder:
    """Carries connections to a name server, and keeps the first frame of each kind of request."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.kept: dict[tuple[int, int, str], bytes] = {}
        self.codes: list[int] = []
        """Of all requests, in their order."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until it ends."""
        answers, requests = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, requests))
                group.create_task(_carry(answers, writer))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            requests.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            length = await reader.readexactly(_LENGTH_BYTES)
            frame = length + await reader.readexactly(int.from_bytes(length, "big"))
            (found,) = FrameReader().feed(frame)
            how = (found.flag, *sorted(found.ext_fields or ()), found.body[:1])
            self.kept.setdefault((found.version, found.code, str(how)), frame)
            self.codes.append(found.code)
            writer.write(frame)

    def lines(self) -> Iterator[str]:
        """Yield a line for each frame: its name, of release and request code, and its bytes."""
        seen = Counter[str]()
        for (version, code, *_), frame in sorted(self.kept.items()):
            name = f"{_RELEASES[version]}-{code}"
            seen[name] += 1
            yield f"{name}{f'-{seen[name]}' if seen[name] > 1 else ''} {frame.hex()}"


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    raise ConnectionResetError


@contextmanager
def recording(port: int) -> Iterator[tuple[Recorder, str]]:
    """Record in a thread what is sent to the name server at a port; yield where to connect instead."""
    recorder, loop = Recorder(port), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(recorder.serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, name="recorder")
    thread.start()
    try:
        yield recorder, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def record_broker(name: str, folder: Path, address: str, recorder: Recorder) -> None:
    """Run a broker, mqadmin and a client at the recorder until each has sent all that it has to say."""
    release, settings, last = _BROKERS[name]
    seen = len(recorder.codes)

    def is_sent(*codes: int) -> bool:
        return {*codes} <= {*recorder.codes[seen:]}

    given = {**_QUICK, **settings, "brokerName": name, "namesrvAddr": address}
    with RealBroker(release, folder / name, given) as broker:
        codes = (RequestCode.REGISTER_BROKER, last)
        wait_until(lambda: is_sent(*codes), timeout_s=_SENT_S, description=f"{name} sends {codes}")
        with Peer(release, folder / f"{name}-tools") as peer:
            peer.admin(*f"updateTopic -n {address} -b {broker.address} -t orders -r 4 -w 4".split())
            for command in _ADMIN if name in ("plain", "old") else ():
                peer.admin(*command.format(broker=name).split(), "-n", address)
            with peer.producer(address) as producer:
                producer.send("orders", "sync", 1)
        if name in ("plain", "old"):
            words = java(release, f"-Duser.home={folder}", str(_LISTS), address)
            subprocess.run(words, check=True, timeout=_SENT_S, capture_output=True)
        if name == "single":
            code = RequestCode.REGISTER_TOPIC_IN_NAMESRV
            wait_until(lambda: is_sent(code), timeout_s=_SENT_S, description=f"{name} sends {code}")
        broker.stop()


def main() -> None:
    """Record all, and write the file."""
    memory = Path("/dev/shm")  # noqa: S108 - brokers refuse messages on a disk that is nearly full
    with (
        tempfile.TemporaryDirectory(
            prefix="record-", dir=memory if memory.is_dir() else None, ignore_cleanup_errors=True
        ) as path,
        EmbeddedServer() as server,
        Front(server.url, Path(path) / "front", {"updateConfig": "true"}) as front,
        recording(front.port) as (recorder, address),
    ):
        os.environ.pop("NAMESRV_ADDR", None)
        for name in _BROKERS:
            record_broker(name, Path(path), address, recorder)
    before = CORPUS.read_text(encoding="ascii").splitlines()
    head = [line for line in before if line.startswith("#")]
    others = [line for line in before if line and not line.startswith(("#", *_RELEASES.values()))]
    CORPUS.write_text("\n".join([*head, *recorder.lines(), *others, ""]), encoding="ascii")


if __name__ == "__main__":
    main()
