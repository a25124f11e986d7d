"""How fast does Spark read the history of a registry?

Peers: one thread of redis-py that decodes the changes, and one that does not. Ratio: Spark to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, cast

import orjson
import redis
from pyspark.sql import SparkSession

from sharedroutes.pipeline.session import SessionConfig, session
from sharedroutes.registry import Change, ChangeKind
from sharedroutes.registry.codec import encode_change

from ..kit.figures import Contestant, Figure, Outcome, at_least, interleave, ratio, seconds
from ..kit.workload import opened

_SPARK: Final = "Spark, 2 tasks"
_REDIS_PY: Final = "redis-py, decoded"
_RAW: Final = "redis-py, undecoded"

_NOTES: Final = (
    "each contestant counts changes and added topics and finds the newest ms; warm, pages of 10,000",
    "redis-py: XRANGE, int(ms), orjson.loads of each record, one thread; undecoded: XRANGE alone",
)

_BEGIN_MS: Final = 1_790_000_000_000
_MS_APART: Final = 3
_PAGE: Final = 10_000
_BROKERS: Final = 300


class Answer(NamedTuple):
    """The answer that every contestant has to find."""

    changes: int
    added: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 5
    changes: int = 1_000_000


QUICK: Final = Size(rounds=2, changes=100_000)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError and JavaMissing."""
    with opened() as (server, store, client):
        key = store.keys.changes
        expected = _fill(client, key, size.changes)
        started: list[SparkSession] = []
        try:
            cold_s = seconds(lambda: started.append(_session()))
            cold_s += seconds(partial(_of_spark, started[0], server.url))
            contestants: dict[str, Contestant] = {
                _SPARK: _rated(size, partial(_of_spark, started[0], server.url), expected),
                _REDIS_PY: _rated(size, partial(_of_redis_py, client, key), expected),
                _RAW: lambda: size.changes / seconds(partial(_undecoded, client, key)) / 1_000,
            }
            return _judge(size, interleave(size.rounds, contestants), cold_s)
        finally:
            for spark in started:
                spark.stop()


def _session() -> SparkSession:
    settings = {"spark.ui.showConsoleProgress": "false"}
    return session(SessionConfig(master="local[2]", app_name="history", log_level="OFF", settings=settings))


def _rated(size: Size, look: Callable[[], Answer], expected: Answer) -> Contestant:
    """Return what measures thousands of changes a second; raises RuntimeError for a wrong answer."""

    def rate() -> float:
        answers: list[Answer] = []
        taken_s = seconds(lambda: answers.append(look()))
        if answers != [expected]:
            raise RuntimeError(f"expected {expected}, found {answers[0]}")
        return size.changes / taken_s / 1_000

    return rate


def _of_spark(spark: SparkSession, url: str) -> Answer:
    table = spark.read.format("route_changes").option("url", url).option("partitions", 2).load()
    (found,) = table.selectExpr("count(1)", "sum(size(added))", "max(ms)").collect()
    return Answer(*found)


def _of_redis_py(client: redis.Redis, key: str) -> Answer:
    changes = added = newest_ms = 0
    for page in _pages(client, key):
        for entry_id, fields in page:
            newest_ms = max(newest_ms, int(entry_id.partition(b"-")[0]))
            added += len(orjson.loads(fields[b"c"]).get("added", ()))
        changes += len(page)
    return Answer(changes, added, newest_ms)


def _undecoded(client: redis.Redis, key: str) -> None:
    for _ in _pages(client, key):
        pass


def _pages(client: redis.Redis, key: str) -> Iterator[list[tuple[bytes, dict[bytes, bytes]]]]:
    after = "-"
    while page := cast("list[tuple[bytes, dict[bytes, bytes]]]", client.xrange(key, after, "+", _PAGE)):
        yield page
        after = f"({page[-1][0].decode()}"


def _fill(client: redis.Redis, key: str, count: int) -> Answer:
    """Write the history of a fleet that registers, changes topics and dies; return the answer."""
    added = 0
    for first in range(0, count, _PAGE):
        pipeline = client.pipeline(transaction=False)
        for number in range(first, min(first + _PAGE, count)):
            change = _change(number)
            added += len(change.added)
            entry_id = f"{_BEGIN_MS + _MS_APART * number}-0"
            pipeline.xadd(key, {"c": encode_change(change)}, id=entry_id)
        pipeline.execute()
    return Answer(count, added, _BEGIN_MS + _MS_APART * (count - 1))


def _change(number: int) -> Change:
    broker = {"broker_name": f"broker-{number % _BROKERS:04d}", "epoch": _BEGIN_MS * 1_000 + number}
    topics = tuple(f"benchmark-topic-{number * 7 % 99_991 + step:010d}" for step in range(2))
    match number % 4:
        case 0:
            return Change(
                kind=ChangeKind.UP,
                cluster="DefaultCluster",
                address=f"10.0.{number % 256}.{number % 250}:10911",
                lease_ttl_ms=15_000,
                **broker,  # type: ignore[arg-type]
            )
        case 1:
            return Change(kind=ChangeKind.TOPICS, added=topics, **broker)  # type: ignore[arg-type]
        case 2:
            return Change(kind=ChangeKind.TOPICS, changed=topics[:1], **broker)  # type: ignore[arg-type]
        case _:
            return Change(
                kind=ChangeKind.DOWN,
                cluster="DefaultCluster",
                reason="expired",
                lease_ended_ms=_BEGIN_MS + number,
                **broker,  # type: ignore[arg-type]
            )


def _judge(size: Size, values: dict[str, list[float]], cold_s: float) -> Outcome:
    found = {name: Figure(name, "k changes/s", rounds) for name, rounds in values.items()}
    figures = [*found.values(), ratio(found[_SPARK], found[_REDIS_PY], at_least(1.5))]
    notes = (
        f"{size.changes:,} changes of {_BROKERS} brokers, one each {_MS_APART} ms",
        *_NOTES,
        f"cold: {cold_s:.1f} s from no session to the first answer",
    )
    return Outcome(figures, notes)
