"""The state of the clients that somebody watches, read only when it is asked for."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, get_args

from .events import Source
from .metrics import Metric, Value


class WatchedHealth(Protocol):
    """What is shown of a client's health."""

    @property
    def source(self) -> Source: ...  # noqa: D102
    @property
    def age_s(self) -> float | None: ...  # noqa: D102
    @property
    def held(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def topics(self) -> int: ...  # noqa: D102


class WatchedFault(Protocol):
    """What is shown of a broker in a client's memory of faults."""

    @property
    def isolated_for_s(self) -> float: ...  # noqa: D102
    @property
    def reachable(self) -> bool: ...  # noqa: D102
    @property
    def suspected(self) -> bool: ...  # noqa: D102


class Watched(Protocol):
    """A route client of either kind."""

    def health(self) -> WatchedHealth: ...  # noqa: D102
    def faults(self) -> Mapping[str, WatchedFault]: ...  # noqa: D102


_SOURCE: Final = Metric("source", "1 for where routes come from now, 0 for the other sources.", ("source",))
_ANSWER_AGE: Final = Metric("answer.age", "Time since the store last answered.", unit="s")
_TOPICS: Final = Metric("topics", "Topics in the cache.", unit="{topic}")
_HELD: Final = Metric("held", "Brokers and topics served although the store's last answer lacked them.")
_ISOLATION: Final = Metric(
    "broker.isolation.remaining", "For how long a broker is still left alone.", ("broker",), "s"
)
_REACHABLE: Final = Metric("broker.reachable", "1 for a broker that counts as reachable.", ("broker",))
_SUSPECTED: Final = Metric("broker.suspected", "1 for a broker that other clients cannot reach.", ("broker",))

GAUGES: Final = (_SOURCE, _ANSWER_AGE, _TOPICS, _HELD, _ISOLATION, _REACHABLE, _SUSPECTED)


class WatchedClients:
    """Clients by name, without keeping them alive."""

    def __init__(self) -> None:
        self._clients: dict[str, weakref.ref[Watched]] = {}

    def watch(self, name: str, client: Watched) -> None:
        """Watch a client by this name, in place of the one that had it."""
        self._clients[name] = weakref.ref(client)

    def values(self) -> Iterator[tuple[str, Value]]:
        """Yield the state of each client that is still there, with its name."""
        for name, reference in tuple(self._clients.items()):
            client = reference()
            if client is not None:
                yield from ((name, value) for value in _state(client))


def _state(client: Watched) -> Iterable[Value]:
    health = client.health()
    yield from ((_SOURCE, (source,), float(source == health.source)) for source in get_args(Source))
    if health.age_s is not None:
        yield _ANSWER_AGE, (), health.age_s
    yield _TOPICS, (), health.topics
    yield _HELD, (), len(health.held)
    for broker_name, fault in client.faults().items():
        yield _ISOLATION, (broker_name,), fault.isolated_for_s
        yield _REACHABLE, (broker_name,), float(fault.reachable)
        yield _SUSPECTED, (broker_name,), float(fault.suspected)
