"""What a report is made from: opened and checked before the first answer is worked out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ...registry import RegistryConfig
from ..errors import BadOption
from ..ingest.layout import MAX_DAY_MS
from ..schemas import FAULTS, ROUTES
from ..sources.options import REGISTRY_OPTIONS, Options, one_of
from ..sources.samples import SamplesSource

_SCHEMES = ("redis", "unix")
_RECORD = "_record"
_ALL = 100
"""Per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a report is made from; what is not there is left out of it."""

    changes: DataFrame
    """CHANGES, or the stored ones."""

    samples: DataFrame | None = None
    routes: DataFrame | None = None
    faults: DataFrame | None = None
    quarantine: DataFrame | None = None
    corrupt_samples: DataFrame | None = None
    from_ms: int | None = None
    """The begin of the observation, by the store's clock; None = the first change."""

    until_ms: int | None = None
    """Its end; None = now: what is open then goes on, whether or not anything has changed since."""

    fewer_than: int = 1
    """Outages of topics: times with fewer masters that take messages."""

    slo: float | None = None
    """The objective: so many per cent of the time a topic is to have a broker; None = there is none."""

    @property
    def observed_samples(self) -> DataFrame | None:
        """The samples up to the end of the observation."""
        until_ms = MAX_DAY_MS if self.until_ms is None else self.until_ms
        in_time = F.col("at_ms").between(self.from_ms or 0, until_ms)
        return None if self.samples is None else self.samples.where(in_time)

    def observed(self, now_ms: int) -> History:
        """Return it with its end, which is now unless one is given; raises BadOption for what cannot be."""
        if self.slo is not None and not 0 < self.slo < _ALL:
            raise BadOption.of("report", "slo", f"{self.slo:g} is not between 0 and {_ALL}, such as 99.9")
        if self.routes is not None:
            self._check_registries(self.routes)
        first_ms, newest_ms = self.changes.agg(F.min("ms"), F.max("ms")).collect()[0]
        # The newest change may be a little later: that is the store's clock.
        until_ms = max(now_ms, newest_ms or 0) if self.until_ms is None else self.until_ms
        check_times(self.from_ms, until_ms)
        if first_ms is not None and until_ms < first_ms:
            raise _time("until_ms", until_ms, f"is before the first change, which came at {first_ms}")
        return replace(self, until_ms=until_ms)

    def _check_registries(self, routes: DataFrame) -> None:
        names = (frame.select("registry").distinct().collect() for frame in (self.changes, routes))
        ours, theirs = (sorted(row["registry"] for row in rows) for rows in names)
        if ours and not set(ours) & set(theirs):
            what = f"they are of {', '.join(theirs) or 'no registry'}, and the changes of {', '.join(ours)}"
            raise BadOption.of("report", "routes", f"{what}: name the same registry as the ingest did")


def check_times(from_ms: int | None, until_ms: int | None) -> None:
    """Raise BadOption for ends of an observation that are no times in ms, or in the wrong order."""
    for name, ms in (("from_ms", from_ms), ("until_ms", until_ms)):
        if ms is not None and not 0 <= ms <= MAX_DAY_MS:
            raise _time(name, ms, f"is not within 0 to {MAX_DAY_MS}")
    if from_ms is not None and until_ms is not None and from_ms >= until_ms:
        raise _time("from_ms", from_ms, f"is not before the end, {until_ms}")


def _time(option: str, ms: int, why: str) -> BadOption:
    return BadOption.of("report", option, f"{ms} {why}: give ms since 1970, by the store's clock")


def check_samples(path: str) -> None:
    """See that there are samples; raises PipelineError. Spark need not run."""
    source = SamplesSource(options={"path": path})
    source.reader(source.schema()).partitions()


def check_routes(place: str, namespace: str = RegistryConfig().namespace) -> None:
    """See that a store is there, if it is one; raises BadOption and RegistryError. Spark need not run."""
    if _is_store(place):
        with one_of(
            Options(ROUTES.name, {"url": place, "namespace": namespace}, REGISTRY_OPTIONS)
        ).store() as store:
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
    there = {(column.name, column.dataType) for column in found.schema}
    if wrong := [column.name for column in ROUTES.schema if (column.name, column.dataType) not in there]:
        missing = f"{', '.join(wrong)} is missing or has another type"
        what = f"{place} is no snapshot: {missing}; save the source routes"
        raise BadOption.of("report", "routes", what)
    return found


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
