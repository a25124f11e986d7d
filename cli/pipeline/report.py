"""`pipeline report`: answers as tables and a page."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

from ...daemon.printing import iso, output_option
from ...daemon.printing import say as say_record
from ...pipeline.ingest import quarantined, stored_changes
from ...pipeline.report import History, Report, asked, check_out, check_times, write_report
from ...pipeline.report import history as opened
from ...registry.wording import counted
from .. import records
from ..times import TIME, Moment
from .spark import Start, about, changes_option, check_changes, namespace_option, say, with_spark

_MISSED = 3
_BURNING = 4


@click.command()
@changes_option
@click.option("--samples", metavar="PATH", help="What clients recorded of their attempts to send.")
@click.option(
    "--routes",
    metavar="URL|PATH",
    help="The routes now, for placement: the store's URL, or a snapshot in Parquet.",
)
@namespace_option
@click.option(
    "--faults",
    metavar="FILE",
    help="What was done on purpose: lines of JSON with at_ms, broker, what, registry.",
)
@click.option(
    "--from",
    "begin",
    type=TIME,
    help="Begin of the observation, as 2h or 2026-11-23T14:05.  [default: first change]",
)
@click.option("--until", "end", type=TIME, help="Its end.  [default: now]")
@click.option(
    "--fewer-than",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="A topic is out while fewer of its brokers take messages.",
)
@click.option("--slo", type=float, metavar="PERCENT", help="The objective for topics, such as 99.9.")
@click.option("--title", default="Route registry", show_default=True, help="Of the page.")
@click.option("--out", required=True, metavar="FOLDER", help="Where the report is written; a URL, too.")
@output_option
@with_spark
def report(
    start: Start,
    /,
    *,
    begin: Moment | None,
    end: Moment | None,
    fewer_than: int,
    slo: float | None,
    title: str,
    out: str,
    output: str,
    **sources: Any,
) -> None:
    """Write every answer as Parquet and CSV, and a page that needs nothing but itself; prints its path.

    With --slo it ends with 3 if a topic missed the objective, and with 4 if one burns its budget too fast, or
    is out at the end.
    RocketMQ's own topics do not count.
    """
    if sources["samples"]:
        with about("--samples"):
            opened.check_samples(sources["samples"])
    if sources["routes"]:
        with about("--routes"):
            opened.check_routes(sources["routes"], sources["namespace"])
    now_ms = time.time_ns() // 1_000_000
    from_ms, until_ms = (None if at is None else at.ms(now_ms) for at in (begin, end))
    check_times(from_ms, until_ms)
    out = out if "://" in out else str(Path(out).absolute())
    check_out(out)
    check_changes(sources["history"])
    spark = start()
    found = replace(
        _opened(spark, **sources), from_ms=from_ms, until_ms=until_ms, fewer_than=fewer_than, slo=slo
    )
    steps, number = len(asked(found)) + 1, count(1)  # the page
    done = write_report(found, out, title=title, on_answer=lambda name: say(f"{next(number)}/{steps} {name}"))
    for warning in done.warnings:
        say(f"warning: {warning}")
    record = records.WrittenReport(
        page=done.page, until=iso(done.until_ms), missed=done.missed, burning=done.burning
    )
    say_record(output, record, done.page)
    if slo is not None:
        _end(done)


def _opened(
    spark: SparkSession,
    *,
    history: str,
    samples: str | None,
    routes: str | None,
    namespace: str,
    faults: str | None,
) -> History:
    """Open all that is named, each with its errors as those of its option."""
    with about("--changes"):
        found = History(changes=stored_changes(spark, history), quarantine=quarantined(spark, history))
    if faults:
        with about("--faults"):
            found = replace(found, faults=opened.read_faults(spark, faults))
    if samples:
        with about("--samples"):
            reader = spark.read.format("send_samples")
            found = replace(found, samples=reader.load(samples))
            found = replace(found, corrupt_samples=reader.option("table", "corrupt").load(samples))
    if routes:
        with about("--routes"):
            found = replace(found, routes=opened.read_routes(spark, routes, namespace))
    return found


def _end(done: Report) -> None:
    """Say how topics did by the objective, and end as that says."""
    told, status = "all topics met the objective", 0
    if done.missed:
        told, status = f"{counted(done.missed, 'topic')} missed the objective", _MISSED
    elif done.burning:
        told, status = f"{counted(done.burning, 'topic')} burning too fast, or out at the end", _BURNING
    say(f"judged up to {iso(done.until_ms)}: {told}")
    if status:
        raise click.exceptions.Exit(status)
