"""Compact rows of changes, samples and faults, for the answers to be worked out by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from sharedroutes.pipeline.schemas import CHANGES, FAULTS, ROUTES, SAMPLES
from sharedroutes.pipeline.tables import Table

Row: TypeAlias = dict[str, Any]

TTL_MS: Final = 10_000


def up(ms: int, broker: str, epoch: int = 1, **more: Any) -> Row:
    """Return an up; the address is `<broker>:1`, unless another is given."""
    row = {"kind": "up", "ms": ms, "broker": broker, "broker_id": 0, "epoch": epoch, "cluster": "c"}
    return {**row, "address": f"{broker}:1", "lease_ttl_ms": TTL_MS, **more}


def down(ms: int, broker: str, reason: str = "unregistered", epoch: int = 1, **more: Any) -> Row:
    """Return a down."""
    row = {"kind": "down", "ms": ms, "broker": broker, "broker_id": 0, "epoch": epoch, "cluster": "c"}
    return {**row, "reason": reason, **more}


def forgotten(ms: int, broker: str) -> Row:
    """Return the down of all replicas of a broker that an operator forgot."""
    return down(ms, broker, "forgotten", epoch=99, cluster="")


def topics(
    ms: int,
    broker: str,
    *,
    added: Iterable[str] = (),
    removed: Iterable[str] = (),
    changed: Iterable[str] = (),
) -> Row:
    """Return a record of the topics of a broker."""
    lists = {"added": list(added), "changed": list(changed), "removed": list(removed)}
    return {"kind": "topics", "ms": ms, "broker": broker, "broker_id": 0, "epoch": 1, **lists}


def deleted(ms: int, topic: str, *brokers: str) -> Row:
    """Return the deletion of a topic from brokers."""
    return {"kind": "deleted", "ms": ms, "broker": "", "added": [], "removed": [topic], "brokers": [*brokers]}


def wiped(ms: int, broker: str) -> Row:
    """Return that the write permission of a broker was taken away."""
    return {"kind": "wiped", "ms": ms, "broker": broker, "broker_id": 0, "epoch": 0}


def lifted(ms: int, broker: str) -> Row:
    """Return that it was given back."""
    return {**wiped(ms, broker), "kind": "lifted"}


def kv(ms: int, key: str) -> Row:
    """Return that a key of the key-value store was put."""
    return {"kind": "kv", "ms": ms, "broker": "", "namespace": "n", "key": key, "reason": "put"}


def gap(ms: int, after_ms: int | None = None) -> Row:
    """Return that the changes between two times are not known; None = nobody says when that ended."""
    key = "" if after_ms is None else f"{after_ms}-0"
    return {"kind": "gap", "ms": ms, "broker": "", "key": key, "reason": "trimmed"}


def changes_of(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """Return the rows as CHANGES of the registry `r`: those of one ms in the order of `rows`.

    A gap has the id of the last row before it.
    """
    seqs: dict[tuple[str, int], int] = defaultdict(int)
    whole = []
    for row in rows:
        registry, ms = row.get("registry", "r"), row["ms"]
        seq = max(seqs[registry, ms] - 1, 0) if row["kind"] == "gap" else seqs[registry, ms]
        seqs[registry, ms] = seq + 1
        whole.append({"registry": registry, "seq": seq, "change_id": f"{ms}-{seq}", **row})
    return _frame(spark, CHANGES, whole)


def sample(at_ms: int, client: str, broker: str, **more: Any) -> Row:
    """Return a first attempt that went well, which stands for itself."""
    row = {"at_ms": at_ms, "client": client, "broker": broker, "topic": "t", "error_ms": 1.0}
    return {
        **row,
        "latency_ms": 2.0,
        "outcome": "ok",
        "isolated": False,
        "attempt": 1,
        "position": "",
        "share": 1.0,
        **more,
    }


def samples_of(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """Return the rows as SAMPLES."""
    return _frame(spark, SAMPLES, rows)


def fault(at_ms: int, broker: str, what: str = "killed") -> Row:
    """Return what somebody did to a broker."""
    return {"registry": "r", "at_ms": at_ms, "broker": broker, "what": what}


def faults_of(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """Return the rows as FAULTS."""
    return _frame(spark, FAULTS, rows)


def route(broker: str, topic: str, **more: Any) -> Row:
    """Return that a broker with a live master holds a topic."""
    return {"registry": "r", "broker": broker, "topic": topic, "wiped": False, "live_ids": [0], **more}


def routes_of(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """Return the rows as ROUTES."""
    return _frame(spark, ROUTES, rows)


def kept(_: str, frame: DataFrame) -> DataFrame:
    """Return a frame worked out, as the tables of a report are: what is made from it has a short plan."""
    return frame.localCheckpoint()


def picked(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Return these columns of all rows, sorted; None before all else."""
    rows = [tuple(row) for row in frame.select(*names).collect()]
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row])


def _frame(spark: SparkSession, table: Table, rows: Sequence[Row]) -> DataFrame:
    data = [tuple(row.get(name) for name in table.names) for row in rows]
    return spark.createDataFrame(data, table.schema)
