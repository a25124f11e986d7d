"""The group of the pipeline's commands."""

from __future__ import annotations

import click

from ..root import Group
from .ask import ask
from .ingest import compact, ingest
from .load import load
from .report import report


@click.group(cls=Group)
def pipeline() -> None:
    """Keep and answer the registry's history, on Spark.

    Spark runs in this process unless --master names a cluster; it needs Java 17 or newer.
    """


for command in (ask, compact, ingest, load, report):
    pipeline.add_command(command)
