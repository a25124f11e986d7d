"""What can go wrong for a caller of the route client.

RegistryError
 +-- NoRoute          nobody alive holds the topic, or nobody accepts messages for it: create it, or wait
 +-- AttemptsFailed   every attempt failed; `failures` says where and why. Try again later, unless a message
 |                    that arrives twice is worse than one that is lost: an attempt may have got through
 +-- BrokerRefused    you raise it when a broker answers with an error; its code decides what becomes of it
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ..registry.errors import RegistryError

__all__ = ["AttemptsFailed", "BrokerRefused", "Failure", "NoRoute"]


class NoRoute(RegistryError, LookupError):
    """The registry was read, and no live broker holds the topic in the way that was asked for."""

    def __init__(self, topic: str, wanted: str) -> None:
        super().__init__(f"no route: {wanted} topic {topic!r}; is it created, and are its brokers alive?")
        self.topic = topic
        self._wanted = wanted

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.topic, self._wanted)  # errors of worker processes are pickled


class BrokerRefused(RegistryError):
    """A broker answered with an error (RocketMQ: MQBrokerException); for callers to raise in an attempt."""

    def __init__(self, code: int, remark: str = "") -> None:
        super().__init__(f"the broker answered with code {code}{': ' if remark else ''}{remark}")
        self.code = code
        self.remark = remark

    def __reduce__(self) -> tuple[type[Self], tuple[int, str]]:
        return type(self), (self.code, self.remark)


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

    def __str__(self) -> str:
        """Return one line for people."""
        return (
            f"{self.number}. {self.broker_name}, queue {self.queue_id} ({self.address}), "
            f"at {self.began_s * 1000:.0f} ms, for {self.latency_s * 1000:.0f} ms: {self.cause!r}"
        )


class AttemptsFailed(RegistryError):
    """Every attempt at an operation failed; `failures` holds each of them, the last is also `__cause__`."""

    def __init__(self, topic: str, failures: tuple[Failure, ...], why_over: str) -> None:
        told = "; ".join(map(str, failures))
        super().__init__(f"topic {topic!r}: gave up after {len(failures)} attempts, {why_over}: {told}")
        self.topic = topic
        self.failures = failures
        self._why_over = why_over

    def __reduce__(self) -> tuple[type[Self], tuple[str, tuple[Failure, ...], str]]:
        return type(self), (self.topic, self.failures, self._why_over)
