"""Routes and verdicts for the tests of selection."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from sharedroutes.client.faults.memory import Verdict
from sharedroutes.client.selection import PublishView, RoundRobin, Strategy
from sharedroutes.registry import BrokerData, QueueData, TopicRoute

NOBODY: frozenset[str] = frozenset()


def route_of(queues: Mapping[str, int], zones: Mapping[str, str] | None = None) -> TopicRoute:
    """A topic with so many queues on each broker, which may be in zones."""
    zones = zones or {}
    return TopicRoute(
        "t",
        tuple(QueueData(name, count, count, 6) for name, count in queues.items()),
        tuple(BrokerData("c", name, {0: f"{name}:10911"}, zone_name=zones.get(name, "")) for name in queues),
    )


def view_of(
    brokers: Iterable[str],
    queues_each: int = 2,
    *,
    start: int = 0,
    strategy: Strategy = RoundRobin(),  # noqa: B008 - it has no state
    max_isolated_share: float | None = 1.0,
) -> PublishView:
    route = route_of(dict.fromkeys(brokers, queues_each))
    return PublishView(route, strategy, itertools.count(start), max_isolated_share=max_isolated_share)


def verdict(
    blocked: Iterable[str] = (),
    unreachable: Iterable[str] = (),
    shares: Mapping[str, float] | None = None,
) -> Verdict:
    return Verdict(tuple(blocked), frozenset(unreachable), shares or {})


QUIET = verdict()
