"""What a task of the source `route_changes` reads, and how a range is cut into tasks."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ...registry import HistoryBounds, RouteStore, plans
from ...registry.plans import ORIGIN, HistoryRange
from .changes_settings import Settings
from .places import EMPTIED, ROLLED_BACK, lost_error, reason
from .ranges import SAMPLE, Range, cut, order
from .records import RecordReader, gap
from .registries import Registry


class ChangeRange(InputPartition):
    """What one task reads of one registry."""

    def __init__(self, registry: Registry, place: Range) -> None:
        self.registry = registry
        self.place = place

    @property
    def is_reset(self) -> bool:
        """Whether the stream ends before the place where reading was: nothing is read, the loss is told."""
        return order(self.place.until) < order(self.place.after)


def nth(store: RouteStore, place: Range, most: int, page_entries: int) -> str:
    """Return the id of the last of the first `most` entries of a range."""
    after = place.after
    while most > 0:
        page = store.history(after, place.until, min(most, page_entries))
        if page.ids:
            after = page.ids[-1].decode()
        most -= len(page.ids)
        if page.complete:
            break
    return after


def cut_range(
    store: RouteStore, registry: Registry, place: Range, parts: int, bounds: HistoryBounds
) -> list[ChangeRange]:
    """Return what tasks read of a range: parts of about the same length."""

    def probe(ranges: Sequence[Range]) -> list[list[str]]:
        wanted = [HistoryRange(one.after, one.until, SAMPLE) for one in ranges]
        pages = store.run(plans.history(store.keys, *wanted))
        return [[entry_id.decode() for entry_id in page.ids] for page in pages]

    return [ChangeRange(registry, part) for part in cut(place, parts, bounds.entries, probe)]


def read_range(settings: Settings, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a range, and where some were lost the gap.

    Each page begins with the entry that the one before has ended with: if that is gone, others may be. So may
    they if the last entry of the range is not the one that stood there when the range was made.
    Raises ChangesLost, CorruptData and what the registry raises.
    """
    if not isinstance(partition, ChangeRange):  # Spark's own, where there is nothing to read
        return
    registry, place = partition.registry, partition.place
    with registry.store() as store:
        if partition.is_reset:
            yield _gap(settings, store, registry, place.after, "")
            return
        records = RecordReader(registry.name, store.keys.changes, refuse_corrupt=settings.refuse_corrupt)
        after, complete = place.after, False
        while not complete:
            with _uncollected():
                page = store.history(after, place.until, settings.page)
            if page.lost:
                first = page.ids[0].decode() if page.ids else ""
                yield _gap(settings, store, registry, after, first)
            if page.ids:
                yield records.batch(page.ids, page.records)
                after = page.ids[-1].decode()
            complete = page.complete
        if after != place.until and not page.lost:
            yield _gap(settings, store, registry, after, "", gone=place.until)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector away: among the lists of a page it takes longer than reading them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _gap(
    settings: Settings, store: RouteStore, registry: Registry, after: str, first: str, gone: str = ""
) -> pa.RecordBatch:
    """Return the row that stands for what was lost after an entry, by default with that entry.

    Raises ChangesLost unless losses are to be marked.
    """
    bounds = store.history_bounds()
    gone = gone or after
    why = reason(gone, bounds) or (EMPTIED if bounds.last_generated_id == ORIGIN else ROLLED_BACK)
    if not settings.mark:
        raise lost_error(registry, gone, why, bounds)
    return gap(registry.name, after, first, why)
