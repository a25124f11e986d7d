"""The parts of the page: which plots and tables they have, and what they are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ...registry import MASTER_ID
from ..answers import availability, churn, detection, ladder, latency, placement, sessions, uptime
from ..tables import Table
from .facts import Overview
from .figures import Alive, Mark, Span, availability_map, broker_timeline, detection_curves, ladders
from .found import Found
from .page import Grid, Plot, Section, grid

__all__ = ["sections"]

_REPLICA: Final = ("registry", "broker", "broker_id")
_BROKERS: Final = 40
"""So many replicas are drawn, those that were away longest first."""


class _Part(NamedTuple):
    anchor: str
    title: str
    text: str
    grids: tuple[tuple[Table, tuple[str, ...]], ...]
    """Tables with the columns that are shown; the files have all of them."""


_PARTS: Final = (
    _Part(
        "brokers",
        "Brokers",
        "When each replica of a broker was alive, and how that ended. In black: what was done on purpose.",
        (
            (
                uptime.BROKER_RELIABILITY,
                ("broker", "broker_id", "failures", "stops", "restarts", "availability", "mtbf_s", "mttr_s"),
            ),
            (
                sessions.BROKER_SESSIONS,
                ("broker", "broker_id", "address", "begin_ms", "end_ms", "ended", "reason", "away_until_ms"),
            ),
            (
                uptime.CLUSTER_AVAILABILITY,
                ("cluster", "day", "replicas", "availability", "master_availability"),
            ),
            (uptime.FLAPS, ("broker", "broker_id", "begin_ms", "end_ms", "ended", "too_short", "soon_back")),
        ),
    ),
    _Part(
        "topics",
        "Topics",
        "Times in which no broker took messages for a topic, and the brokers that caused them.",
        (
            (
                availability.TOPIC_AVAILABILITY,
                ("topic", "outages", "lost_min", "longest_min", "availability", "unknown_ms"),
            ),
            (availability.OUTAGE_CAUSES, ("broker", "outages", "topics", "lost_min", "causes")),
            (availability.TOPIC_OUTAGES, ("topic", "from_ms", "to_ms", "lost_ms", "caused_by", "causes")),
        ),
    ),
    _Part(
        "detection",
        "Detection",
        "How long it took until the end of a broker was known, and until clients avoided it; beside it what "
        "RocketMQ's name server would have taken for the same ends, computed from its timers.",
        (
            (
                detection.DETECTION_SUMMARY,
                ("stage", "ends", "missed", "p50_ms", "p95_ms", "p99_ms", "max_ms"),
            ),
            (
                detection.DETECTION,
                (
                    "broker",
                    "ended",
                    "what",
                    "since_ms",
                    "told_after_ms",
                    "first_avoided_after_ms",
                    "last_avoided_after_ms",
                    "misdirected",
                ),
            ),
        ),
    ),
    _Part(
        "churn",
        "Changes",
        "What was written to the registry, and when brokers registered in storms.",
        (
            (churn.CHURN, churn.CHURN.names[1:]),
            (churn.STORMS, churn.STORMS.names[1:]),
            (churn.TOPIC_LIVES, ("topic", "life", "created_ms", "gone_ms", "brokers", "moved", "use")),
        ),
    ),
    _Part(
        "placement",
        "Placement",
        "How evenly queues lie on brokers, topics without a second broker, and where new ones should go.",
        (
            (placement.CLUSTER_SKEW, placement.CLUSTER_SKEW.names[1:]),
            (placement.BROKER_LOAD, placement.BROKER_LOAD.names[2:]),
            (placement.SINGLE_BROKER_TOPICS, placement.SINGLE_BROKER_TOPICS.names[1:]),
            (placement.SUGGESTIONS, placement.SUGGESTIONS.names[1:]),
        ),
    ),
    _Part(
        "sends",
        "Sends",
        "How long attempts to send took, and how well ladders would have told slow brokers from others: "
        "after an answer that takes so long, a broker is left alone for so long.",
        (
            (latency.LATENCY, latency.LATENCY.names[1:]),
            (ladder.LADDER_SCORES, ladder.LADDER_SCORES.names),
            (ladder.LADDER_STEPS, ladder.LADDER_STEPS.names),
            (ladder.LADDER_DECISIONS, ("ladder", *ladder.LADDER_DECISIONS.names[2:10])),
        ),
    ),
)


def sections(overview: Overview, found: Mapping[str, Found]) -> list[Section]:
    """Return the parts of the page whose answers are there."""
    plots = {"brokers": _of_brokers, "detection": _of_detection, "sends": _of_ladders}
    made = []
    for part in _PARTS:
        grids = [
            _shown(found[table.name], table, names, several=overview.several)
            for table, names in part.grids
            if table.name in found
        ]
        if grids:
            draw = plots.get(part.anchor)
            pictures = list(draw(overview, found)) if draw else []
            made.append(Section(part.anchor, part.title, part.text, pictures, grids))
    return made


def _shown(answer: Found, table: Table, names: Sequence[str], *, several: bool) -> Grid:
    shown = {*names, "registry"} if several else {*names}
    columns = tuple(column for column in table.columns if column.name in shown)
    rows = [[row[column.name] for column in columns] for row in answer.rows]
    return grid(Table(table.name, table.meaning, columns), rows, answer.total)


def _of_brokers(overview: Overview, found: Mapping[str, Found]) -> Iterator[Plot]:
    reliability, several = found[uptime.BROKER_RELIABILITY.name], overview.several
    keys = [tuple(row[name] for name in _REPLICA) for row in reliability.most("away_ms", _BROKERS)]
    alive = [
        Alive(
            _name(*(row[name] for name in _REPLICA), several=several),
            row["begin_ms"],
            row["end_ms"],
            row["ended"],
            # Who moved to another id was not away.
            row["end_ms"] if row["ended"] == "moved" else row["away_until_ms"],
        )
        for row in found[sessions.BROKER_SESSIONS.name].of(_REPLICA, keys)
    ]
    span = Span(overview.begin_ms, overview.end_ms)
    marks = [
        Mark(_name(registry, broker, MASTER_ID, several=several) if broker else "", at_ms, what)
        for registry, broker, at_ms, what in overview.marks
    ]
    which = (
        f" ({_BROKERS} of {reliability.total}: those away longest)" if reliability.total > _BROKERS else ""
    )
    yield Plot(broker_timeline(alive, marks, span), f"Replicas of brokers and when they were alive{which}")
    yield Plot(availability_map(alive, span), f"Share of the time in which they were alive{which}")


def _name(registry: str, broker: str, broker_id: int, *, several: bool) -> str:
    return f"{registry} {broker}:{broker_id}" if several else f"{broker}:{broker_id}"


_CURVES: Final = {
    "told by the registry": "told_after_ms",
    "first client avoided it": "first_avoided_after_ms",
    "last client avoided it": "last_avoided_after_ms",
    "RocketMQ, connection closed (computed)": "rocketmq_closed_after_ms",
    "RocketMQ, silent (computed)": "rocketmq_silent_after_ms",
}


def _of_detection(_: Overview, found: Mapping[str, Found]) -> Iterator[Plot]:
    ends = found[detection.DETECTION.name]
    clients = ends.values("clients")
    delays_s = {
        name: [
            None if delay_ms is None else delay_ms / 1000
            for delay_ms, count in zip(ends.values(column), clients, strict=True)
            if count or not column.endswith("avoided_after_ms")
        ]
        for name, column in _CURVES.items()
    }
    if ends.total:
        yield Plot(
            detection_curves(delays_s),
            "Share of the ends of brokers that are known after so many seconds; what is missing from 1 "
            "did not become known before the broker was back",
        )


def _of_ladders(_: Overview, found: Mapping[str, Found]) -> Iterator[Plot]:
    steps: dict[str, list[tuple[float, float]]] = {}
    for row in found[ladder.LADDER_STEPS.name].rows:
        steps.setdefault(row["ladder"], []).append((row["latency_ms"], row["isolation_ms"]))
    yield Plot(ladders(steps), "For how long a broker is left alone after an answer that took so long")
