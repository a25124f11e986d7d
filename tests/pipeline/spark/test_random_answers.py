"""Answers to hundreds of random histories, compared row by row with what a plain loop makes of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Any, Final, NamedTuple, TypeAlias

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sharedroutes.pipeline.answers.availability import topic_availability, topic_outages
from sharedroutes.pipeline.answers.churn import churn, topic_lives
from sharedroutes.pipeline.answers.holdings import Seen
from sharedroutes.pipeline.answers.sessions import broker_sessions
from sharedroutes.pipeline.answers.uptime import broker_reliability
from tests.pipeline.answering import changes_of, kept, routes_of
from tests.pipeline.histories import BEGIN_MS, History, random_histories
from tests.pipeline.oracle import Era, Session, Topics, eras_of, low_times, sessions_of, silences_of
from tests.pipeline.oracle_counts import changes_of_hours, reliability_of

SEED: Final = 1
NUMBER: Final = 300
UNTIL_MS: Final = BEGIN_MS + 71
"""When no record is: some histories are over then, some in a gap."""

SHORT_MS, RETURN_MS = 12, 7
SETTLE_MS, APART_MS = 9, 6

Rows: TypeAlias = list[tuple[Any, ...]]
"""Those of one history, without its name."""


class Known(NamedTuple):
    """What a loop makes of a history."""

    history: History
    eras: list[Era]
    sessions: list[Session]

    @classmethod
    def of(cls, history: History, until_ms: int | None = None) -> Known:
        eras = eras_of(history.changes, until_ms)
        return cls(history, eras, sessions_of(eras))

    def outages(self, topics: Topics, fewer_than: int) -> Rows:
        return [*low_times(topics, silences_of(self.eras, self.sessions), fewer_than)]

    def topics(self, topics: Topics) -> Rows:
        outages = Counter(row[0] for row in self.outages(topics, 1))
        times = {topic: topics.times(topic) for topic in topics.names}
        return [(topic, *ms, outages[topic]) for topic, ms in times.items() if any(ms)]

    def lives(self) -> Iterator[tuple[Any, ...]]:
        topics = Topics(self.eras)
        for topic in topics.names:
            lives = [*topics.lives(topic, SETTLE_MS, APART_MS)]
            for one, after in zip_longest(lives, lives[1:]):
                back_ms = after.first_ms if after else topics.until_ms
                gone_for_ms = None if one.gone_ms is None else back_ms - one.gone_ms
                times = one.created_ms, one.gone_ms, gone_for_ms
                yield topic, one.life, *times, one.brokers, one.came, one.left


class Given(NamedTuple):
    """The histories, and the frames that have all of them."""

    histories: list[History]
    changes: DataFrame
    routes: DataFrame
    sessions: DataFrame
    sessions_until: DataFrame

    def known(self, until_ms: int | None = None) -> list[Known]:
        return [Known.of(history, until_ms) for history in self.histories]


@pytest.fixture(scope="module")
def given(spark: SparkSession) -> Given:
    histories = random_histories(SEED, NUMBER)
    numbered(histories)
    changes = changes_of(spark, [row for one in histories for row in one.changes]).localCheckpoint()
    return Given(
        histories,
        changes,
        routes_of(spark, [row for one in histories for row in one.routes]),
        broker_sessions(changes).localCheckpoint(),
        broker_sessions(changes, UNTIL_MS).localCheckpoint(),
    )


def numbered(histories: Iterable[History]) -> None:
    """Give each record its id, as changes_of does."""
    for history in histories:
        seqs: dict[int, int] = defaultdict(int)
        for row in history.changes:
            if row["kind"] != "gap":
                row["seq"] = seqs[row["ms"]]
                row["change_id"] = f"{row['ms']}-{row['seq']}"
                seqs[row["ms"]] += 1


def compare(found: DataFrame, columns: str, known: Iterable[Known], wanted: Callable[[Known], Rows]) -> None:
    """Compare the rows of each history; `columns` are their names."""
    rows: dict[str, Rows] = defaultdict(list)
    for name, *row in found.select("registry", *columns.split()).collect():
        rows[name].append(tuple(row))
    some = False
    for one in known:
        name = one.history.name
        here, there = Counter(map(repr, rows.pop(name, []))), Counter(map(repr, wanted(one)))
        some = some or bool(there)
        wrong = "".join(f"\nfound: {row}" for row in here - there)
        wrong += "".join(f"\nwanted: {row}" for row in there - here)
        assert not wrong, f"seed {SEED}, history {name}:{wrong}\n{told(one.history)}"
    assert some
    assert not rows


def told(history: History) -> str:
    """Return a history for somebody to work it out by hand."""
    shown = ("registry", "cluster", "seq", "change_id", "lease_ttl_ms")
    lines = [{name: value for name, value in row.items() if name not in shown} for row in history.changes]
    return "\n".join(map(str, [*lines, *history.routes]))


SESSION: Final = (
    "broker broker_id epoch address began begin_id begin_ms ended reason successor end_id end_ms told_ms "
    "lease_ttl_ms lease_ended_ms away_until_ms returned"
)


def test_sessions_are_those_that_the_records_tell(given: Given) -> None:
    compare(given.sessions, SESSION, given.known(), lambda one: [it.row() for it in one.sessions])
    compare(
        given.sessions_until, SESSION, given.known(UNTIL_MS), lambda one: [it.row() for it in one.sessions]
    )


OUTAGE: Final = "topic from_ms to_ms over brokers fewest caused_by causes silent"


def test_a_snapshot_tells_of_topics_that_no_record_tells_of(given: Given) -> None:
    seen = Seen(given.changes, given.routes, keep=kept)
    outages = topic_outages(seen, given.sessions).localCheckpoint()
    topics = {one.name: Topics(eras_of(one.changes), one.routes) for one in given.histories}
    compare(outages, OUTAGE, given.known(), lambda one: one.outages(topics[one.history.name], 1))
    compare(
        topic_availability(seen, outages),
        "topic held_ms unknown_ms absent_ms outages",
        given.known(),
        lambda one: one.topics(topics[one.history.name]),
    )


def test_fewer_than_two_are_counted_up_to_a_time(given: Given) -> None:
    outages = topic_outages(Seen(given.changes, None, UNTIL_MS, kept), given.sessions_until, fewer_than=2)
    compare(outages, OUTAGE, given.known(UNTIL_MS), lambda one: one.outages(Topics(one.eras), 2))


LIFE: Final = "topic life created_ms gone_ms gone_for_ms brokers came left"


def test_lives_of_topics_end_with_the_observation(given: Given) -> None:
    seen = Seen(given.changes, None, UNTIL_MS, kept)
    found = topic_lives(seen, settle_s=SETTLE_MS / 1000, apart_s=APART_MS / 1000)
    compare(found, LIFE, given.known(UNTIL_MS), lambda one: [*one.lives()])


def test_failures_and_flaps_are_what_sessions_come_to(given: Given) -> None:
    given_s = {"short_s": SHORT_MS / 1000, "return_s": RETURN_MS / 1000}
    in_ms = {
        name: F.round(F.col(name) * 1000).cast("bigint") for name in ("mtbf_s", "mttr_s", "longest_away_s")
    }
    compare(
        broker_reliability(given.sessions, **given_s).withColumns(in_ms),
        "broker broker_id sessions failures stops restarts takeovers flaps alive_ms away_ms mtbf_s mttr_s "
        "longest_away_s",
        given.known(),
        lambda one: reliability_of(one.sessions, SHORT_MS, RETURN_MS),
    )


def test_changes_are_counted_beside_gaps(given: Given) -> None:
    compare(
        churn(given.changes, UNTIL_MS),
        "hour_ms kind broker changes added changed removed",
        given.known(UNTIL_MS),
        lambda one: changes_of_hours(one.eras),
    )
