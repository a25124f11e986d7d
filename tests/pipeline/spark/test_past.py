"""The same random histories asked on Spark and in one loop: the rows are the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sharedroutes.pipeline.answers.past import ask, table_of
from sharedroutes.pipeline.schemas import CHANGES, ROUTES
from sharedroutes.pipeline.sources.records import ATTRIBUTES
from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from sharedroutes.registry.history import Before, BrokerHistory, Difference, Question, TableAt, TopicHistory
from sharedroutes.registry.past import BrokerNow, ms_of, place_of
from tests.cli.terminal import document
from tests.pipeline.commands import run
from tests.registry.worlds import BEGIN_MS, Story

STORIES = {f"r{seed}": Story(seed) for seed in range(12)}
AT_MS = sorted(ms_of(story.changes[40]) for story in STORIES.values())[6]
QUESTIONS: tuple[Question, ...] = (
    TopicHistory(topic="orders"),
    TopicHistory(topic="audit", since_ms=BEGIN_MS + 3_000, until_ms=AT_MS),
    BrokerHistory(broker="a"),
    BrokerHistory(broker="b", since_ms=AT_MS),
    TableAt(at_ms=AT_MS),
    TableAt(at_ms=AT_MS - 5_000, topics=frozenset({"orders"})),
    Difference(from_ms=BEGIN_MS + 2_000, to_ms=AT_MS),
    Before(at_ms=AT_MS, window_ms=4_000),
    Before(at_ms=AT_MS + 100_000, window_ms=200_000),
)


@pytest.fixture(scope="module")
def changes(spark: SparkSession) -> DataFrame:
    rows = []
    for registry, story in STORIES.items():
        for change in story.changes:
            ms, seq = place_of(change.change_id)
            told: dict[str, Any] = {column: getattr(change, name) for column, name in ATTRIBUTES.items()}
            told |= {"kind": str(change.kind), "registry": registry, "change_id": change.change_id}
            rows.append({**told, "ms": ms, "seq": seq})
    return frame(spark, CHANGES.schema.names, rows, CHANGES.schema).repartition(3).persist()


@pytest.fixture
def server_url() -> Iterator[str]:
    with EmbeddedServer() as server:
        yield server.url


@pytest.fixture(scope="module")
def routes(spark: SparkSession) -> DataFrame:
    rows = [
        {
            "registry": registry,
            "broker": name,
            "topic": topic,
            "live_ids": [*broker.replicas],
            "master_address": broker.replicas.get(0),
            "wiped": broker.wiped,
        }
        for registry, story in STORIES.items()
        for name, broker in story.now().items()
        for topic in broker.topics
    ]
    return frame(spark, ROUTES.schema.names, rows, ROUTES.schema)


def frame(
    spark: SparkSession, names: Sequence[str], rows: list[dict[str, Any]], schema: StructType
) -> DataFrame:
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], schema)


def now_of_routes(story: Story) -> dict[str, BrokerNow]:
    """Return what routes tell: brokers with topics, and addresses of masters."""
    return {
        name: BrokerNow(
            broker.topics, {of: at if of == 0 else "" for of, at in broker.replicas.items()}, broker.wiped
        )
        for name, broker in story.now().items()
        if broker.topics
    }


@pytest.mark.parametrize(
    ("question", "with_routes"),
    [(question, True) for question in QUESTIONS] + [(question, False) for question in QUESTIONS[::3]],
    ids=repr,
)
def test_one_core_answers_both(
    changes: DataFrame, routes: DataFrame, question: Question, *, with_routes: bool
) -> None:
    routes_then = routes if with_routes else None
    found = ask(question, changes, routes_then, at_hand=0)
    assert found.schema == table_of(question).schema
    expected = [
        (registry, *row)
        for registry, story in sorted(STORIES.items())
        for row in question.rows(story.changes, now_of_routes(story) if with_routes else None)
    ]
    assert expected
    assert [_plain(row) for row in found.collect()] == expected
    assert [_plain(row) for row in ask(question, changes, routes_then).collect()] == expected


def test_long_routes_are_not_brought_to_this_process(
    changes: DataFrame, routes: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    question, one = TableAt(at_ms=AT_MS), changes.limit(1)
    for routes_then, is_here in ((None, True), (routes.limit(1), True), (routes, False)):
        ask(question, one, routes_then, at_hand=1).explain()
        assert ("LocalTableScan" in capsys.readouterr().out) is is_here


def _plain(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)


def test_the_command_asks_what_was_kept_and_says_how_far_that_reaches(
    server_url: str, tmp_path: Path
) -> None:
    with RouteStore.from_url(server_url) as store:
        held = store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
        store.unregister(held)
        last_ms = ms_of(store.changes_since().changes[-1])
    assert run("ingest", "--redis", server_url, "--out", tmp_path, "--once").status == 0
    done = run("ask", "history", "topic", "orders", "--changes", tmp_path, "--output", "json")
    assert (done.status, [row["change"] for row in json.loads(done.out)]) == (0, ["topics", "up", "down"])
    live = document(server_url, "before", str(last_ms), "--minutes", "9")
    words = ("before", last_ms, "--minutes", "9", "--changes", tmp_path, "--output", "json")
    kept = run("ask", *words)
    assert [{**row, "registry": "sharedroutes"} for row in live] == json.loads(kept.out)
    assert kept.status == 0  # as the live stream's, whose registry began then
    assert "the history of sharedroutes begins at 20" in kept.err
    early = run("ask", "before", last_ms - 3_600_000, "--changes", tmp_path)
    assert (early.status, early.err.splitlines()[-1][:34]) == (1, "Error: the history of sharedroutes")
    typo = run("ask", "history", "topic", "ordesr", "--changes", tmp_path)
    assert (typo.status, typo.out) == (1, "")
    assert "nothing is known of a topic 'ordesr'; did you mean orders?" in typo.err
    nobody = run("ask", "history", "broker", "nobody", "--changes", tmp_path, "--output", "json")
    assert (nobody.status, json.loads(nobody.out)) == (1, [])
    assert "nothing is known of a broker 'nobody'" in nobody.err
    limited = ("--limit", 2, "--output", "json")
    first = run("ask", "history", "topic", "orders", "--changes", tmp_path, *limited)
    assert (first.status, [row["change"] for row in json.loads(first.out)]) == (1, ["topics", "up"])
    assert first.err == "Error: there are more rows than 2, the first of which these are: --limit N\n"
    late = run("ask", "table", "--at", "now", "--changes", tmp_path)
    assert (late.status, late.out.split()[-1]) == (0, "away")
    assert "the history of sharedroutes ends at 20" in late.err


def test_what_no_change_names_is_not_known_without_routes_and_with_them_is(
    spark: SparkSession, changes: DataFrame
) -> None:
    there = {"registry": "r0", "broker": "z", "topic": "old", "live_ids": [0], "wiped": False}
    table = frame(spark, ROUTES.schema.names, [there | {"master_address": "10.0.0.9:1"}], ROUTES.schema)
    question = TableAt(at_ms=AT_MS, topics=frozenset({"old"}))
    assert ask(question, changes).collect() == []
    (row,) = ask(question, changes, table).collect()
    assert tuple(row) == ("r0", "old", "z", "writable", ["0 10.0.0.9:1"])


def test_entries_that_cannot_be_read_and_gaps_are_passed_over(
    spark: SparkSession, changes: DataFrame
) -> None:
    odd = {"registry": "r0", "change_id": f"{BEGIN_MS}-999", "ms": BEGIN_MS, "seq": 999}
    rows = [odd | {"kind": "gap", "key": ""}, odd | {"seq": 1_000, "problem": "no JSON", "record": "{"}]
    question = TopicHistory(topic="orders")
    more = changes.unionByName(frame(spark, CHANGES.schema.names, rows, CHANGES.schema))
    assert ask(question, more).collect() == ask(question, changes).collect()
