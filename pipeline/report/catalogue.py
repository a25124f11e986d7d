"""The table of answers: of each, what it is called, how it is found, and what the page shows of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ..answers import availability, churn, detection, incidents, ladder, latency, placement, sessions, uptime
from ..answers.holdings import BY_TOPIC, Seen
from ..tables import Column, Table
from .history import History


class Working:
    """What the answers to one history are made from: each worked out once.

    `store` writes it, by its name, and returns it as it stands there: what is made from it has a short plan.
    """

    def __init__(
        self, history: History, store: Callable[[str, DataFrame], DataFrame] = lambda _, frame: frame
    ) -> None:
        self.history = history
        self.seen = Seen(history.changes, history.routes, history.until_ms, self._keep, history.from_ms)
        self._store = store
        self._persisted: list[DataFrame] = []

    def _keep(self, name: str, found: DataFrame) -> DataFrame:
        if name not in BY_TOPIC:
            return self._store(name, found)
        self._persisted.append(found.persist(StorageLevel.DISK_ONLY))
        return found

    def close(self) -> None:
        """Let go of what is not written."""
        while self._persisted:
            self._persisted.pop().unpersist()

    @cached_property
    def changes(self) -> DataFrame:
        """The changes of the observation."""
        return self.since(F.col("ms"), self.seen.changes)

    @cached_property
    def all_sessions(self) -> DataFrame:
        """All sessions of brokers up to the end of the observation."""
        history = self.history
        found = sessions.broker_sessions(history.changes, history.until_ms, span=self.seen.span)
        return self._keep("all_sessions", found)

    @cached_property
    def sessions(self) -> DataFrame:
        """Those of the observation."""
        return uptime.observed(self.all_sessions, self.history.from_ms)

    @cached_property
    def outages(self) -> DataFrame:
        """The outages of topics."""
        found = availability.topic_outages(self.seen, self.all_sessions, fewer_than=self.history.fewer_than)
        return self._keep(availability.TOPIC_OUTAGES.name, found)

    @cached_property
    def topics(self) -> DataFrame:
        """The availability of topics."""
        found = availability.topic_availability(self.seen, self.outages)
        return self._keep(availability.TOPIC_AVAILABILITY.name, found)

    @cached_property
    def samples(self) -> DataFrame:
        """The samples of the observation."""
        return _there(self.history.observed_samples)

    @cached_property
    def routes(self) -> DataFrame:
        """The routes."""
        return _there(self.history.routes)

    @cached_property
    def avoided(self) -> DataFrame | None:
        """What clients did after ends, by what they recorded; None = there are no samples."""
        if self.history.samples is None:
            return None
        found = detection.avoidance(self.all_sessions, self.samples, self.history.faults)
        return self._keep(detection.AVOIDANCE.name, self.since(F.col("since_ms"), found))

    @cached_property
    def ends(self) -> DataFrame:
        """The ends that nobody asked for."""
        found = detection.detection(self.all_sessions, self.avoided, self.history.faults)
        return self._keep(detection.DETECTION.name, self.since(F.col("told_ms"), found))

    @cached_property
    def ladder(self) -> ladder.LadderAnswer:
        """What samples say of ladders."""
        return ladder.ladder_answer(self.samples)

    def since(self, ms: Expression, found: DataFrame) -> DataFrame:
        """Return the rows of the observation."""
        from_ms = self.history.from_ms
        return found if from_ms is None else found.where(ms >= from_ms)


def _there(found: DataFrame | None) -> DataFrame:
    if found is None:
        raise ValueError("an answer was asked for that is made from what is not there")
    return found


class Answer(NamedTuple):
    """One answer: files have all of its table, the page the first rows by `order` of the columns `shown`."""

    table: Table
    title: str
    query: Callable[[Working], DataFrame]
    order: tuple[str, ...]
    """Columns; those with a `-` before them have the largest first. Nulls come last."""

    shown: tuple[str, ...]
    """Empty = the page does not show it."""

    needs: str
    """What else it is made from: `samples`, `routes` or `slo`; empty = nothing."""

    @property
    def name(self) -> str:
        """The name of its table, and of its files."""
        return self.table.name

    @property
    def by(self) -> list[Expression]:
        """The order, for Spark."""
        return [
            F.desc_nulls_last(name[1:]) if name.startswith("-") else F.asc_nulls_last(name)
            for name in self.order
        ]

    def columns(self, *, several: bool) -> tuple[Column, ...]:
        """Return the columns of the page; with several registries, each row says of which it is."""
        wanted = (*(["registry"] if several else []), *(name for name in self.shown if name != "registry"))
        of_name = {column.name: column for column in self.table.columns}
        return tuple(of_name[name] for name in wanted if name in of_name)

    def shows(self, row: Row) -> bool:
        """Whether the page shows a row."""
        is_shown = _SHOWN.get(self.name)
        return is_shown is None or is_shown(row)


_SHOWN: Final[Mapping[str, Callable[[Row], bool]]] = {
    "topic_budgets": lambda row: not row["system"],
    "broker_sessions": lambda row: row["ended"] != "open",
    "detection_summary": lambda row: row["ends"] > 0,
}
"""What the page shows of an answer of which it leaves out rows."""

_QUERIES: Final[Mapping[Table, Callable[[Working], DataFrame]]] = {
    incidents.INCIDENTS: lambda w: incidents.incidents(w.ends, w.outages, w.seen.span),
    incidents.TOPIC_BUDGETS: lambda w: incidents.topic_budgets(
        w.topics, w.outages, w.seen.span, objective=(w.history.slo or 0.0) / 100
    ),
    availability.TOPIC_AVAILABILITY: lambda w: w.topics,
    availability.OUTAGE_CAUSES: lambda w: availability.outage_causes(w.outages),
    availability.TOPIC_OUTAGES: lambda w: w.outages,
    uptime.BROKER_RELIABILITY: lambda w: uptime.broker_reliability(w.sessions),
    sessions.BROKER_SESSIONS: lambda w: w.all_sessions.where(
        F.greatest("end_ms", "away_until_ms") >= (w.history.from_ms or 0)
    ),
    detection.CLIENTS: lambda w: detection.clients(w.samples, _there(w.avoided)),
    detection.AVOIDANCE: lambda w: _there(w.avoided),
    latency.LATENCY: lambda w: latency.latency(w.samples),
    detection.DETECTION_SUMMARY: lambda w: detection.detection_summary(w.ends, w.avoided),
    detection.DETECTION: lambda w: w.ends,
    churn.CHURN: lambda w: churn.churn(w.changes, w.history.until_ms),
    churn.TOPIC_LIVES: lambda w: w.since(
        F.coalesce("gone_ms", F.lit(w.history.from_ms)), churn.topic_lives(w.seen)
    ),
    placement.CLUSTER_SKEW: lambda w: placement.cluster_skew(w.routes),
    placement.BROKER_LOAD: lambda w: placement.broker_load(w.routes),
    placement.SINGLE_BROKER_TOPICS: lambda w: placement.single_broker_topics(w.routes),
    ladder.LADDER_SCORES: lambda w: w.ladder.scores,
}
_NAMED: Final = {table.name: table for table in _QUERIES}
_ANSWER: Final = re.compile(r"^ *(\w+)(?: \((\w+)\))?: (.+)\n +(.+)\n(?: +(?!.*:)(.+)\n)?", re.MULTILINE)


class Part(NamedTuple):
    """A part of the page: what it is about, and its answers."""

    anchor: str
    text: str
    told: str
    """Its answers, each as `table (needs): title`, then a line with the order, and one with what is shown."""

    @property
    def title(self) -> str:
        """What stands above it."""
        return self.anchor.capitalize()

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Its answers."""
        return tuple(
            Answer(_NAMED[name], title, _QUERIES[_NAMED[name]], (*order.split(),), (*shown.split(),), needs)
            for name, needs, title, order, shown in _ANSWER.findall(self.told)
        )


PARTS: Final = (
    Part(
        "incidents",
        "Brokers that failed and topics that lost theirs, within a minute of each other. The worst is first.",
        """
        incidents: Incidents
          -lost_min -failures -lasted_ms registry from_ms
          from_ms lasted_ms over brokers failures outages lost_min causes
        """,
    ),
    Part(
        "topics",
        "Times in which no broker took messages for a topic, and the brokers that caused them. "
        "RocketMQ's own topics come last.",
        """
        topic_budgets (slo): Error budgets
          system -spent -burn_1h registry topic
          topic verdict availability budget_min lost_min spent burn_1h burn_6h
        topic_availability: Availability of topics
          system -lost_min -outages registry topic
          topic availability outages lost_min longest_min unknown_ms system
        outage_causes: Brokers that caused outages
          -lost_min registry broker
          broker outages topics lost_min causes
        topic_outages: Outages of topics, the longest first
          system -lost_ms registry from_ms topic
          topic from_ms lost_ms over fewest caused_by causes system
        """,
    ),
    Part(
        "brokers",
        "When each replica of a broker was alive, and how that ended.",
        """
        broker_reliability: Replicas, the least available first
          availability -away_ms registry broker broker_id
          broker broker_id availability failures stops restarts takeovers flaps away_ms longest_away_s mttr_s
        broker_sessions: Sessions, the newest end first
          -told_ms registry broker broker_id begin_ms
          broker broker_id address begin_ms end_ms ended reason away_until_ms
        """,
    ),
    Part(
        "clients",
        "Which client met what, by what clients recorded of their attempts to send.",
        """
        clients (samples): Clients, the worst off first
          -misdirected -failures -slowest_ms client
          client attempts failures failure_share slowest_ms ends misdirected latest_avoided_after_ms
        avoidance (samples): Ends of brokers and the clients that had sent there
          -misdirected -avoided_after_ms since_ms client
          client broker since_ms avoided_after_ms misdirected error_ms
        latency (samples): Slowest hours of a topic at a broker
          -p99_ms -failures registry hour broker topic
          hour broker topic attempts failure_share failed_from_ms failed_until_ms p50_ms p90_ms p99_ms max_ms
        """,
    ),
    Part(
        "detection",
        "How long it took until the end of a broker was known, and until clients avoided it; beside "
        "it what RocketMQ's name server would have taken for the same ends, computed from its timers.",
        """
        detection_summary: How soon ends were known
          registry stage
          stage ends missed p50_ms p95_ms p99_ms max_ms
        detection: Ends that nobody asked for, the latest known first
          -told_after_ms -since_ms registry broker broker_id
          broker ended what since_ms told_after_ms first_avoided_after_ms last_avoided_after_ms misdirected
        """,
    ),
    Part(
        "changes",
        "What was written to the registry, and which topics came and went.",
        """
        churn: Hours with most changes
          -changes registry hour_ms kind broker
          hour_ms kind broker changes added changed removed
        topic_lives: Topics that went, came or moved, the latest first
          system -gone_ms -created_ms registry topic life
          topic life created_ms gone_ms brokers moved system
        """,
    ),
    Part(
        "placement",
        "How evenly queues lie on brokers, and topics without a second broker.",
        """
        placement_skew (routes): Clusters, the least even first
          -most_over_mean registry cluster
          cluster brokers writable_brokers topics write_queues most_over_mean single_broker_topics room
        placement (routes): Brokers, the fullest first
          -over_mean registry cluster broker
          cluster broker alive wiped topics write_queues over_mean rank room
        single_broker_topics (routes): Topics without a second broker
          alive registry cluster topic
          topic cluster broker alive write_queues
        """,
    ),
    Part(
        "ladders",
        "How well latency ladders would have told slow brokers from others: after an answer that "
        "takes so long, a broker is left alone for so long.",
        """
        ladder_scores (samples): Ladders, the best first
          rank
          ladder rank score bad saved withheld isolations steps
        """,
    ),
)

ANSWERS: Final = {answer.name: answer for part in PARTS for answer in part.answers}
"""All answers that there can be, by the names of their tables."""


def asked(history: History) -> list[Answer]:
    """Return the answers that can be given to a history, in their order."""
    return [one for one in ANSWERS.values() if not one.needs or getattr(history, one.needs) is not None]
