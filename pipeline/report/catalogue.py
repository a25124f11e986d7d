"""The table of answers: of each, what it is called, how it is found, and what the page shows of it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.resources import files
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
    def avoided(self) -> DataFrame | None:
        """What clients did after ends, by what they recorded; None = there are no samples."""
        if self.history.samples is None:
            return None
        found = detection.avoidance(
            self.all_sessions, _there(self.history.observed_samples), self.history.faults
        )
        return self._keep(detection.AVOIDANCE.name, self.since(F.col("since_ms"), found))

    @cached_property
    def ends(self) -> DataFrame:
        """The ends that nobody asked for."""
        found = detection.detection(self.all_sessions, self.avoided, self.history.faults)
        return self._keep(detection.DETECTION.name, self.since(F.col("told_ms"), found))

    @cached_property
    def ladder(self) -> ladder.LadderAnswer:
        """What samples say of ladders."""
        return ladder.ladder_answer(_there(self.history.observed_samples))

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


SHOWN: Final[Mapping[str, Callable[[Row], bool]]] = {
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
    detection.CLIENTS: lambda w: detection.clients(_there(w.history.observed_samples), _there(w.avoided)),
    detection.AVOIDANCE: lambda w: _there(w.avoided),
    latency.LATENCY: lambda w: latency.latency(_there(w.history.observed_samples)),
    detection.DETECTION_SUMMARY: lambda w: detection.detection_summary(w.ends, w.avoided),
    detection.DETECTION: lambda w: w.ends,
    churn.CHURN: lambda w: churn.churn(w.changes, w.history.until_ms),
    churn.OPERATIONS: lambda w: churn.operations(w.changes, w.history.until_ms),
    churn.TOPIC_LIVES: lambda w: w.since(
        F.coalesce("gone_ms", F.lit(w.history.from_ms)), churn.topic_lives(w.seen)
    ),
    placement.CLUSTER_SKEW: lambda w: placement.cluster_skew(_there(w.history.routes)),
    placement.BROKER_LOAD: lambda w: placement.broker_load(_there(w.history.routes)),
    placement.SINGLE_BROKER_TOPICS: lambda w: placement.single_broker_topics(_there(w.history.routes)),
    ladder.LADDER_SCORES: lambda w: w.ladder.scores,
}


class Part(NamedTuple):
    """A part of the page: what it is about, and its answers."""

    anchor: str
    text: str
    answers: tuple[Answer, ...]


def _parts() -> Iterator[Part]:
    """Yield what `page.toml` tells of the page."""
    named = {table.name: (table, query) for table, query in _QUERIES.items()}
    for anchor, part in tomllib.loads(files(__package__).joinpath("page.toml").read_text("utf-8")).items():
        answers = []
        for name, told in part["answers"].items():
            table, query = named[name]
            order, shown = (tuple(told[which].split()) for which in ("order", "shown"))
            answers.append(Answer(table, told["title"], query, order, shown, told.get("needs", "")))
        yield Part(anchor, part["text"], tuple(answers))


PARTS: Final = (*_parts(),)

ANSWERS: Final = {answer.name: answer for part in PARTS for answer in part.answers}
"""All answers that there can be, by the names of their tables."""


def asked(history: History) -> list[Answer]:
    """Return the answers that can be given to a history, in their order."""
    return [one for one in ANSWERS.values() if not one.needs or getattr(history, one.needs) is not None]
