"""What the server of a front asks for answers, and what it shows of a connection."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from ...remoting import RemotingCommand


class Connection(Protocol):
    """A peer: a broker, a client, or an operator's tool."""

    number: int
    """Unique in this process, and never given again."""

    peer: str
    """`host:port`, of the PROXY header where there is one."""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended; `closed` tells of that when its last request is answered."""

    def send(self, frame: bytes) -> None:
        """Send a frame that answers nothing."""

    def close(self, why: str) -> None:
        """End the connection; the reason is logged."""


class Service(Protocol):
    """What answers requests."""

    def answer(
        self, request: RemotingCommand, connection: Connection
    ) -> bytes | Awaitable[RemotingCommand | None] | None:
        """Return the frame of the answer, or what becomes the answer; None = there is none.

        What becomes it may end after others that were asked later; the server gives it the request's opaque.
        """

    def closed(self, connection: Connection) -> None:
        """Note that a connection has ended, however it did; not called for those that a drain ends.

        Called once, when no request of the connection is in flight any more: none can undo what is done here.
        """


class QuickAnswers(Protocol):
    """What knows requests by their bytes: what clients repeat for ever is answered without a decoder."""

    def quick_answer(self, data: bytes, connection: Connection) -> bytes | None:
        """Return the frame of the answer if this is one request like one that was learned; else None."""

    def learn(self, data: bytes, request: RemotingCommand) -> None:
        """Remember the bytes of one request, if it may be answered so."""
