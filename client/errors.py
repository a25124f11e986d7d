"""What can go wrong for a caller of the route client.

RegistryError
 +-- NoRoute          nobody alive holds the topic, or nobody accepts messages for it: create it, or wait
 +-- AttemptsFailed   every attempt failed; `failures` says where and why
"""

from __future__ import annotations

from dataclasses import dataclass

from ..registry.errors import RegistryError

__all__ = ["AttemptsFailed", "Failure", "NoRoute"]


class NoRoute(RegistryError, LookupError):
    """The registry was read, and no live broker holds the topic in the way that was asked for."""

    def __init__(self, topic: str, wanted: str) -> None:
        super().__init__(f"no route: {wanted} topic {topic!r}; is it created, and are its brokers alive?")
        self.topic = topic


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that failed."""

    broker_name: str
    address: str
    latency_s: float
    cause: BaseException


class AttemptsFailed(RegistryError):
    """Every attempt at an operation failed; `failures` holds each of them, the last is also `__cause__`."""

    def __init__(self, topic: str, failures: tuple[Failure, ...], why_over: str) -> None:
        told = "; ".join(
            f"{one.broker_name} ({one.address}) after {one.latency_s * 1000:.0f} ms: {one.cause!r}"
            for one in failures
        )
        super().__init__(f"topic {topic!r}: gave up after {len(failures)} attempts, {why_over}: {told}")
        self.topic = topic
        self.failures = failures
