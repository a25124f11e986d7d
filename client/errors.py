"""The errors of the route client, by what a caller can do.

RegistryError           its `code` is RocketMQ's for such an error, if there is one
 +-- NoRoute          no live broker holds the topic, or accepts messages for it: create it, or wait
 +-- AttemptsFailed   every attempt failed; `failures` says where and why. Try again later, unless a message
 |                    that arrives twice is worse than one that is lost: an attempt may have got through
 +-- NotStored        `sending` only: no broker stored the message as it should; `answer` is the last one's
 +-- BrokerRefused    raise it yourself when a broker answers with an error; its code decides what follows
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import Any, Final

from ..registry.errors import RegistryError
from ..remoting.codes import ClientErrorCode

_NO_CONNECTION: Final = frozenset(
    (errno.ECONNREFUSED, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH)
)
"""The error numbers of a connection that cannot be made."""


class NoRoute(RegistryError, LookupError):
    """The registry was read, and no live broker holds the topic as it was asked for."""

    code: int = ClientErrorCode.NOT_FOUND_TOPIC_EXCEPTION

    def __init__(self, topic: str, wanted: str) -> None:
        super().__init__(f"no route: {wanted} topic {topic!r}; is it created, and are its brokers alive?")
        self.topic = topic


class BrokerRefused(RegistryError):
    """A broker answered with an error (RocketMQ: MQBrokerException); callers raise it in an attempt."""

    code: int
    """The response code."""

    def __init__(self, code: int, remark: str = "") -> None:
        super().__init__(f"the broker answered with code {code}{': ' if remark else ''}{remark}")
        self.code = code
        self.remark = remark


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One attempt that failed; times are in seconds, and `began_s` is how long after the first."""

    number: int
    broker_name: str
    queue_id: int
    address: str
    began_s: float
    latency_s: float
    cause: BaseException
    code: int | None = None
    """The response code of a broker that refused, or else RocketMQ's client error code; None = neither."""

    def __str__(self) -> str:
        """Return one line for people."""
        named = f" ({self.code} {self.code.name})" if isinstance(self.code, ClientErrorCode) else ""
        return (
            f"{self.number}. {self.broker_name}, queue {self.queue_id} ({self.address}), "
            f"at {self.began_s * 1000:.0f} ms, for {self.latency_s * 1000:.0f} ms: {self.cause!r}{named}"
        )


class AttemptsFailed(RegistryError):
    """Every attempt at an operation failed; `failures` holds each of them, the last is also `__cause__`.

    `code` is the last one's (RocketMQ: DefaultMQProducerImpl.sendDefaultImpl).
    """

    def __init__(self, topic: str, failures: tuple[Failure, ...], why_over: str) -> None:
        details = "; ".join(map(str, failures))
        super().__init__(f"topic {topic!r}: gave up after {len(failures)} attempts, {why_over}: {details}")
        self.topic = topic
        self.failures = failures
        self.code = failures[-1].code if failures else None


class NotStored(RegistryError):
    """No broker stored the message as it should, and there is no further attempt; `answer` is the last one.

    The message is stored all the same, but less safely than it should be.
    """

    def __init__(self, topic: str, answer: Any) -> None:
        super().__init__(f"topic {topic!r}: no broker stored the message as it should, one said {answer!r}")
        self.topic = topic
        self.answer = answer


def code_of_failure(error: BaseException) -> int | None:
    """Return RocketMQ's code for an error of an attempt; None = it has none, as for a connection that broke.

    Source: DefaultMQProducerImpl.sendDefaultImpl.
    """
    if isinstance(error, RegistryError):
        return error.code
    if isinstance(error, TimeoutError):
        return ClientErrorCode.ACCESS_BROKER_TIMEOUT
    if isinstance(error, ConnectionRefusedError | socket.gaierror):  # the first may lack its errno
        return ClientErrorCode.CONNECT_BROKER_EXCEPTION
    if isinstance(error, OSError) and error.errno in _NO_CONNECTION:
        return ClientErrorCode.CONNECT_BROKER_EXCEPTION
    return None
