"""Questions to the past, asked of a history of any length: what they mean is in `registry/history.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import groupby, starmap
from operator import itemgetter, or_
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...registry import Change, ChangeKind
from ...registry import history as questions
from ...registry.history import Before, BrokerHistory, Hits, Question, TopicHistory
from ...registry.past import BrokerNow
from ..schemas import GAP
from ..sources.records import ATTRIBUTES
from ..tables import Column, Table
from .frames import brokers_of, readable

Now: TypeAlias = dict[str, BrokerNow] | None
Answer: TypeAlias = Callable[[list[Change], Now], Iterable[tuple[Any, ...]]]
"""What a group of changes, in order, and what there is after them, are made into."""

_REGISTRY: Final = Column("registry", "string", "which registry")
_PIECES: Final = "registry string, topic string, broker string, entries array<string>, serves array<boolean>"
_HITS: Final = (
    "registry string, entry string, out bigint, fewer bigint, hit bigint, "
    "worst array<struct<rank: int, topic: string>>"
)
_LISTS: Final = ("added", "changed", "removed")
_IN_ORDER: Final = ("registry", "of", "ms", "seq")
_LIKE: Final = 10
_AT_HAND: Final = 10_000
"""So many changes, and rows of routes, are looked at in this process: Spark's would take longer to begin."""
_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")


def table_of(question: Question | type[Question]) -> Table:
    """Return the table that answers a question: its columns, after the registry."""
    kind = question if isinstance(question, type) else type(question)
    name = _WORD.sub("_", kind.__name__).lower()
    return Table(name, (kind.__doc__ or "").rstrip("."), (_REGISTRY, *starmap(Column, kind.columns)))


def ask(
    question: Question, changes: DataFrame, routes: DataFrame | None = None, *, at_hand: int = _AT_HAND
) -> DataFrame:
    """Return the answer of CHANGES (or the stored ones) to a question, in the order of each registry.

    With ROUTES of the end, what no change names is known, too. Changes that were lost are passed over. Up to
    `at_hand` changes, and rows of ROUTES, are brought to this process and looked at here.
    """
    told = readable(changes).where(F.col("kind") != GAP)
    now, table = None if routes is None else readable(routes), table_of(question)
    if all(frame.limit(at_hand + 1).count() <= at_hand for frame in (told, now) if frame is not None):
        parts = sorted(_parts(told, now, by_broker=False).collect(), key=itemgetter(*_IN_ORDER))
        found = _rows(question.rows, parts, has_now=now is not None)
        rows = [dict(zip(table.names, row, strict=True)) for row in found]
        return told.sparkSession.createDataFrame(pa.Table.from_pylist(rows, schema=table.arrow))
    if isinstance(question, Before):
        return _before(question, told, now)
    if isinstance(question, TopicHistory):
        told, now = _of_topic(question.topic, told, now)
    if isinstance(question, BrokerHistory):
        told = told.where(F.array_contains(brokers_of(), question.broker))
        now = None if now is None else now.where(F.col("broker") == question.broker)
    by_broker = isinstance(question, questions.TableAt | questions.Difference)
    answer = _answered(told, now, question.rows, table.schema, by_broker=by_broker)
    return answer.orderBy("registry", *_order(question))


def names_like(kind: str, name: str, changes: DataFrame, routes: DataFrame | None = None) -> list[str]:
    """Return brokers or topics that CHANGES and ROUTES name, the few that are written most like a name."""
    topics = F.flatten(F.array_compact(F.array(*_LISTS)))
    told = readable(changes).where(F.col("kind") != GAP)
    found = told.select(F.explode(brokers_of() if kind == "broker" else topics).alias("name"))
    if routes is not None:
        found = found.union(readable(routes).select(kind))
    likeness = F.levenshtein("name", F.lit(name))
    return [row["name"] for row in found.distinct().orderBy(likeness, "name").limit(_LIKE).collect()]


def _order(question: Question) -> tuple[Expression | str, ...]:
    if isinstance(question, questions.TableAt):
        return "topic", "broker"
    if isinstance(question, questions.Difference):
        return "broker", "topic"
    return F.col("ms"), _sequence()


def _sequence() -> Expression:
    return F.split("entry", "-")[1].cast("bigint")


def _of_topic(topic: str, told: DataFrame, now: DataFrame | None) -> tuple[DataFrame, DataFrame | None]:
    """Return the changes of a topic, and of all brokers that ever had it."""
    lists = (F.coalesce(F.array_contains(name, topic), F.lit(col=False)) for name in _LISTS)
    named = told.where(reduce(or_, lists))
    had_it = named.select("registry", F.explode(brokers_of()).alias("broker"))
    if now is not None:
        now = now.where(F.col("topic") == topic)
        had_it = had_it.union(now.select("registry", "broker"))
    of_topics = F.col("kind").isin(ChangeKind.TOPICS, ChangeKind.DELETED)
    of_brokers = told.where(~of_topics).join(had_it.distinct(), ["registry", "broker"], "left_semi")
    return named.unionByName(of_brokers), now


def _answered(
    told: DataFrame, now: DataFrame | None, answer: Answer, schema: StructType | str, *, by_broker: bool
) -> DataFrame:
    """Return what is answered of the changes of each broker, or of each registry."""
    parts, has_now = _parts(told, now, by_broker=by_broker), now is not None
    in_order = parts.repartition(*_IN_ORDER[:2]).sortWithinPartitions(*_IN_ORDER)
    found = in_order.rdd.mapPartitions(lambda rows: _rows(answer, rows, has_now=has_now, by_broker=by_broker))
    return told.sparkSession.createDataFrame(found, schema, verifySchema=False)


def _parts(told: DataFrame, now: DataFrame | None, *, by_broker: bool) -> DataFrame:
    """Return the changes of each broker, or of each registry, and what there is after them."""
    of = F.explode(brokers_of()) if by_broker else F.lit("")
    parts = told.select("registry", of.alias("of"), "ms", "seq", "change_id", *ATTRIBUTES)
    if now is None:
        return parts
    return parts.unionByName(_last(now, by_broker=by_broker), allowMissingColumns=True)


def _rows(
    answer: Answer, parts: Iterable[Row], *, has_now: bool, by_broker: bool = False
) -> Iterator[tuple[Any, ...]]:
    """Yield what is answered of parts in their order."""
    for (registry, of), group in groupby(parts, key=itemgetter(*_IN_ORDER[:2])):
        changes, there = list[Change](), dict[str, BrokerNow]()
        for row in group:
            if has_now and row["topics"] is not None:
                there[row["broker"]] = _now(row)
                continue
            change = _change(row)
            # What is told of the other brokers of a deletion is told where they are.
            is_shared = by_broker and change.kind is ChangeKind.DELETED
            changes.append(replace(change, brokers=(of,)) if is_shared else change)
        for one in answer(changes, there if has_now else None):
            yield registry, *one


def _last(routes: DataFrame, *, by_broker: bool) -> DataFrame:
    """Return a row a broker that stands behind all changes: what it has in the end."""
    return (
        routes.groupBy("registry", "broker")
        .agg(
            F.collect_set("topic").alias("topics"),
            F.first("live_ids").alias("live_ids"),
            F.first("master_address").alias("master_address"),
            F.bool_or("wiped").alias("wiped"),
        )
        .withColumn("of", F.col("broker") if by_broker else F.lit(""))
        .withColumns({"ms": F.lit(2**63 - 1), "seq": F.lit(0)})
    )


def _now(row: Row) -> BrokerNow:
    replicas = {of: (row["master_address"] or "") if of == 0 else "" for of in row["live_ids"] or ()}
    return BrokerNow(frozenset(row["topics"]), replicas, bool(row["wiped"]))


def _change(row: Row) -> Change:
    """Return the change of a row; what older releases did not keep is empty."""
    told: Mapping[str, Any] = {
        attribute: tuple(value) if isinstance(value, list) else value
        for column, attribute in ATTRIBUTES.items()
        if (value := row[column]) is not None
    }
    return Change(**{**told, "kind": ChangeKind(row["kind"]), "change_id": row["change_id"]})


def _before(question: Before, told: DataFrame, now: DataFrame | None) -> DataFrame:
    """Return the answer: what each broker did for its topics, then what that was for each topic."""

    def hits(found: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
        for registry, of_registry in groupby(found, key=itemgetter("registry")):
            topics = (
                [questions.Piece(*row[1:]) for row in of_topic]
                for _, of_topic in groupby(of_registry, key=itemgetter("topic"))
            )
            for entry, one in question.hits(topics).items():
                yield registry, entry, one.out, one.fewer, one.hit, one.trim().worst

    spark = told.sparkSession
    served = _answered(told, now, question.pieces, _PIECES, by_broker=True)
    by_topic = served.repartition("registry", "topic").sortWithinPartitions("registry", "topic")
    parts = spark.createDataFrame(by_topic.rdd.mapPartitions(hits), _HITS, verifySchema=False)
    whole = parts.groupBy("registry", F.col("entry").alias("change_id")).agg(
        *(F.sum(name).alias(name) for name in ("out", "fewer", "hit")),
        F.flatten(F.collect_list("worst")).alias("worst"),
    )
    window = told.where((F.col("ms") > question.from_ms) & (F.col("ms") <= question.at_ms))
    rows = window.join(whole, ["registry", "change_id"], "left").rdd.map(
        lambda row: (row["registry"], *question.row(_change(row), _hits(row)))
    )
    found = spark.createDataFrame(rows, table_of(question).schema, verifySchema=False)
    return found.orderBy("registry", *map(F.desc, ("out", "fewer", "hit", "ms")), _sequence().desc())


def _hits(row: Row) -> Hits:
    if row["hit"] is None:
        return Hits()
    return Hits(row["out"], row["fewer"], row["hit"], [tuple(one) for one in row["worst"]])
