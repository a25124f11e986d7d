"""The source and sink `routes`: the registry's table as it is now, and the bulk load of topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ...registry import RegistryError
from ..errors import BadOption, PipelineError
from ..schemas import REPLICAS, ROUTES
from .options import MOST_PARTITIONS, REGISTRY_OPTIONS, Options, Registry, one_of, registries_of
from .routes_checks import Checked, check_batch, check_columns
from .routes_load import BrokerLoad, Rules, TopicChange, load_rows, refusal, summary_rows
from .routes_reader import RoutesReader

READ_OPTIONS: Final = (*REGISTRY_OPTIONS, "table", "partitions", "brokers", "onProblem", "stale")
WRITE_OPTIONS: Final = (
    *REGISTRY_OPTIONS,
    "dryRun",
    "onLive",
    "removeOthers",
    "maxEntriesPerSecond",
    "cluster",
    "report",
)
SUMMARY_FILE: Final = "summary.json"
"""In the folder `report`: what was done with each broker, or why nothing was."""

CHANGES_FILE: Final = "changes.jsonl"
"""In the folder `report`, after a dry run: a line of JSON for each topic that would change."""


class RoutesSource(DataSource):
    """Spark's data source `routes`."""

    @classmethod
    def name(cls) -> str:
        """Return what it is called in `format(...)`."""
        return ROUTES.name

    def schema(self) -> StructType:
        """Return the schema of the table that the options name; raises BadOption."""
        return self._reader().table.schema

    def reader(self, schema: StructType) -> RoutesReader:  # noqa: ARG002 - Spark's signature
        """Return what reads; raises BadOption."""
        return self._reader()

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Return what writes; raises BadOption, and BadRows for columns that cannot be loaded."""
        check_columns(schema)
        if overwrite:
            raise BadOption(
                "routes: there is no mode overwrite: use mode append, and removeOthers=true to make the "
                "table of each broker exactly what the rows say"
            )
        options = Options(ROUTES.name, self.options, WRITE_OPTIONS)
        return RoutesWriter(registry=one_of(options), rules=_rules_of(options), report=_report_of(options))

    def _reader(self) -> RoutesReader:
        options = Options(ROUTES.name, self.options, READ_OPTIONS)
        return RoutesReader(
            table=ROUTES if options.choice("table", "entries", "replicas") == "entries" else REPLICAS,
            registries=registries_of(options),
            parts=options.number("partitions", 0, low=0, high=MOST_PARTITIONS),
            brokers=frozenset(filter(None, map(str.strip, options.text("brokers").split(",")))),
            fail_on_problem=options.choice("onProblem", "mark", "fail") == "fail",
            stale=options.flag("stale", default=False),
        )


def _rules_of(options: Options) -> Rules:
    """Return what a load may do; raises BadOption."""
    return Rules(
        touch_live=options.choice("onLive", "refuse", "write") == "write",
        remove_others=options.flag("removeOthers", default=False),
        max_entries_per_second=options.number("maxEntriesPerSecond", 0, low=0),
        cluster=options.text("cluster", Rules().cluster),
        dry_run=options.flag("dryRun", default=False),
    )


def _report_of(options: Options) -> str:
    """Return the folder for the report, empty for none; raises BadOption."""
    folder = options.text("report")
    if folder and not Path(folder).is_dir():
        raise options.bad("report", f"{folder!r} is no folder of the driver's machine")
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutesWriter(DataSourceArrowWriter):
    """Loads a DataFrame into one registry: rows of a broker may come from any number of tasks.

    A registry is on one server, so one process writes to it, on the driver: it sees all rows of a broker, and
    what a task did that is run twice, or whose job fails, is nothing.
    """

    registry: Registry
    rules: Rules
    report: str = ""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Checked:
        """Check the rows of a task; nothing is written."""
        return Checked.of_all(map(check_batch, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Write the rows of all tasks; raises BadRows, TargetRefused and the errors of the registry."""
        try:
            checked = (message for message in messages if isinstance(message, Checked))
            done = load_rows(self.registry, self.rules, Checked.of_all(checked))
        except (PipelineError, RegistryError) as error:
            self._tell([], error)
            raise
        problem = None if self.rules.dry_run else refusal(done, len(done), is_dry_run=False)
        self._tell(done, problem)
        if problem is not None:
            raise problem

    def _tell(self, done: Sequence[BrokerLoad], problem: Exception | None) -> None:
        """Write the report, if somebody wants it."""
        if not self.report:
            return
        changes = Path(self.report) / CHANGES_FILE
        changes.unlink(missing_ok=True)  # what an earlier dry run told is no news of this load
        if self.rules.dry_run:
            changes.write_bytes(b"".join(map(_line, (change for load in done for change in load.changes))))
        error = {"kind": type(problem).__name__, "message": str(problem)} if problem is not None else None
        summary = {"dry_run": self.rules.dry_run, "brokers": summary_rows(done), "error": error}
        (Path(self.report) / SUMMARY_FILE).write_bytes(orjson.dumps(summary))


def _line(change: TopicChange) -> bytes:
    return orjson.dumps(asdict(change), option=orjson.OPT_APPEND_NEWLINE)
