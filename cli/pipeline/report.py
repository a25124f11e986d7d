"""`pipeline report`: answers as tables and a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
from pyspark.sql import SparkSession

from ...pipeline.ingest import quarantined, stored_changes
from ...pipeline.report import History, check_report_folder, check_until, write_report
from ...pipeline.report.inputs import (
    check_routes,
    check_samples,
    read_corrupt_samples,
    read_faults,
    read_routes,
    read_samples,
)
from .spark import Start, about, say, with_spark


@click.command()
@click.option("--changes", "history", required=True, metavar="FOLDER", help="What `pipeline ingest` keeps.")
@click.option("--samples", metavar="PATH", help="What clients recorded of their attempts to send.")
@click.option(
    "--routes",
    metavar="URL|PATH",
    help="The routes now, for placement: the store's URL, or a snapshot in Parquet.",
)
@click.option("--namespace", default="sharedroutes", show_default=True, help="With a URL in --routes.")
@click.option(
    "--faults",
    metavar="FILE",
    help="What was done on purpose: lines of JSON with at_ms, broker, what, registry.",
)
@click.option(
    "--until", "until_ms", type=int, metavar="MS", help="End of the observation.  [default: newest change]"
)
@click.option(
    "--fewer-than",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="A topic is out while fewer of its brokers take messages.",
)
@click.option("--title", default="Route registry", show_default=True, help="Of the page.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Where the report is written.",
)
@with_spark
def report(
    start: Start,
    /,
    *,
    history: str,
    samples: str | None,
    routes: str | None,
    namespace: str,
    faults: str | None,
    until_ms: int | None,
    fewer_than: int,
    title: str,
    out: Path,
) -> None:
    """Write every answer as Parquet and CSV, and a page that needs nothing but itself; prints its path."""
    if samples:
        with about("--samples"):
            check_samples(samples)
    if routes:
        with about("--routes"):
            check_routes(routes, namespace)
    if until_ms is not None:
        check_until(until_ms)
    check_report_folder(out)
    found = _history(start(), history, samples, routes, namespace, faults, until_ms)
    found = replace(found, fewer_than=fewer_than)
    count = 0

    def show(name: str) -> None:
        nonlocal count
        count += 1
        say(f"{count}/{found.steps} {name}")

    click.echo(write_report(found, out, title=title, on_answer=show))


def _history(
    spark: SparkSession,
    changes: str,
    samples: str | None,
    routes: str | None,
    namespace: str,
    faults: str | None,
    until_ms: int | None,
) -> History:
    """Open all that is named, each with its errors as those of its option."""
    with about("--changes"):
        stored, aside = stored_changes(spark, changes), quarantined(spark, changes)
    done = sent = corrupt = table = None
    if faults:
        with about("--faults"):
            done = read_faults(spark, faults)
    if samples:
        with about("--samples"):
            sent, corrupt = read_samples(spark, samples), read_corrupt_samples(spark, samples)
    if routes:
        with about("--routes"):
            table = read_routes(spark, routes, namespace)
    return History(
        changes=stored,
        quarantine=aside,
        samples=sent,
        corrupt_samples=corrupt,
        routes=table,
        faults=done,
        until_ms=until_ms,
    )
