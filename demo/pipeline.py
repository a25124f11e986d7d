"""`python -m demo.pipeline`: failures that are made on purpose, and whether the report tells of them."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

import click
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from sharedroutes.cli.pipeline.spark import Start, say, with_spark
from sharedroutes.pipeline.ingest import IngestConfig, ingest, quarantined, stored_changes
from sharedroutes.pipeline.report import History, write_report
from sharedroutes.pipeline.schemas import FAULTS
from sharedroutes.pipeline.session import LOGGING

from .command import errors_in_one_line
from .drill import Drill, Fault
from .processes import Patience

SMALL: Final[Mapping[str, str]] = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.lightweightPlanChangeValidation": "false",
    # Where only one compiler runs, the room for its code is a fifth by default, and is soon full.
    "spark.driver.extraJavaOptions": (
        f"{LOGGING} -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    ),
}
"""How Spark runs where queries are small and many: what makes long ones fast makes these slow."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where everything is left.  [default: a new folder for temporary files]",
)
@partial(with_spark, defaults=SMALL)
def demo(start: Start, /, *, out: Path | None) -> None:
    """Kill a broker and lose a host while an ingest looks on, and check that the report tells when.

    Runs a server, three stand-in brokers and three real agents on this machine, for about a minute.

    Exit codes: 0 = the report shows every failure at its time, 1 = not so.
    """
    out = out or Path(tempfile.mkdtemp(prefix="sharedroutes-pipeline-"))
    out.mkdir(parents=True, exist_ok=True)
    began_s = monotonic()
    patience = Patience()
    with (
        errors_in_one_line(),
        patience.signals(),
        tempfile.TemporaryDirectory(prefix="sharedroutes-") as folder,
    ):
        page, faults = _run(start, out, Path(folder), patience)
    tables = page.parent / "tables"
    problems = 0
    for text, good in findings(faults, _rows(tables, "detection"), _rows(tables, "broker_sessions")):
        problems += not good
        click.echo(f"{'ok     ' if good else 'PROBLEM'}  {text}")
    click.echo(page)
    say(f"it took {monotonic() - began_s:.0f} s")
    sys.exit(1 if problems else 0)


def _run(start: Start, out: Path, folder: Path, patience: Patience) -> tuple[Path, list[Fault]]:
    kept = str(out / "history")
    with ExitStack() as stack:
        drill = Drill(stack, out, folder, patience, say)
        drill.begin()
        spark = start()
        config = IngestConfig(out=kept, url=drill.url, trigger_s=0.5)
        with _ingesting(spark, config) as has_begun:
            drill.run(has_begun)
        say("the ingest goes on where it was stopped, to the end")
        ingest(spark, replace(config, once=True))
        routes = spark.read.format("routes").option("url", drill.url).load().persist()
        routes.count()
    say("the report is written")
    history = History(
        changes=stored_changes(spark, kept),
        quarantine=quarantined(spark, kept),
        samples=spark.read.format("send_samples").load(str(drill.samples)),
        routes=routes,
        faults=spark.read.schema(FAULTS.schema).json(str(drill.faults_file)),
    )
    report = str(out.absolute() / "report")
    done = write_report(history, report, title="Pipeline demo", on_answer=lambda name: say(f"  {name}"))
    return Path(done.page), drill.faults


@contextmanager
def _ingesting(spark: SparkSession, config: IngestConfig) -> Iterator[Callable[[], bool]]:
    """Ingest beside the block; give what tells whether anything is written, or raises why not."""
    stop, begun = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as beside:
        ingested = beside.submit(ingest, spark, config, stop=stop, on_progress=lambda _: begun.set())

        def has_begun() -> bool:
            if ingested.done():
                ingested.result()
            return begun.is_set()

        try:
            yield has_begun
        finally:
            stop.set()
        ingested.result()


def findings(
    faults: Sequence[Fault], detection: Sequence[Mapping[str, Any]], sessions: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, bool]]:
    """Yield, for each thing that was done, what the tables say of it, and whether the time is right.

    It is if it lies between what was done and the moment by which a client was seen to know: the registry
    knew by then, on a machine of any speed.
    """
    for fault in faults:
        if fault.what == "back":
            began = [row["begin_ms"] - fault.at_ms for row in sessions if row["broker"] == fault.broker]
            after_ms = min((after for after in began if after >= 0), default=None)
        else:
            told = [row["told_ms"] for row in detection if _is(row, fault)]
            after_ms = told[0] - fault.at_ms if told else None
        seen_after_ms = fault.seen_ms - fault.at_ms
        good = after_ms is not None and 0 <= after_ms <= seen_after_ms
        text = "not in the report" if after_ms is None else f"in the report {after_ms / 1000:.2f} s later"
        seen = f"a client had noticed after {seen_after_ms / 1000:.2f} s"
        yield f"{fault.broker} {fault.what}: {text} ({seen})", good


def _is(row: Mapping[str, Any], fault: Fault) -> bool:
    return (row["broker"], row["what"], row["fault_ms"]) == (fault.broker, fault.what, fault.at_ms)


def _rows(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return rows


if __name__ == "__main__":
    demo(prog_name="demo")
