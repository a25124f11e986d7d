"""`pipeline load`: topic configurations from elsewhere into a registry."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from pyspark.sql import SparkSession

from ...daemon.printing import output_option, print_records
from ...pipeline.load import BrokerLoad, Form, LoadedInPart, LoadSummary, Rules, Source, Target, read_configs
from ...pipeline.load import load as load_configs
from .. import records
from ..store_options import registry_options
from .spark import Start, say, with_spark

_SHOWN = 50


@click.command()
@click.argument("path")
@click.option(
    "--form",
    type=click.Choice([form.value for form in Form]),
    help="What PATH holds.  [default: by its suffix]",
)
@click.option("--broker", default="", help="With topics-json: the broker of all files.")
@click.option("--topic", default="", help="With topic-route: the topic of all files.")
@click.option("--cluster", default="", help="Of brokers for which nothing else says it.")
@click.option("--strict", is_flag=True, help="Load nothing when a file cannot be read.")
@registry_options
@click.option("--dry-run", is_flag=True, help="Only say what would be written.")
@click.option("--touch-live", is_flag=True, help="Also brokers that are alive; an agent has the last word.")
@click.option(
    "--remove-others", is_flag=True, help="Remove the topics of these brokers that are not in PATH."
)
@click.option(
    "--max-per-second",
    "max_entries_per_second",
    default=0,
    metavar="N",
    help="Most entries written in a second.  [default: no limit]",
)
@output_option
@with_spark
def load(
    start: Start, /, *, path: str, form: str | None, redis_url: str, namespace: str, output: str, **given: Any
) -> None:
    """Load the topic configurations in PATH: Parquet, CSV, JSON, topics.json files, or mqadmin's topicRoute.

    Everything is checked before anything is written. What is as wanted already is not written again.
    A dry run ends as the load itself would: with 1 if a broker would be refused.
    """
    of_source = {name: given.pop(name) for name in ("broker", "topic", "cluster", "strict")}
    source = Source(path=path, form=Form(form) if form else None, **of_source)
    rules, target = Rules(**given), Target(url=redis_url, namespace=namespace)
    _load(start(), source, target, rules, output)


def _load(spark: SparkSession, source: Source, target: Target, rules: Rules, output: str) -> None:
    """Load, and tell of it; raises TargetRefused for what was refused, and in a dry run for what would be."""
    configs = read_configs(spark, source)
    for row in configs.set_aside.limit(_SHOWN).collect():
        say(f"set aside: {row['file']}: {row['reason']}")
    try:
        summary = load_configs(spark, configs, target, rules)
    except LoadedInPart as error:
        show(error.summary, output)
        raise
    show(summary, output)
    if not summary.brokers:
        raise click.ClickException(f"{source.path} holds no topic that can be loaded")
    if rules.dry_run and summary.would_refuse is not None:
        raise summary.would_refuse


def show(summary: LoadSummary, output: str) -> None:
    """Print what a load did, or would do."""
    if summary.changes is not None:
        for row in summary.changes.limit(_SHOWN).collect():
            what = f"{row['broker']} {row['topic']}" if row["topic"] else row["broker"]
            say(f"{row['action']}: {what}: {row['before'] or '-'} -> {row['after'] or '-'}")
    if output != "table":
        print_records(output, map(partial(_record, is_dry_run=summary.dry_run), summary.brokers))
        return
    click.echo(
        f"{_what(summary)}: topics: {summary.added:,} added, {summary.changed:,} changed, "
        f"{summary.removed:,} removed, {summary.unchanged:,} as they were"
    )


def _record(one: BrokerLoad, *, is_dry_run: bool) -> records.LoadedBroker:
    return {
        "brokerName": one.broker,
        "added": one.added,
        "changed": one.changed,
        "removed": one.removed,
        "unchanged": one.unchanged,
        "refused": one.refused,
        "dryRun": is_dry_run,
    }


def _what(summary: LoadSummary) -> str:
    """Return what is told of brokers, before the numbers of topics."""
    total, refused = len(summary.brokers), len(summary.refused)
    brokers = f"{total - refused:,} of {total:,} brokers" if refused else f"{total:,} brokers"
    if not summary.dry_run:
        return f"loaded {brokers}"
    if any(broker.stops_all for broker in summary.brokers):
        return f"would load nothing ({refused:,} of {total:,} brokers refused); what differs"
    return f"would load {brokers}"
