"""What an ingest keeps, as DataFrames."""

from __future__ import annotations

import logging
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from ..errors import BadOption, PipelineError
from ..schemas import QUARANTINE, STORED_CHANGES
from ..tables import Table
from .files import HadoopFiles
from .journal import newest_entry
from .layout import CHANGES_FOLDER, QUARANTINE_FOLDER, READY, STAGED_SWAPS, folder_value, join
from .swapping import Swap

_LOG: Final = logging.getLogger(__name__)
_MISSING: Final = (
    "%s may be missing in %s below %s: a compaction works on it, or was killed, and another one ends it"
)


def stored_changes(spark: SparkSession, out: str) -> DataFrame:
    """Return the changes below the `out` of an ingest, as STORED_CHANGES; raises BadOption."""
    return _read(spark, out, CHANGES_FOLDER, STORED_CHANGES)


def quarantined(spark: SparkSession, out: str) -> DataFrame:
    """Return the records that were set aside, as QUARANTINE; raises BadOption."""
    return _read(spark, out, QUARANTINE_FOLDER, QUARANTINE)


def _read(spark: SparkSession, out: str, folder: str, table: Table) -> DataFrame:
    files = HadoopFiles(spark, out)
    _warn_of_swaps(files, out, folder)
    path = join(out, folder)
    newest = newest_entry(files, out)  # raises for a form that only newer releases know
    if folder_value(files.names(path), "day"):
        return spark.read.schema(table.schema).parquet(path).select(*table.names)
    if newest is None:
        what = f"{out} holds nothing that was ingested: name the folder of an ingest"
        raise BadOption(what, option="out", what=what)
    return spark.createDataFrame([], table.schema)


def _warn_of_swaps(files: HadoopFiles, out: str, folder: str) -> None:
    """Warn of days that a compaction has taken out, to put new ones in their place, or was killed at that."""
    staged = join(out, STAGED_SWAPS)
    for name in files.names(staged):
        ready = join(staged, name, READY)
        try:
            swap = Swap.from_json(ready, files.read(ready)) if files.exists(ready) else None
        except PipelineError:  # it has ended meanwhile
            continue
        if swap is not None and swap.table == folder:
            _LOG.warning(_MISSING, swap.day, folder, out)
