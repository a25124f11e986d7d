"""`pipeline report`: answers as tables and a page."""

from __future__ import annotations

from pathlib import Path

import click
from pyspark.sql import DataFrame, SparkSession

from ...pipeline.ingest import quarantined, stored_changes
from ...pipeline.report import ANSWERS, History, write_report
from ...pipeline.schemas import FAULTS
from .spark import say, with_spark

__all__ = ["report"]


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
@click.option("--title", default="Route registry", show_default=True, help="Of the page.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Where the report is written.",
)
@with_spark
def report(
    spark: SparkSession,
    /,
    *,
    history: str,
    samples: str | None,
    routes: str | None,
    namespace: str,
    faults: str | None,
    until_ms: int | None,
    title: str,
    out: Path,
) -> None:
    """Write every answer as Parquet and CSV, and a page that needs nothing but itself; prints its path."""
    found = History(
        changes=stored_changes(spark, history),
        quarantine=quarantined(spark, history),
        samples=spark.read.format("send_samples").load(samples) if samples else None,
        routes=_routes(spark, routes, namespace) if routes else None,
        faults=spark.read.schema(FAULTS.schema).json(faults) if faults else None,
        until_ms=until_ms,
    )
    count = 0

    def show(name: str) -> None:
        nonlocal count
        count += 1
        say(f"{count}/{ANSWERS} {name}")

    click.echo(write_report(found, out, title=title, on_answer=show))


def _routes(spark: SparkSession, place: str, namespace: str) -> DataFrame:
    if "://" in place and place.startswith(("redis", "unix")):
        return spark.read.format("routes").option("url", place).option("namespace", namespace).load()
    return spark.read.parquet(place)
