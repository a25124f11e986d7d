"""Asks a front for the route of a topic again and again, as a client does, and notes each answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple, Self

from sharedroutes.remoting import FrameReader, RemotingCommand, RequestCode, ResponseCode, encode, request
from sharedroutes.remoting.fastjson import loads

from ..processes import LOOPBACK

_EACH_S: Final = 0.05
_ANSWER_S: Final = 1.0
_CHUNK: Final = 65_536


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

        self._connection: socket.socket | None = None
        self._frames = FrameReader()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch of {name}")
        self._opaque = 0

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

    def _run(self) -> None:
        while not self._stopping.wait(_EACH_S):
            topic, brokers = self.topic, None
            try:
                brokers = self._ask(topic)
            except (OSError, EOFError):
                self._hang_up()
            self.answers.append(Answer(monotonic(), topic, brokers))
        self._hang_up()

    def _ask(self, topic: str) -> frozenset[str]:
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = self._call(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        if answer.code == ResponseCode.SUCCESS:
            return frozenset(row["brokerName"] for row in loads(answer.body)["brokerDatas"])
        return frozenset()

    def _call(self, code: RequestCode, fields: dict[str, str]) -> RemotingCommand:
        if self._connection is None:
            self._connection = socket.create_connection((LOOPBACK, self._port), timeout=_ANSWER_S)
            self._frames = FrameReader()
        self._opaque += 1
        self._connection.sendall(encode(request(code, fields, opaque=self._opaque)))
        while True:
            data = self._connection.recv(_CHUNK)
            if not data:
                raise EOFError
            for command in self._frames.feed(data):
                if command.opaque == self._opaque:
                    return command

    def _hang_up(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None
