"""The change stream as a table, in batches and as a stream: `spark.read.format("route_changes")`.

A batch of the stream is all after one id up to another, whatever was written meanwhile: Spark keeps both in
its checkpoint, so a batch that is repeated reads the same again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ...registry import RouteStore, plans
from ...registry.past import place_of
from ...registry.plans import ORIGIN
from ..schemas import CHANGES
from .change_feed import (
    LATEST,
    ChangeRange,
    Range,
    Settings,
    begin,
    cut_range,
    loss,
    lost_error,
    nth,
    read_range,
)
from .options import Registry

Offset = dict[str, str]
"""By the name of each registry the id of the last change that was read."""


class ChangesSource(DataSource):
    """The source `route_changes`: the change stream of one registry or several."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return CHANGES.name

    def schema(self) -> StructType:
        """Return the schema of CHANGES."""
        return CHANGES.schema

    def reader(self, schema: StructType) -> ChangesReader:  # noqa: ARG002 - there is only one
        """Return the reader of a batch; raises BadOption."""
        return ChangesReader(Settings.of(self.options))

    def streamReader(self, schema: StructType) -> ChangesStreamReader:  # noqa: ARG002, N802 - Spark's names
        """Return the reader of a stream; raises BadOption."""
        return ChangesStreamReader(Settings.of(self.options, stream=True))


class _Reader:
    """What tasks do for both readers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a range; raises ChangesLost, CorruptData and what the registry raises."""
        return read_range(self._settings, partition)

    def _stores(self) -> Iterator[tuple[Registry, RouteStore]]:
        """Yield each registry with a store on it, open until the next one's turn."""
        for registry in self._settings.registries:
            with registry.store() as store:
                yield registry, store


class ChangesReader(_Reader, DataSourceReader):
    """Reads what stands in the streams when the query begins."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges to read; raises ChangesLost and what the registry raises."""
        found: list[InputPartition] = []
        for registry, store in self._stores():
            bounds = store.history_bounds()
            after = begin(self._settings, store, registry, bounds)
            until = bounds.last_id
            if self._settings.ending != LATEST:  # the last entry up to there: an end has to be one
                until = store.run(plans.last_change_id(store.keys, self._settings.ending))
            place = Range(after, until)
            if place_of(after) > place_of(bounds.last_generated_id):
                found.append(ChangeRange(registry, Range(after, bounds.last_id)))
            elif place_of(after) < place_of(until):
                found += cut_range(store, registry, place, self._settings.partitions)
        return found


class ChangesStreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on from where the checkpoint is."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._targets: Offset | None = None
        """With Trigger.AvailableNow: where to stop."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where a new checkpoint begins; raises ChangesLost and what the registry raises."""
        return {
            registry.name: begin(self._settings, store, registry, store.history_bounds())
            for registry, store in self._stores()
        }

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how much a batch may hold."""
        return ReadMaxRows(self._settings.max_changes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the streams end now: the query reads up to there."""
        self._targets = self.reportLatestOffset()

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where the streams end now."""
        return {registry.name: store.history_bounds().last_id for registry, store in self._stores()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Return where the next batch ends; raises ChangesLost and what the registry raises."""
        share = None
        if isinstance(limit, ReadMaxRows):
            share = max(1, limit.max_rows // len(self._settings.registries))
        # A registry that is not read at the moment keeps its place, for when it is again.
        return start | {
            registry.name: self._end(registry, store, start.get(registry.name, ORIGIN), share)
            for registry, store in self._stores()
        }

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the ranges between two offsets, which are the same for the same offsets."""
        found: list[InputPartition] = []
        for registry, store in self._stores():
            place = Range(start.get(registry.name, ORIGIN), end.get(registry.name, ORIGIN))
            if place_of(place.until) < place_of(place.after):
                found.append(ChangeRange(registry, place))
            elif place.until != place.after:
                found += cut_range(store, registry, place, self._settings.partitions)
        return found

    def _end(self, registry: Registry, store: RouteStore, start: str, most: int | None) -> str:
        """Return the id of the last change of the next batch of a registry; `start` = there is none."""
        bounds = store.history_bounds()
        why = loss(store, start, bounds)
        if why is not None and not self._settings.mark:
            raise lost_error(registry, start, why, bounds)
        if why is not None and place_of(bounds.last_generated_id) < place_of(start):
            return bounds.last_id
        last = bounds.last_id
        if self._targets is not None:
            last = min(last, self._targets[registry.name], key=place_of)
        if place_of(last) <= place_of(start):
            return start
        if most is None or bounds.entries <= most:
            return last
        return nth(store, Range(start, last), most, self._settings.page)
