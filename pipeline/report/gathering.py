"""All answers to one history, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..answers import availability, churn, detection, ladder, latency, placement, sessions, uptime
from ..errors import BadOption
from ..ingest.layout import MAX_DAY_MS
from ..tables import Table

__all__ = ["ANSWERS", "Answer", "History", "answers", "check_until"]

_OF_CHANGES: Final = (
    sessions.BROKER_SESSIONS,
    uptime.BROKER_AVAILABILITY,
    uptime.CLUSTER_AVAILABILITY,
    uptime.BROKER_RELIABILITY,
    uptime.FLAPS,
    availability.TOPIC_OUTAGES,
    availability.TOPIC_AVAILABILITY,
    availability.OUTAGE_CAUSES,
    detection.DETECTION,
    detection.DETECTION_SUMMARY,
    churn.CHURN,
    churn.STORMS,
    churn.TOPIC_LIVES,
)
_OF_ROUTES: Final = (
    placement.BROKER_LOAD,
    placement.CLUSTER_SKEW,
    placement.SINGLE_BROKER_TOPICS,
    placement.SUGGESTIONS,
)
_OF_SAMPLES: Final = (
    detection.AVOIDANCE,
    latency.LATENCY,
    ladder.LADDER_SCORES,
    ladder.LADDER_STEPS,
    ladder.LADDER_DECISIONS,
    ladder.ISOLATIONS,
)
ANSWERS: Final = frozenset(table.name for table in (*_OF_CHANGES, *_OF_ROUTES, *_OF_SAMPLES))
"""The names of all answers that there can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a report is made from; what is not there is left out of it."""

    changes: DataFrame
    """CHANGES, or the stored ones."""

    samples: DataFrame | None = None
    routes: DataFrame | None = None
    faults: DataFrame | None = None
    quarantine: DataFrame | None = None
    corrupt_samples: DataFrame | None = None
    until_ms: int | None = None
    """The end of the observation, by the store's clock; None = the newest change."""

    fewer_than: int = 1
    """Outages of topics: times with fewer masters that take messages."""

    @property
    def steps(self) -> int:
        """How many steps a report takes: an answer each, and the page."""
        of_routes = len(_OF_ROUTES) if self.routes is not None else 0
        of_samples = len(_OF_SAMPLES) if self.samples is not None else 0
        return len(_OF_CHANGES) + of_routes + of_samples + 1

    @property
    def observed_samples(self) -> DataFrame | None:
        """The samples up to the end of the observation."""
        if self.samples is None or self.until_ms is None:
            return self.samples
        return self.samples.where(F.col("at_ms") <= self.until_ms)

    def check(self) -> None:
        """Raise BadOption for an end before the begin, and for routes of none of the changes' registries."""
        if self.routes is not None:
            self._check_registries(self.routes)
        if self.until_ms is None:
            return
        check_until(self.until_ms)
        first_ms = self.changes.agg(F.min("ms")).collect()[0][0]
        if first_ms is not None and self.until_ms < first_ms:
            raise _until(self.until_ms, f"is before the first change, which came at {first_ms}")

    def _check_registries(self, routes: DataFrame) -> None:
        ours, theirs = (sorted(_registries(frame)) for frame in (self.changes, routes))
        if ours and not set(ours) & set(theirs):
            what = f"they are of {', '.join(theirs) or 'no registry'}, and the changes of {', '.join(ours)}"
            raise BadOption.of("report", "routes", f"{what}: name the same registry as the ingest did")


def _registries(frame: DataFrame) -> set[str]:
    return {row[0] for row in frame.select("registry").distinct().collect()}


def check_until(until_ms: int) -> None:
    """Raise BadOption for an end of the observation that is no time in ms."""
    if not 0 <= until_ms <= MAX_DAY_MS:
        raise _until(until_ms, f"is not within 0 to {MAX_DAY_MS}")


def _until(until_ms: int, why: str) -> BadOption:
    return BadOption.of("report", "until_ms", f"{until_ms} {why}: give ms since 1970, by the store's clock")


class Answer(NamedTuple):
    """A table, and what is in it."""

    table: Table
    found: DataFrame


def answers(history: History) -> Iterator[Answer]:
    """Yield the answers; each can be evaluated until the next one is asked for."""
    with _kept(sessions.broker_sessions(history.changes, history.until_ms)) as alive:
        yield from _of_brokers(alive)
        yield from _of_topics(history, alive)
        yield from _of_detection(history, alive)
    yield from _of_changes(history)
    if history.routes is not None:
        yield from _of_placement(history.routes)
    if history.observed_samples is not None:
        yield from _of_samples(history.observed_samples)


def _of_brokers(alive: DataFrame) -> Iterator[Answer]:
    yield Answer(sessions.BROKER_SESSIONS, alive.orderBy("registry", "broker", "broker_id", "begin_ms"))
    by_day = uptime.broker_availability(alive)
    yield Answer(uptime.BROKER_AVAILABILITY, by_day.orderBy("registry", "broker", "broker_id", "day"))
    yield Answer(
        uptime.CLUSTER_AVAILABILITY, uptime.cluster_availability(by_day).orderBy("registry", "cluster", "day")
    )
    reliability = uptime.broker_reliability(alive)
    yield Answer(
        uptime.BROKER_RELIABILITY,
        reliability.orderBy(F.asc_nulls_last("availability"), "registry", "broker", "broker_id"),
    )
    yield Answer(uptime.FLAPS, uptime.flaps(alive).orderBy("registry", "broker", "broker_id", "begin_ms"))


def _of_topics(history: History, alive: DataFrame) -> Iterator[Answer]:
    changes, routes, until_ms = history.changes, history.routes, history.until_ms
    low = availability.topic_outages(
        changes, alive, routes=routes, fewer_than=history.fewer_than, until_ms=until_ms
    )
    with _kept(low) as outages:
        yield Answer(availability.TOPIC_OUTAGES, outages.orderBy("registry", "topic", "from_ms"))
        by_topic = availability.topic_availability(changes, outages, routes=routes, until_ms=until_ms)
        yield Answer(availability.TOPIC_AVAILABILITY, availability.worst_first(by_topic))
        causes = availability.outage_causes(outages).orderBy("lost_min", ascending=False)
        yield Answer(availability.OUTAGE_CAUSES, causes)


def _of_detection(history: History, alive: DataFrame) -> Iterator[Answer]:
    with ExitStack() as kept:
        avoided = None
        if history.observed_samples is not None:
            of_clients = detection.avoidance(alive, history.observed_samples, history.faults)
            avoided = kept.enter_context(_kept(of_clients))
        found = kept.enter_context(_kept(detection.detection(alive, avoided, history.faults)))
        yield Answer(detection.DETECTION, found.orderBy("registry", "since_ms", "broker"))
        if avoided is not None:
            yield Answer(detection.AVOIDANCE, avoided.orderBy("registry", "since_ms", "broker", "client"))
        yield Answer(detection.DETECTION_SUMMARY, detection.detection_summary(found, avoided))


def _of_changes(history: History) -> Iterator[Answer]:
    changes, until_ms = history.changes, history.until_ms
    yield Answer(churn.CHURN, churn.churn(changes, until_ms).orderBy("registry", "hour_ms", "kind", "broker"))
    yield Answer(churn.STORMS, churn.storms(changes, until_ms=until_ms).orderBy("registry", "begin_ms"))
    lives = churn.topic_lives(changes, history.samples, until_ms=until_ms)
    yield Answer(churn.TOPIC_LIVES, lives.orderBy("registry", "topic", "life"))


def _of_placement(routes: DataFrame) -> Iterator[Answer]:
    yield Answer(placement.BROKER_LOAD, placement.broker_load(routes))
    yield Answer(placement.CLUSTER_SKEW, placement.cluster_skew(routes))
    yield Answer(placement.SINGLE_BROKER_TOPICS, placement.single_broker_topics(routes))
    yield Answer(placement.SUGGESTIONS, placement.suggestions(routes))


def _of_samples(samples: DataFrame) -> Iterator[Answer]:
    yield Answer(latency.LATENCY, latency.latency(samples))
    answer = ladder.ladder_answer(samples)
    try:
        yield Answer(ladder.LADDER_SCORES, answer.scores)
        yield Answer(ladder.LADDER_STEPS, answer.steps)
        yield Answer(ladder.LADDER_DECISIONS, answer.decisions)
        yield Answer(ladder.ISOLATIONS, answer.isolations)
    finally:
        answer.isolations.unpersist()


@contextmanager
def _kept(found: DataFrame) -> Iterator[DataFrame]:
    """Give what several answers are made from, worked out once."""
    found = found.persist()
    try:
        yield found
    finally:
        found.unpersist()
