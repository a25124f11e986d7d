"""A history to ingest, and what a reader sees who lists all files and knows nothing of Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final, cast

import pyarrow.dataset as ds
import redis

from sharedroutes.registry import Change, ChangeKind
from sharedroutes.registry.codec import encode_change

STREAM: Final = "{sharedroutes}:changes"


def record(number: int) -> bytes:
    """Return the record of a change."""
    return encode_change(
        Change(
            kind=ChangeKind.TOPICS,
            broker_name=f"broker-{number % 100}",
            epoch=1_000 + number,
            cluster="c",
            added=(f"topic-{number}",),
        )
    )


def add(client: redis.Redis, count: int, *, stream: str = STREAM, ms: int | None = None) -> None:
    """Add changes to a stream: now, or from a time on, one each ms."""
    with client.pipeline(transaction=False) as pipeline:
        for number in range(count):
            entry_id = "*" if ms is None else f"{ms + number}-0"
            pipeline.xadd(stream, {"c": record(number)}, id=entry_id)
        pipeline.execute()


def entries(client: redis.Redis, stream: str = STREAM) -> list[tuple[bytes, dict[Any, Any]]]:
    """Return what stands in a stream."""
    return cast("list[tuple[bytes, dict[Any, Any]]]", client.xrange(stream))


def ids_once(client: redis.Redis, stream: str = STREAM) -> Counter[str]:
    """Return the ids of a stream, each once."""
    return Counter(entry_id.decode() for entry_id, _ in entries(client, stream))


def ids_on(out: Path, table: str = "changes") -> Counter[str]:
    """Return how often each id stands in the files of a table, whatever folder they are in."""
    if not (out / table).is_dir():
        return Counter()
    found = ds.dataset(str(out / table), partitioning="hive").to_table(columns=["change_id"])
    return Counter(found.column("change_id").to_pylist())


def write_again(client: redis.Redis, kept: list[tuple[bytes, dict[Any, Any]]]) -> None:
    """Put entries back into a stream that was emptied, as a server does that has its data again."""
    with client.pipeline(transaction=False) as pipeline:
        for entry_id, fields in kept:
            pipeline.xadd(STREAM, fields, id=entry_id)
        pipeline.execute()
