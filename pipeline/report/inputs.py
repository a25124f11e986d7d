"""What a report is made from, by its places: opened and checked before the first answer is worked out."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ...registry import RegistryConfig
from ..errors import BadOption
from ..schemas import FAULTS, ROUTES, SAMPLES
from ..sources.options import Options
from ..sources.registries import OPTIONS, one_of
from ..sources.samples import SamplesSource

__all__ = [
    "check_routes",
    "check_samples",
    "read_corrupt_samples",
    "read_faults",
    "read_routes",
    "read_samples",
]

_SCHEMES = ("redis", "unix")
_RECORD = "_record"


def check_samples(path: str) -> None:
    """See that there are samples; raises PipelineError. Spark need not run."""
    source = SamplesSource(options={"path": path})
    source.reader(source.schema()).partitions()


def read_samples(spark: SparkSession, path: str) -> DataFrame:
    """Return what clients recorded, as SAMPLES."""
    return spark.read.format(SAMPLES.name).load(path)


def read_corrupt_samples(spark: SparkSession, path: str) -> DataFrame:
    """Return what is no sample there, as CORRUPT_SAMPLES."""
    return spark.read.format(SAMPLES.name).option("table", "corrupt").load(path)


def check_routes(place: str, namespace: str = RegistryConfig().namespace) -> None:
    """See that a store is there, if it is one; raises BadOption and RegistryError. Spark need not run."""
    if _is_store(place):
        with one_of(Options(ROUTES.name, {"url": place, "namespace": namespace}, OPTIONS)).store() as store:
            store.history_bounds()


def read_routes(spark: SparkSession, place: str, namespace: str = RegistryConfig().namespace) -> DataFrame:
    """Return the routes of a store, or a snapshot of them in Parquet, as ROUTES; raises BadOption.

    Those of a store are read now, once: all answers are about the same moment.
    """
    if _is_store(place):
        options = {"url": place, "namespace": namespace}
        found = spark.read.format(ROUTES.name).options(**options).load().persist()
        found.count()
        return found
    found = spark.read.parquet(place)
    wrong = [column.name for column in ROUTES.schema if (column.name, column.dataType) not in _columns(found)]
    if wrong:
        missing = f"{', '.join(wrong)} is missing or has another type"
        what = f"{place} is no snapshot: {missing}; save the source routes"
        raise BadOption.of("report", "routes", what)
    return found


def _columns(frame: DataFrame) -> list[tuple[str, object]]:
    return [(column.name, column.dataType) for column in frame.schema]


def _is_store(place: str) -> bool:
    return "://" in place and place.startswith(_SCHEMES)


def read_faults(spark: SparkSession, path: str) -> DataFrame:
    """Return what was done on purpose, as FAULTS; raises BadOption for a line that is none."""
    schema = StructType([*FAULTS.schema, StructField(_RECORD, StringType())])
    found = spark.read.schema(schema).option("columnNameOfCorruptRecord", _RECORD).json(path)
    missing = F.col("registry").isNull() | F.col("at_ms").isNull() | F.col("what").isNull()
    for row in found.where(F.col(_RECORD).isNotNull() | missing).limit(1).collect():
        line = row[_RECORD] or {name: row[name] for name in FAULTS.names if row[name] is not None}
        what = f"{path}: {line} is no fault: a line has registry, at_ms, broker and what"
        raise BadOption.of("report", "faults", what)
    return found.select(*FAULTS.names)
