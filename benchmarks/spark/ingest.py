"""How fast do changes become Parquet, and how soon?

The ingest, its Spark, the server and the process that writes share this machine. A change is visible when
the folder of its batch has its name: from then on every listing of the files has it.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds
import redis
from pyspark.sql import SparkSession

from sharedroutes.pipeline.ingest import IngestConfig, IngestProgress, ingest
from sharedroutes.pipeline.session import SessionConfig, session
from sharedroutes.registry import Change, ChangeKind, EmbeddedServer, RegistryConfig
from sharedroutes.registry.codec import encode_change
from sharedroutes.registry.keys import Keys

from ..kit.figures import Figure, Outcome, at_least, at_most, percentile, seconds
from ..kit.processes import Child, await_until, commands, running, say

_SESSION: Final = SessionConfig(
    master="local[2]",
    app_name="sharedroutes-benchmark",
    log_level="OFF",
    settings={"spark.ui.showConsoleProgress": "false"},
)
_KEY: Final = Keys(RegistryConfig().namespace).changes
_TICK_S: Final = 0.01
_BROKERS: Final = 300
_AT_ONCE: Final = 1_000
_POLL_S: Final = 0.01
_LEAST_RATE: Final = 20_000
_LONGEST_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 3
    backlog: int = 1_000_000
    fast_s: float = 30.0
    """For how long 20,000 changes a second are written."""

    slow_s: float = 60.0
    """For how long 1,000 changes a second are written."""

    warm_up: int = 200_000


QUICK: Final = Size(rounds=1, backlog=200_000, fast_s=10.0, slow_s=10.0)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError and JavaMissing."""
    spark = session(_SESSION)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="sharedroutes-ingest-") as folder,
            EmbeddedServer() as server,
            redis.Redis.from_url(server.url) as client,
            running(feed, server.url) as feeder,
        ):
            runs = _Runs(spark, server.url, Path(folder), client, feeder)
            runs.drain(size.warm_up)
            drained = [runs.drain(size.backlog) for _ in range(size.rounds)]
            fast, slow = runs.follow(_LEAST_RATE, size.fast_s), runs.follow(1_000, size.slow_s)
    finally:
        spark.stop()
    return Outcome(
        [
            Figure("backlog into Parquet", "changes/s", drained, at_least(_LEAST_RATE)),
            *_figures(f"{_LEAST_RATE:,}/s", fast),
            *_figures("1,000/s", slow, bounded=True),
        ],
        [
            f"backlog: {size.backlog:,} changes, with the start and the end of the query",
            f"written meanwhile: {len(fast):,} in {size.fast_s:g} s, {len(slow):,} in {size.slow_s:g} s",
            "visible: from the ms of the change's id to the name of its batch's folder",
        ],
    )


def _figures(rate: str, latencies_s: Sequence[float], *, bounded: bool = False) -> Iterator[Figure]:
    target = at_most(_LONGEST_S) if bounded else None
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        yield Figure(f"visible at {rate}, {name}", "s", [percentile(latencies_s, share)], target)


@dataclass(slots=True)
class _Seen:
    """When each batch was published, on the clock that the ids are of: it is one machine."""

    at_ms: dict[str, float] = field(default_factory=dict)
    rows: int = 0

    def note(self, progress: IngestProgress) -> None:
        """Note a batch."""
        self.at_ms[progress.written.batch] = time.time() * 1_000
        self.rows = progress.total_rows

    def await_rows(self, count: int) -> str:
        """Return the first batch when so many changes are there; raises TimeoutError."""
        await_until(lambda: self.rows >= count, f"{count} changes are in Parquet", poll_s=_POLL_S)
        return next(iter(self.at_ms))


class _Runs:
    """Ingests, each into a new folder."""

    def __init__(
        self, spark: SparkSession, url: str, folder: Path, client: redis.Redis, feeder: Child
    ) -> None:
        self._spark = spark
        self._url = url
        self._folder = folder
        self._client = client
        self._feeder = feeder
        self._count = 0

    def drain(self, backlog: int) -> float:
        """Return how many changes a second are ingested of those that wait."""
        config = self._config(once=True)
        _add(self._client, backlog)
        return backlog / seconds(partial(ingest, self._spark, config))

    def follow(self, rate: float, duration_s: float) -> list[float]:
        """Return for each change how many seconds it took to be visible; raises RuntimeError for a loss."""
        config, seen = self._config(), _Seen()
        with self._ingesting(config, seen):
            _add(self._client, 1)
            first = seen.await_rows(1)
            self._feeder.tell([rate, duration_s])
            written = int(self._feeder.answer())
            seen.await_rows(written + 1)
        folder = str(Path(config.out, "changes"))
        table = ds.dataset(folder, partitioning="hive").to_table(columns=["batch", "ms"])
        times = zip(table.column("batch").to_pylist(), table.column("ms").to_pylist(), strict=True)
        found = [(seen.at_ms[batch] - ms) / 1_000 for batch, ms in times if batch != first]
        if len(found) != written:
            raise RuntimeError(f"{written} changes were written, and {len(found)} ingested")
        return found

    @contextmanager
    def _ingesting(self, config: IngestConfig, seen: _Seen) -> Iterator[None]:
        stop = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(ingest, self._spark, config, stop=stop, on_progress=seen.note)
            try:
                yield
            finally:
                stop.set()
            done.result()

    def _config(self, *, once: bool = False) -> IngestConfig:
        """Return an ingest of what is written from now on."""
        self._count += 1
        self._client.delete(_KEY)
        return IngestConfig(out=str(self._folder / str(self._count)), url=self._url, once=once)


def feed(url: str) -> None:
    """In another process: write so many changes a second, for so many seconds; say how many that were."""
    with redis.Redis.from_url(url) as client:
        for rate, duration_s in commands():
            say()
            say(_feed(client, rate, duration_s))


def _add(client: redis.Redis, count: int) -> None:
    """Add changes to a stream as fast as it goes."""
    records = _records()
    for start in range(0, count, _AT_ONCE):
        _write(client, list(islice(records, min(_AT_ONCE, count - start))))


def _feed(client: redis.Redis, rate: float, duration_s: float) -> int:
    """Write evenly; after a pause of this process, write what was due meanwhile."""
    records, written, begin_s = _records(), 0, time.monotonic()
    while (passed_s := time.monotonic() - begin_s) < duration_s:
        due = round(rate * passed_s) - written
        _write(client, list(islice(records, due)))
        written += due
        time.sleep(_TICK_S)
    return written


def _write(client: redis.Redis, records: list[bytes]) -> None:
    with client.pipeline(transaction=False) as pipeline:
        for record in records:
            pipeline.xadd(_KEY, {"c": record})
        pipeline.execute()


def _records() -> Iterator[bytes]:
    """Return the records of new topics of brokers, again and again."""
    return cycle(
        encode_change(
            Change(
                kind=ChangeKind.TOPICS,
                broker_name=f"broker-{number}",
                epoch=1_790_000_000_000_000 + number,
                cluster="cluster",
                added=(f"topic-of-broker-{number}",),
            )
        )
        for number in range(_BROKERS)
    )
