"""The source and sink `routes`: the registry's table as it is now, and the bulk load of topics."""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType

from ..schemas import REPLICAS, ROUTES
from ..tables import Table
from .options import Options
from .registries import OPTIONS, registries_of
from .routes_checks import check_columns
from .routes_reading import RoutesReader
from .routes_writing import writer_of

NAME: Final = "routes"
READ_OPTIONS: Final = (*OPTIONS, "table", "partitions", "brokers", "onProblem", "stale")
WRITE_OPTIONS: Final = (
    *OPTIONS,
    "dryRun",
    "onLive",
    "removeOthers",
    "maxEntriesPerSecond",
    "cluster",
    "report",
)
_MAX_PARTITIONS: Final = 10_000


class RoutesSource(DataSource):
    """Spark's data source `routes`."""

    @classmethod
    def name(cls) -> str:
        """Return what it is called in `format(...)`."""
        return NAME

    def schema(self) -> StructType:
        """Return the schema of the table that the options name; raises BadOption."""
        return self._table(self._read_options()).schema

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Return what reads; raises BadOption."""
        options = self._read_options()
        return RoutesReader(
            table=self._table(options),
            registries=registries_of(options),
            parts=options.number("partitions", 0, low=0, high=_MAX_PARTITIONS),
            brokers=frozenset(filter(None, map(str.strip, options.text("brokers").split(",")))),
            fail_on_problem=options.choice("onProblem", "mark", "fail") == "fail",
            stale=options.flag("stale", default=False),
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Return what writes; raises BadOption, and BadRows for columns that cannot be loaded."""
        check_columns(schema)
        return writer_of(Options(NAME, self.options, WRITE_OPTIONS), overwrite=overwrite)

    def _read_options(self) -> Options:
        return Options(NAME, self.options, READ_OPTIONS)

    def _table(self, options: Options) -> Table:
        return ROUTES if options.choice("table", "entries", "replicas") == "entries" else REPLICAS
