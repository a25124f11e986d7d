"""Asks a front for the route of a topic again and again, as a client does, and notes each answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from time import monotonic
from typing import Final, NamedTuple, Self

from sharedroutes.remoting import RequestCode, ResponseCode, request
from sharedroutes.remoting.broker.client import BrokerClient
from sharedroutes.remoting.fastjson import loads

from ..processes import LOOPBACK

_EACH_S: Final = 0.05
_ANSWER_S: Final = 1.0


class Answer(NamedTuple):
    """What a front has answered."""

    at_s: float
    topic: str
    brokers: frozenset[str] | None
    """The names of the brokers in the route; None = no answer."""


class FrontWatch:
    """Watches one front from a thread, for the length of a `with` block; its answers are only appended to."""

    def __init__(self, name: str, port: int, topic: str) -> None:
        self.name = name
        self.answers: list[Answer] = []
        self._port = port
        self.topic = topic
        """What is asked for from now on."""

        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch()), name=f"watch of {name}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def says(self, brokers: frozenset[str]) -> bool:
        """Whether its last answer names these brokers and no others."""
        return bool(self.answers) and self.answers[-1][1:] == (self.topic, brokers)

    def since(self, at_s: float) -> Sequence[Answer]:
        """Return the answers since a time of the monotonic clock."""
        return [answer for answer in self.answers if answer.at_s >= at_s]

    async def _watch(self) -> None:
        front: BrokerClient | None = None
        while not self._stopping.is_set():
            topic, brokers = self.topic, None
            try:
                front = front or await BrokerClient.connect(LOOPBACK, self._port, deadline_s=_ANSWER_S)
                brokers = await _brokers(front, topic)
            except OSError:
                if front is not None:
                    front.abort()
                front = None
            self.answers.append(Answer(monotonic(), topic, brokers))
            await asyncio.sleep(_EACH_S)
        if front is not None:
            front.abort()


async def _brokers(front: BrokerClient, topic: str) -> frozenset[str]:
    fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
    asked = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
    answer = await front.invoke(asked, deadline_s=_ANSWER_S)
    if answer.code == ResponseCode.SUCCESS:
        return frozenset(row["brokerName"] for row in loads(answer.body)["brokerDatas"])
    return frozenset()
