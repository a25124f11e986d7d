"""A broker that stands in for RocketMQ's: it takes messages, answers questions, and registers at fronts.

python -m tests.faults.matrix.stand_in NAME ADDRESS PORT TOPICS_JSON LEASE_MS HISTORY [FRONT ...]

ADDRESS is what it says to others, PORT where it listens.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from sharedroutes.nameserver.bodies import crc32
from sharedroutes.remoting import FrameError, RemotingCommand, RequestCode, ResponseCode, request, response_to
from sharedroutes.remoting.broker.client import BrokerClient
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.faults.checker.history import Received, Started, Writer, Written, now_us

LEAVES: Final = signal.SIGUSR1
"""Tells it to close its connections to the fronts, and to go on."""

COMES: Final = signal.SIGUSR2
"""Tells it to come back to them."""

UPDATE_TOPIC: Final = 17
"""Tells it how many queues a topic has from now on (RocketMQ: UPDATE_AND_CREATE_TOPIC)."""

DELETE_TOPIC: Final = 215
"""Tells it that it has a topic no more (RocketMQ: DELETE_TOPIC_IN_BROKER)."""

CONFIGURE: Final = 25
"""Tells it whether it `refuses` messages from now on, or `registers` now and then (UPDATE_BROKER_CONFIG)."""

_REGISTERED_EVERY: Final = 5
"""Beats; the others are short heartbeats."""

_BEAT_S: Final = 1.0
_IDLE_S: Final = 120.0
"""After which a broker closes a connection: also one that is half open."""

_ANSWER_S: Final = 2.0
_WRITTEN_S: Final = 4.0
"""A front answers a change late that it hears of late."""


class StandIn(SpeakingBroker):
    """Answers as a broker does, and writes down each message that it takes before it says so."""

    def __init__(self, address: str, port: int, path: Path, history: Writer) -> None:
        super().__init__("127.0.0.1", port)
        self.idle_s = _IDLE_S
        self._address = address
        topics = orjson.loads(path.read_bytes())
        self.topics = topics["topicConfigTable"]
        self.version = topics["dataVersion"]
        self.changed = ""
        """The topic that was changed last."""

        self.news = asyncio.Event()
        """Set when a topic has changed; then there is another one."""

        self.refuses = False
        """Whether it refuses messages."""

        self.registers = True
        """Whether it says now and then what it has; if not, only when it comes, and when that changes."""

        self._path = path
        self._history = history
        self._taken = 0

    @property
    def address(self) -> str:
        """Where others find it."""
        return self._address

    def answer(self, command: RemotingCommand) -> RemotingCommand:
        """Take a message, change a topic, or answer what every stand-in can."""
        if command.code == UPDATE_TOPIC:
            self._change(command.ext_field("topic") or "", int(command.ext_field("readQueueNums") or 0))
            return response_to(command, ResponseCode.SUCCESS)
        if command.code == DELETE_TOPIC:
            del self.topics[command.ext_field("topic") or ""]
            self.version = self.version | {"counter": self.version["counter"] + 1}
            self._tell("")
            return response_to(command, ResponseCode.SUCCESS)
        if command.code == CONFIGURE:
            self.refuses = command.ext_field("refuses") == "true"
            self.registers = command.ext_field("registers") != "false"
            return response_to(command, ResponseCode.SUCCESS)
        if command.code != RequestCode.SEND_MESSAGE_V2:
            return super().answer(command)
        if self.refuses:
            return response_to(command, ResponseCode.SYSTEM_BUSY, remark="it is told to refuse messages")
        self._history.write(Received(message=command.body.decode(), address=self.address))
        self._taken += 1
        fields = {"queueId": command.ext_field("e") or "0", "queueOffset": str(self._taken), "msgId": "0"}
        return response_to(command, ResponseCode.SUCCESS, fields)

    @property
    def queues(self) -> int:
        """How many queues the topic has that was changed last."""
        return int(self.topics[self.changed]["readQueueNums"]) if self.changed else 0

    def _change(self, topic: str, queues: int) -> None:
        counts = {"readQueueNums": queues, "writeQueueNums": queues}
        self.create(topic, **{**self.topics.get(topic, {}), **counts})
        self._tell(topic)

    def _tell(self, topic: str) -> None:
        """Keep the table, and have fronts told of a topic in it; of all that it has now if that is ""."""
        self._path.write_bytes(orjson.dumps({"topicConfigTable": self.topics, "dataVersion": self.version}))
        self.changed = topic
        news, self.news = self.news, asyncio.Event()
        news.set()


def said_by(name: str, address: str, lease_ms: int) -> dict[str, str]:
    """Return the fields of what a broker says to a front."""
    return {
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": "DefaultCluster",
        "haServerAddr": "",
        "brokerId": "0",
        "enableActingMaster": "false",
        "compressed": "false",
        "heartbeatTimeoutMillis": str(lease_ms),
    }


def registration(
    fields: Mapping[str, str], topics: Mapping[str, Any], version: Mapping[str, int]
) -> RemotingCommand:
    """Return what a broker says that has these topics."""
    wrapper = {"dataVersion": version, "topicConfigTable": topics}
    body = orjson.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})
    return request(RequestCode.REGISTER_BROKER, {**fields, "bodyCrc32": str(crc32(body))}, body=body)


def registration_in(path: Path, fields: Mapping[str, str]) -> RemotingCommand:
    """Return what a broker says that has the topics of a topics.json."""
    written = orjson.loads(path.read_bytes())
    return registration(fields, written["topicConfigTable"], written["dataVersion"])


class Registrar:
    """What a broker without an agent says to a front: what it has, and that it lives."""

    def __init__(self, name: str, broker: StandIn, lease_ms: int, history: Writer) -> None:
        self._name = name
        self._broker = broker
        self._history = history
        self._fields = said_by(name, broker.address, lease_ms)

    async def stay_at(self, front: str, name: str) -> None:
        """Be registered at a front, whenever that can be reached."""
        while True:
            with suppress(OSError, FrameError):
                await self._visit(front, name)
            await asyncio.sleep(_BEAT_S)

    async def _visit(self, front: str, name: str) -> None:
        host, _, port = front.rpartition(":")
        async with await BrokerClient.connect(host, int(port), deadline_s=_ANSWER_S) as connection:
            beat, told = 0, self._broker.version
            while True:
                news, began_us, version = self._broker.news, now_us(), self._broker.version
                queues = self._broker.queues
                command = self._heartbeat() if version == told else self._registration(self._broker.changed)
                if beat == 0 or (self._broker.registers and beat % _REGISTERED_EVERY == 0):
                    command = self._registration()
                answer = await connection.invoke(
                    command, deadline_s=_ANSWER_S if version == told else _WRITTEN_S
                )
                is_done = answer.code == ResponseCode.SUCCESS
                if is_done and version != told and self._broker.changed:
                    found = await self._found(connection)
                    if version == self._broker.version:
                        topic = self._broker.changed
                        self._history.write(
                            Written(front=name, topic=topic, queues=queues, found=found, began_us=began_us)
                        )
                # What a front could not do is said again at once, as everything when it has come back.
                beat, told = (beat + 1, version) if is_done else (0, told)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_BEAT_S):
                        await news.wait()

    async def _found(self, connection: BrokerClient) -> int | None:
        """Ask a front that has answered a change how many queues of ours its route has now."""
        asked = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": self._broker.changed})
        answer = await connection.invoke(asked, deadline_s=_ANSWER_S)
        rows = orjson.loads(answer.body)["queueDatas"] if answer.code == ResponseCode.SUCCESS else []
        return next((row["readQueueNums"] for row in rows if row["brokerName"] == self._name), None)

    def _registration(self, topic: str = "") -> RemotingCommand:
        """Return what says one topic, as a broker does that has changed it, or all of them."""
        topics = {topic: self._broker.topics[topic]} if topic else self._broker.topics
        return registration(self._fields, topics, self._broker.version)

    def _heartbeat(self) -> RemotingCommand:
        return request(RequestCode.BROKER_HEARTBEAT, self._fields)


async def main(
    name: str, address: str, port: str, topics: str, lease_ms: str, history: str, *fronts: str
) -> None:
    """Serve until killed."""
    with Writer(Path(history), name, delays=name) as writer:
        async with StandIn(address, int(port), Path(topics), writer) as broker:
            writer.write(Started(pid=os.getpid()))
            registrar = Registrar(name, broker, int(lease_ms), writer)
            async with asyncio.TaskGroup() as tasks:
                stays: list[asyncio.Task[None]] = []

                def come() -> None:
                    for number, front in enumerate(fronts, 1):
                        stays.append(tasks.create_task(registrar.stay_at(front, f"front-{number}")))

                def leave() -> None:
                    while stays:
                        stays.pop().cancel()

                asyncio.get_running_loop().add_signal_handler(LEAVES, leave)
                asyncio.get_running_loop().add_signal_handler(COMES, come)
                come()
                await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
