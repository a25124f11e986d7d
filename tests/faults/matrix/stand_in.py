"""A broker that stands in for RocketMQ's: it takes messages, answers questions, and registers at fronts.

python -m tests.faults.matrix.stand_in NAME PORT TOPICS_JSON LEASE_MS HISTORY [FRONT ...]
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from sharedroutes.nameserver.bodies import crc32
from sharedroutes.remoting import FrameError, RemotingCommand, RequestCode, ResponseCode, request, response_to
from sharedroutes.remoting.broker.client import BrokerClient
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.faults.checker.history import Received, Started, Writer

LEAVES: Final = signal.SIGUSR1
"""Tells it to close its connections to the fronts, and to go on."""

COMES: Final = signal.SIGUSR2
"""Tells it to come back to them."""

_REGISTERED_EVERY: Final = 5
"""Beats; the others are short heartbeats."""

_BEAT_S: Final = 1.0
_ANSWER_S: Final = 2.0


class StandIn(SpeakingBroker):
    """Answers as a broker does, and writes down each message that it takes before it says so."""

    def __init__(self, port: int, topics: dict[str, Any], history: Writer) -> None:
        super().__init__("127.0.0.1", port)
        self.topics = topics["topicConfigTable"]
        self.version = topics["dataVersion"]
        self._history = history
        self._taken = 0

    def answer(self, command: RemotingCommand) -> RemotingCommand:
        """Take a message, or answer what every stand-in can."""
        if command.code != RequestCode.SEND_MESSAGE_V2:
            return super().answer(command)
        self._history.write(Received(message=command.body.decode(), address=self.address))
        self._taken += 1
        fields = {"queueId": command.ext_field("e") or "0", "queueOffset": str(self._taken), "msgId": "0"}
        return response_to(command, ResponseCode.SUCCESS, fields)


class Registrar:
    """What a broker without an agent says to a front: what it has, and that it lives."""

    def __init__(self, name: str, broker: StandIn, lease_ms: int) -> None:
        self._fields = {
            "brokerName": name,
            "brokerAddr": broker.address,
            "clusterName": "DefaultCluster",
            "haServerAddr": "",
            "brokerId": "0",
            "enableActingMaster": "false",
            "compressed": "false",
            "heartbeatTimeoutMillis": str(lease_ms),
        }
        wrapper = {"dataVersion": broker.version, "topicConfigTable": broker.topics}
        self._body = orjson.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})

    async def stay_at(self, front: str) -> None:
        """Be registered at a front, whenever that can be reached."""
        while True:
            with suppress(OSError, FrameError):
                await self._visit(front)
            await asyncio.sleep(_BEAT_S)

    async def _visit(self, front: str) -> None:
        host, _, port = front.rpartition(":")
        async with await BrokerClient.connect(host, int(port), deadline_s=_ANSWER_S) as connection:
            beat = 0
            while True:
                command = self._registration() if beat % _REGISTERED_EVERY == 0 else self._heartbeat()
                answer = await connection.invoke(command, deadline_s=_ANSWER_S)
                # What a front could not do is said again at once, as everything when it has come back.
                beat = beat + 1 if answer.code == ResponseCode.SUCCESS else 0
                await asyncio.sleep(_BEAT_S)

    def _registration(self) -> RemotingCommand:
        fields = {**self._fields, "bodyCrc32": str(crc32(self._body))}
        return request(RequestCode.REGISTER_BROKER, fields, body=self._body)

    def _heartbeat(self) -> RemotingCommand:
        return request(RequestCode.BROKER_HEARTBEAT, self._fields)


async def main(name: str, port: str, topics: str, lease_ms: str, history: str, *fronts: str) -> None:
    """Serve until killed."""
    with Writer(Path(history), name, delays=name) as writer:
        table = orjson.loads(Path(topics).read_bytes())  # noqa: ASYNC240 - before anything runs
        async with StandIn(int(port), table, writer) as broker:
            writer.write(Started(pid=os.getpid()))
            registrar = Registrar(name, broker, int(lease_ms))
            async with asyncio.TaskGroup() as tasks:
                stays: list[asyncio.Task[None]] = []

                def come() -> None:
                    stays.extend(tasks.create_task(registrar.stay_at(front)) for front in fronts)

                def leave() -> None:
                    while stays:
                        stays.pop().cancel()

                asyncio.get_running_loop().add_signal_handler(LEAVES, leave)
                asyncio.get_running_loop().add_signal_handler(COMES, come)
                come()
                await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
