"""`pipeline ingest` and `pipeline compact`: the change stream as Parquet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import click
from click.core import ParameterSource

from ...daemon.printing import output_option, print_records
from ...daemon.printing import say as say_record
from ...pipeline.ingest import CompactConfig, CompactSummary, DayCompacted, IngestConfig, IngestProgress
from ...pipeline.ingest import compact as compact_days
from ...pipeline.ingest import ingest as ingest_changes
from ...registry import RegistryConfig
from ...registry.wording import counted
from .. import records
from ..store_options import registry_options
from .spark import Start, WrongOption, say, stopping, with_spark

_REGISTRY = RegistryConfig()


@click.command()
@click.option("--out", required=True, metavar="FOLDER", help="Where the changes are kept; a URL, too.")
@registry_options
@click.option(
    "--registries",
    default="",
    metavar="JSON",
    help='Several registries, instead of --redis: [{"name": ..., "url": ..., "namespace": ...}, ...].',
)
@click.option("--once", is_flag=True, help="End when all is read that is there now.")
@click.option(
    "--starting-position", default="", metavar="ID", help="Of the first run: earliest, latest, or an id."
)
@click.option(
    "--trigger", "trigger_s", default=1.0, show_default=True, metavar="S", help="Seconds between batches."
)
@click.option(
    "--max-changes",
    "max_changes_per_trigger",
    default=0,
    metavar="N",
    help="Most changes of a batch.  [default: the source's]",
)
@click.option("--checkpoint", default="", metavar="FOLDER", help="Of Spark.  [default: FOLDER/_checkpoint]")
@click.option(
    "--on-loss",
    type=click.Choice(["fail", "mark"]),
    default="fail",
    show_default=True,
    help="When changes were lost before they were read: end, or go on behind a gap that is marked.",
)
@click.option(
    "--on-corrupt",
    type=click.Choice(["quarantine", "fail"]),
    default="quarantine",
    show_default=True,
    help="When a record cannot be read: set it aside, or end.",
)
@click.option(
    "--patience",
    "patience_s",
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds that the store may be away.",
)
@click.option(
    "--feed-max-entries",
    default=_REGISTRY.feed_max_entries,
    show_default=True,
    help="Entries that the registry keeps, by its agents' setting: warns before they are trimmed.",
)
@output_option
@with_spark
def ingest(
    start: Start, /, *, redis_url: str, namespace: str, registries: str, output: str, **settings: object
) -> None:
    """Keep every change of the registry as Parquet, each once, until stopped.

    FOLDER/changes has a folder a day; what cannot be read is in FOLDER/quarantine. A run goes on where the
    last one ended, however that was. SIGTERM ends it after the batch that is being written.
    """
    if registries and any(map(_is_said, ("redis_url", "namespace"))):
        raise WrongOption("--registries: stands instead of --redis and --namespace: leave those out")
    where = {"registries": registries} if registries else {"url": redis_url, "namespace": namespace}
    config = IngestConfig(**where, **settings)  # type: ignore[arg-type]
    spark = start()
    say(f"ingesting into {config.out}")
    with stopping() as stop:
        summary = ingest_changes(spark, config, stop=stop, on_progress=_show)
    text = f"{summary.rows:,} changes in {summary.batches:,} batches, {summary.quarantined:,} set aside"
    record: records.Ingested = {
        "changes": summary.rows,
        "batches": summary.batches,
        "setAside": summary.quarantined,
    }
    say_record(output, record, text)


def _is_said(name: str) -> bool:
    """Whether an option stands on the command line, and not only in the environment."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _show(progress: IngestProgress) -> None:
    written = progress.written
    behind = ", ".join(
        f"{one.registry}: {one.unread:,} unread ({100 * one.used:.0f} % of what is kept)"
        for one in progress.headroom
    )
    say(
        f"batch {written.batch}: {written.rows:,} changes in {written.took_s:.1f} s; "
        f"{behind or 'the store is away'}"
    )


@click.command()
@click.option("--out", required=True, metavar="FOLDER", help="That of the ingest.")
@click.option(
    "--keep-days", default=0, metavar="N", help="Drop older days, counted from the newest change's."
)
@output_option
@with_spark
def compact(start: Start, /, *, output: str, **settings: object) -> None:
    """Make one folder of the many small ones of each day that is over; an ingest may run meanwhile."""
    config = CompactConfig(**settings)  # type: ignore[arg-type]
    summary = compact_days(start(), config, on_day=_show_day)
    for day in summary.dropped:
        say(f"dropped {day}")
    show_compaction(summary, output)


def show_compaction(summary: CompactSummary, output: str) -> None:
    """Print what became of the days that are over."""
    if output != "table":
        print_records(output, _records(summary))
        return
    compacted = _days(day.table for day in summary.compacted)
    dropped = _days(day.partition("/")[0] for day in summary.dropped)
    click.echo(f"compacted: {compacted}; dropped: {dropped}")


def _records(summary: CompactSummary) -> Iterator[records.CompactedDay]:
    for one in summary.compacted:
        yield _record(one.table, one.day, one)
    for dropped in summary.dropped:
        table, _, day = dropped.partition("/")
        yield _record(table, day, None)


def _record(table: str, day: str, done: DayCompacted | None) -> records.CompactedDay:
    return {
        "table": table,
        "day": day,
        "done": "compacted" if done else "dropped",
        "rows": done.rows if done else None,
        "folders": done.folders if done else None,
        "bytesBefore": done.bytes_before if done else None,
        "bytesAfter": done.bytes_after if done else None,
    }


def _days(tables: Iterable[str]) -> str:
    """Return how many days of each table there are, given the table of each."""
    found = (f"{counted(days, 'day')} of {name}" for name, days in Counter(tables).items())
    return ", ".join(found) or "nothing"


def _show_day(done: DayCompacted) -> None:
    before, after = done.bytes_before / 1e6, done.bytes_after / 1e6
    say(
        f"{done.table} of {done.day}: {done.rows:,} rows of {done.folders} folders, "
        f"{before:.1f} to {after:.1f} MB"
    )
