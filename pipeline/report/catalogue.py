"""The table of answers: of each, what it is called, how it is found, and what the page shows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ..answers import availability, churn, detection, incidents, ladder, latency, placement, sessions, uptime
from ..answers.holdings import Seen
from ..tables import Column, Table
from .history import History

_OF_REPLICA: Final = ("registry", "broker", "broker_id")


class Working:
    """What the answers to one history are made from: each worked out once, and kept on disk until the end."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.seen = Seen(history.changes, history.routes, history.until_ms, self._keep, history.from_ms)
        self._kept: list[DataFrame] = []

    def _keep(self, found: DataFrame) -> DataFrame:
        self._kept.append(found.persist(StorageLevel.DISK_ONLY))
        return found

    def close(self) -> None:
        """Let go of what is kept."""
        while self._kept:
            self._kept.pop().unpersist()

    @cached_property
    def changes(self) -> DataFrame:
        """The changes of the observation."""
        return self._since(F.col("ms"), self.seen.changes)

    @cached_property
    def all_sessions(self) -> DataFrame:
        """All sessions of brokers up to the end of the observation."""
        history = self.history
        found = sessions.broker_sessions(history.changes, history.until_ms, span=self.seen.span)
        return self._keep(found)

    @cached_property
    def sessions(self) -> DataFrame:
        """Those of the observation."""
        return uptime.observed(self.all_sessions, self.history.from_ms)

    @cached_property
    def days(self) -> DataFrame:
        """The availability of brokers by days."""
        return self._keep(uptime.broker_availability(self.sessions))

    @cached_property
    def outages(self) -> DataFrame:
        """The outages of topics."""
        found = availability.topic_outages(self.seen, self.all_sessions, fewer_than=self.history.fewer_than)
        return self._keep(availability.since(found, self.history.from_ms).transform(_with_length))

    @cached_property
    def topics(self) -> DataFrame:
        """The availability of topics."""
        return self._keep(availability.topic_availability(self.seen, self.outages))

    @cached_property
    def samples(self) -> DataFrame:
        """The samples of the observation."""
        return _there(self.history.observed_samples)

    @cached_property
    def routes(self) -> DataFrame:
        """The routes."""
        return _there(self.history.routes)

    @cached_property
    def avoided(self) -> DataFrame:
        """What clients did after ends, by what they recorded."""
        found = detection.avoidance(self.all_sessions, self.samples, self.history.faults)
        return self._keep(self._since(F.col("since_ms"), found))

    @property
    def told_avoided(self) -> DataFrame | None:
        """The same; None = there are no samples."""
        return self.avoided if self.history.samples is not None else None

    @cached_property
    def ends(self) -> DataFrame:
        """The ends that nobody asked for."""
        found = detection.detection(self.all_sessions, self.told_avoided, self.history.faults)
        return self._keep(self._since(F.col("told_ms"), found))

    @cached_property
    def ladder(self) -> ladder.LadderAnswer:
        """What samples say of ladders."""
        return ladder.ladder_answer(self.samples, keep=self._keep)

    @cached_property
    def lives(self) -> DataFrame:
        """The lives of topics."""
        found = churn.topic_lives(self.seen, self.history.observed_samples)
        return self._since(F.coalesce("gone_ms", F.lit(self.history.from_ms)), found)

    def _since(self, ms: Expression, found: DataFrame) -> DataFrame:
        from_ms = self.history.from_ms
        return found if from_ms is None else found.where(ms >= from_ms)


def _there(found: DataFrame | None) -> DataFrame:
    if found is None:
        raise ValueError("an answer was asked for that is made from what is not there")
    return found


def _with_length(times: DataFrame) -> DataFrame:
    return times.withColumn("lost_ms", F.col("to_ms") - F.col("from_ms"))


@contextmanager
def working(history: History) -> Iterator[Working]:
    """Give what answers are made from."""
    found = Working(history)
    try:
        yield found
    finally:
        found.close()


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: files have all of its table, the page the first rows by `order` of the columns `shown`."""

    table: Table
    title: str
    query: Callable[[Working], DataFrame]
    order: tuple[str, ...]
    """Columns; those with a `-` before them have the largest first. Nulls come last."""

    shown: tuple[str, ...] = ()
    """Empty = the page does not show it."""

    needs: str = ""
    """What else it is made from: `samples`, `routes` or `slo`."""

    only: Callable[[Row], bool] | None = None
    """Whether the page shows a row; None = it shows all."""

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

    def is_asked(self, history: History) -> bool:
        """Whether there is what it is made from."""
        return not self.needs or getattr(history, self.needs) is not None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the page: what it is about, and its answers."""

    anchor: str
    title: str
    text: str
    answers: tuple[Answer, ...]


PARTS: Final = (
    Part(
        "incidents",
        "Incidents",
        "Brokers that failed and topics that lost theirs, within a minute of each other. The worst is first.",
        (
            Answer(
                incidents.INCIDENTS,
                "Incidents",
                lambda w: incidents.incidents(w.ends, w.outages, w.seen.span),
                ("-lost_min", "-failures", "-lasted_ms", "registry", "from_ms"),
                ("from_ms", "lasted_ms", "over", "brokers", "failures", "outages", "lost_min", "causes"),
            ),
        ),
    ),
    Part(
        "topics",
        "Topics",
        "Times in which no broker took messages for a topic, and the brokers that caused them. "
        "RocketMQ's own topics come last.",
        (
            Answer(
                incidents.TOPIC_BUDGETS,
                "Error budgets",
                lambda w: incidents.topic_budgets(
                    w.topics, w.outages, w.seen.span, objective=(w.history.slo or 0.0) / 100
                ),
                ("system", "-spent", "-burn_1h", "registry", "topic"),
                ("topic", "verdict", "availability", "budget_min", "lost_min", "spent", "burn_1h", "burn_6h"),
                needs="slo",
                only=lambda row: not row["system"],
            ),
            Answer(
                availability.TOPIC_AVAILABILITY,
                "Availability of topics",
                lambda w: w.topics,
                ("system", "-lost_min", "-outages", "registry", "topic"),
                ("topic", "availability", "outages", "lost_min", "longest_min", "unknown_ms", "system"),
            ),
            Answer(
                availability.OUTAGE_CAUSES,
                "Brokers that caused outages",
                lambda w: availability.outage_causes(w.outages),
                ("-lost_min", "registry", "broker"),
                ("broker", "outages", "topics", "lost_min", "causes"),
            ),
            Answer(
                availability.TOPIC_OUTAGES,
                "Outages of topics, the longest first",
                lambda w: w.outages,
                ("system", "-lost_ms", "registry", "from_ms", "topic"),
                ("topic", "from_ms", "lost_ms", "over", "fewest", "caused_by", "causes", "system"),
            ),
        ),
    ),
    Part(
        "brokers",
        "Brokers",
        "When each replica of a broker was alive, and how that ended.",
        (
            Answer(
                uptime.BROKER_RELIABILITY,
                "Replicas, the least available first",
                lambda w: uptime.broker_reliability(w.sessions),
                ("availability", "-away_ms", *_OF_REPLICA),
                (
                    *("broker", "broker_id", "availability", "failures", "stops", "restarts", "away_ms"),
                    *("longest_away_s", "mtbf_s", "mttr_s"),
                ),
            ),
            Answer(
                sessions.BROKER_SESSIONS,
                "Sessions, the newest end first",
                lambda w: w.all_sessions.where(
                    F.greatest("end_ms", "away_until_ms") >= (w.history.from_ms or 0)
                ),
                ("-told_ms", *_OF_REPLICA, "begin_ms"),
                ("broker", "broker_id", "address", "begin_ms", "end_ms", "ended", "reason", "away_until_ms"),
                only=lambda row: row["ended"] != "open",
            ),
            Answer(
                uptime.CLUSTER_AVAILABILITY,
                "Clusters by day, the least available first",
                lambda w: uptime.cluster_availability(w.days),
                ("availability", "registry", "cluster", "day"),
                ("cluster", "day", "replicas", "availability", "master_availability"),
            ),
            Answer(
                uptime.BROKER_AVAILABILITY,
                "Replicas by day",
                lambda w: w.days,
                ("availability", *_OF_REPLICA, "day"),
            ),
            Answer(
                uptime.FLAPS,
                "Sessions that were too short, or followed too soon",
                lambda w: uptime.flaps(w.sessions),
                ("-end_ms", *_OF_REPLICA),
                ("broker", "broker_id", "begin_ms", "end_ms", "ended", "alive_ms", "away_ms"),
            ),
        ),
    ),
    Part(
        "clients",
        "Clients",
        "Which client met what, by what clients recorded of their attempts to send.",
        (
            Answer(
                detection.CLIENTS,
                "Clients, the worst off first",
                lambda w: detection.clients(w.samples, w.avoided),
                ("-misdirected", "-failures", "-slowest_ms", "client"),
                (
                    *("client", "attempts", "failures", "failure_share", "slowest_ms", "ends", "misdirected"),
                    "latest_avoided_after_ms",
                ),
                needs="samples",
            ),
            Answer(
                detection.AVOIDANCE,
                "Ends of brokers and the clients that had sent there",
                lambda w: w.avoided,
                ("-misdirected", "-avoided_after_ms", "since_ms", "client"),
                ("client", "broker", "since_ms", "avoided_after_ms", "misdirected", "error_ms"),
                needs="samples",
            ),
            Answer(
                latency.LATENCY,
                "Slowest hours of a topic at a broker",
                lambda w: latency.latency(w.samples),
                ("-p99_ms", "-failures", "registry", "hour", "broker", "topic"),
                (
                    *("hour", "broker", "topic", "attempts", "failure_share", "p50_ms", "p90_ms", "p99_ms"),
                    "max_ms",
                ),
                needs="samples",
            ),
        ),
    ),
    Part(
        "detection",
        "Detection",
        "How long it took until the end of a broker was known, and until clients avoided it; beside it what "
        "RocketMQ's name server would have taken for the same ends, computed from its timers.",
        (
            Answer(
                detection.DETECTION_SUMMARY,
                "How soon ends were known",
                lambda w: detection.detection_summary(w.ends, w.told_avoided),
                ("registry", "stage"),
                ("stage", "ends", "missed", "p50_ms", "p95_ms", "p99_ms", "max_ms"),
                only=lambda row: row["ends"] > 0,
            ),
            Answer(
                detection.DETECTION,
                "Ends that nobody asked for, the latest known first",
                lambda w: w.ends,
                ("-told_after_ms", "-since_ms", *_OF_REPLICA),
                (
                    *("broker", "ended", "what", "since_ms", "told_after_ms", "first_avoided_after_ms"),
                    *("last_avoided_after_ms", "misdirected"),
                ),
            ),
        ),
    ),
    Part(
        "changes",
        "Changes",
        "What was written to the registry, and when brokers registered in storms.",
        (
            Answer(
                churn.CHURN,
                "Hours with most changes",
                lambda w: churn.churn(w.changes, w.history.until_ms),
                ("-changes", "registry", "hour_ms", "kind", "broker"),
                ("hour_ms", "kind", "broker", "changes", "added", "changed", "removed"),
            ),
            Answer(
                churn.STORMS,
                "Storms of registrations",
                lambda w: churn.storms(w.changes, until_ms=w.history.until_ms),
                ("-peak_per_s", "registry", "begin_ms"),
                ("begin_ms", "lasted_s", "ups", "tables", "brokers", "peak_per_s"),
            ),
            Answer(
                churn.TOPIC_LIVES,
                "Topics that came, went or moved, the newest first",
                lambda w: w.lives,
                ("system", "-created_ms", "-gone_ms", "registry", "topic", "life"),
                ("topic", "life", "created_ms", "gone_ms", "brokers", "moved", "use", "system"),
            ),
        ),
    ),
    Part(
        "placement",
        "Placement",
        "How evenly queues lie on brokers, topics without a second broker, and where new ones should go.",
        (
            Answer(
                placement.CLUSTER_SKEW,
                "Clusters, the least even first",
                lambda w: placement.cluster_skew(w.routes),
                ("-gini", "registry", "cluster"),
                (
                    *("cluster", "brokers", "writable_brokers", "topics", "write_queues", "most_over_mean"),
                    *("gini", "single_broker_topics", "room"),
                ),
                needs="routes",
            ),
            Answer(
                placement.BROKER_LOAD,
                "Brokers, the fullest first",
                lambda w: placement.broker_load(w.routes),
                ("-over_mean", "registry", "cluster", "broker"),
                ("cluster", "broker", "alive", "wiped", "topics", "write_queues", "over_mean", "room"),
                needs="routes",
            ),
            Answer(
                placement.SINGLE_BROKER_TOPICS,
                "Topics without a second broker",
                lambda w: placement.single_broker_topics(w.routes),
                ("alive", "registry", "cluster", "topic"),
                ("topic", "cluster", "broker", "alive", "write_queues", "suggested_broker"),
                needs="routes",
            ),
            Answer(
                placement.SUGGESTIONS,
                "Where new queues go first",
                lambda w: placement.suggestions(w.routes),
                ("rank", "registry", "cluster"),
                ("cluster", "rank", "broker", "write_queues", "add_queues"),
                needs="routes",
            ),
        ),
    ),
    Part(
        "ladders",
        "Ladders",
        "How well latency ladders would have told slow brokers from others: after an answer that takes so "
        "long, a broker is left alone for so long.",
        (
            Answer(
                ladder.LADDER_SCORES,
                "Ladders, the best first",
                lambda w: w.ladder.scores,
                ("rank",),
                ("ladder", "rank", "score", "bad", "saved", "withheld", "isolations"),
                needs="samples",
            ),
            Answer(
                ladder.LADDER_STEPS,
                "Their steps",
                lambda w: w.ladder.steps,
                ("ladder", "step"),
                ("ladder", "step", "latency_ms", "isolation_ms", "is_failure"),
                needs="samples",
            ),
            Answer(
                ladder.LADDER_DECISIONS,
                "How often they were right",
                lambda w: w.ladder.decisions,
                ("ladder", "-isolations", "registry", "broker"),
                ("ladder", "broker", "isolations", "right", "wrong", "unknown", "precision", "recall"),
                needs="samples",
            ),
            Answer(
                ladder.ISOLATIONS,
                "Isolations",
                lambda w: w.ladder.isolations,
                ("ladder", "from_ms", "client", "registry", "broker"),
                needs="samples",
            ),
        ),
    ),
)

ANSWERS: Final = {answer.name: answer for part in PARTS for answer in part.answers}
"""All answers that there can be, by the names of their tables."""


def asked(history: History) -> list[Answer]:
    """Return the answers that can be given to a history, in their order."""
    return [answer for answer in ANSWERS.values() if answer.is_asked(history)]
