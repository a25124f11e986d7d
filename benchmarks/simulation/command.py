"""`python -m benchmarks.simulation`: plays a fleet that exists in Spark alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import orjson
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from sharedroutes.cli.pipeline.spark import Start, say, with_spark
from sharedroutes.pipeline.errors import BadOption
from sharedroutes.pipeline.ingest.files import make_folder

from .config import FleetConfig
from .outcome import QUANTILES
from .run import simulate as play


@click.command()
@click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Settings, as JSON.",
)
@click.option("--brokers", type=int, help="Number of brokers.  [default: 100]")
@click.option("--topics", type=int, help="Number of topics.  [default: 10000]")
@click.option("--clients", type=int, help="Number of clients.  [default: 10000]")
@click.option("--hours", type=float, help="How long it is played.  [default: 24]")
@click.option("--seed", type=int, help="The same seed gives the same answer.  [default: 1]")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Where tables are written, if they are."
)
@with_spark
def simulate(start: Start, /, *, path: Path | None, out: Path | None, **sizes: float | None) -> None:
    """Play faults of brokers and what clients meet, with RocketMQ's name servers and with sharedroutes.

    Options go before what --config says; docs/simulation/settings.md has all settings.
    """
    said = {name: value for name, value in sizes.items() if value is not None}
    config = FleetConfig.from_json(orjson.dumps(_settings(path) | said))
    if out is not None:
        make_folder("simulation", out)
    spark = start()
    say(
        f"{config.brokers:,} brokers, {config.topics:,} topics, {config.clients:,} clients, "
        f"{config.hours:g} hours, seed {config.seed}"
    )
    found = play(spark, config)
    _print(found.quantiles)
    if out is not None:
        for name in ("totals", "quantiles", "histogram", "faults"):
            pq.write_table(getattr(found, name).toArrow(), out / f"{name}.parquet")
        say(f"tables are in {out}")


def _settings(path: Path | None) -> dict[str, Any]:
    """Return what a file says; raises BadOption for what is no JSON object."""
    try:
        found = orjson.loads(path.read_bytes()) if path else {}
    except ValueError as error:
        raise BadOption.of("simulate", "path", f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadOption.of("simulate", "path", f"{path} is no JSON object")
    return found


def _print(quantiles: DataFrame) -> None:
    rows = [[_text(value) for value in row] for row in quantiles.collect()]
    columns = [QUANTILES.names, *rows]
    widths = [max(len(row[place]) for row in columns) for place in range(len(QUANTILES.names))]
    for row in columns:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "never" if value is None else str(value)
