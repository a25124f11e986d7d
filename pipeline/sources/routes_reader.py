"""Reading the registry's table, in parts of about the same size."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ...registry import CorruptData, RouteStore
from ...registry.plans.replicas import RawTable, replicas, table_page, table_sizes, tables
from ...registry.plans.routes import groups
from ..errors import PipelineError
from ..schemas import REPLICAS, ROUTES
from ..tables import Table
from .options import Registry
from .routes_rows import entry_rows, replica_row, rows

_ENTRIES_A_PART: Final = 250_000
"""Reading so many takes longer than to start a task, and a small registry is one part."""

_AT_ONCE: Final = 20_000
"""Entries read in one go: some 2 MB. A larger table is read page by page."""

_PAGE: Final = 5_000
_BROKERS_AT_ONCE: Final = 200

Tables: TypeAlias = Sequence[tuple[str, RawTable | CorruptData]]


@dataclass(frozen=True)
class Part(InputPartition):
    """Brokers of one registry, with the sizes of their tables as they were when the parts were made."""

    registry: Registry
    brokers: tuple[tuple[str, int], ...] = ()
    problems: tuple[str, ...] = ()
    """What the registry lists and nobody can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutesReader(DataSourceReader):
    """Reads entries (a table is ROUTES) or replicas (REPLICAS) of registries."""

    table: Table
    registries: tuple[Registry, ...]
    parts: int = 0
    """Of one registry; 0 = by its size."""

    brokers: frozenset[str] = frozenset()
    """Only these; empty = all."""

    fail_on_problem: bool = False
    stale: bool = False
    """Whether a replica of the store may be read."""

    def partitions(self) -> Sequence[InputPartition]:
        """Share the brokers out; raises CorruptData, StoreUnavailable, StoreRefused."""
        return [part for registry in self.registries for part in self._parts(registry)]

    def _parts(self, registry: Registry) -> Iterator[Part]:
        with registry.store() as store:
            try:
                listing = store.run(table_sizes(store.keys), stale=self.stale)
            except CorruptData as error:
                yield Part(registry, problems=(str(error),))
                return
        found = [item for item in listing.found if not self.brokers or item[0] in self.brokers]
        entries = sum(size for _, size in found)
        wanted = self.parts or -(-entries // _ENTRIES_A_PART)
        shares = share_out(found, max(1, wanted))
        problems = tuple(map(str, listing.corrupt))
        for number, brokers in enumerate(shares):
            yield Part(registry, brokers, problems if number == 0 else ())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what a part holds; raises StoreUnavailable, StoreRefused, and PipelineError if asked to."""
        if not isinstance(partition, Part):
            raise TypeError(f"{partition!r} is none of the parts that were made here")
        with partition.registry.store() as store:
            for batch in self._batches(store, partition):
                if self.fail_on_problem:
                    _refuse_problems(batch)
                yield batch

    def _batches(self, store: RouteStore, part: Part) -> Iterator[pa.RecordBatch]:
        name = part.registry.name
        if part.problems:
            yield rows(self.table, name, [{"problem": problem} for problem in part.problems])
        for some in _in_goes(part.brokers):
            if self.table == REPLICAS:
                yield from self._replicas(store, name, some)
            else:
                yield from self._entries(store, name, some)

    def _entries(
        self, store: RouteStore, registry: str, some: Sequence[tuple[str, int]]
    ) -> Iterator[pa.RecordBatch]:
        names = [name for name, _ in some]
        look = store.run(groups(store.keys, names), stale=self.stale)
        problems = [{"problem": str(error)} for error in look.corrupt]
        facts = {}
        for name in names:
            group, live = look.groups.get(name), look.alive.get(name)
            facts[name] = {
                "broker": name,
                "cluster": group.cluster if group else "",
                "wiped": group.wiped if group else False,
                "live_ids": sorted(live.broker_addrs) if live else (),
                "master_address": live.master_address if live else None,
            }
        for found in self._tables(store, some):
            problems += [
                {"broker": name, "problem": str(table)}
                for name, table in found
                if isinstance(table, CorruptData)
            ]
            good = [(facts[name], table) for name, table in found if not isinstance(table, CorruptData)]
            yield from entry_rows(registry, good)
        if problems:
            yield rows(ROUTES, registry, problems)

    def _tables(self, store: RouteStore, some: Sequence[tuple[str, int]]) -> Iterator[Tables]:
        """Yield the tables of some brokers, those of small ones together, a large one in parts."""
        if len(some) > 1 or some[0][1] <= _AT_ONCE:
            names = [name for name, _ in some]
            yield [*zip(names, store.run(tables(store.keys, names), stale=self.stale), strict=True)]
            return
        name, cursor = some[0][0], 0
        seen: set[bytes] = set()
        while True:
            try:
                cursor, page = store.run(table_page(store.keys, name, cursor, _PAGE), stale=self.stale)
            except CorruptData as error:
                yield [(name, error)]
                return
            yield [(name, {topic: page[topic] for topic in page.keys() - seen})]
            seen |= page.keys()
            if cursor == 0:
                return

    def _replicas(
        self, store: RouteStore, registry: str, some: Sequence[tuple[str, int]]
    ) -> Iterator[pa.RecordBatch]:
        sizes = dict(some)
        listing = store.run(replicas(store.keys, list(sizes)), stale=self.stale)
        found = [
            replica_row(store.keys.broker(replica.broker_name), replica, sizes[replica.broker_name])
            for replica in listing.found
        ]
        found += [{"problem": str(error)} for error in listing.corrupt]
        if found:
            yield rows(REPLICAS, registry, found)


def share_out(brokers: Iterable[tuple[str, int]], parts: int) -> list[tuple[tuple[str, int], ...]]:
    """Return at most so many shares, in which the sizes of tables add up to about the same.

    A broker stands in exactly one of them; none is empty but the only one.
    """
    heap: list[tuple[int, int]] = [(0, number) for number in range(parts)]
    shares: list[list[tuple[str, int]]] = [[] for _ in range(parts)]
    for name, size in sorted(brokers, key=lambda item: (-item[1], item[0])):
        weight, number = heapq.heappop(heap)
        shares[number].append((name, size))
        heapq.heappush(heap, (weight + size + 1, number))  # also an empty table has to be asked for
    return [tuple(share) for share in shares if share] or [()]


def _in_goes(brokers: Sequence[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    """Cut into what is read in one go each: some small tables, or a large one."""
    some: list[tuple[str, int]] = []
    entries = 0
    for name, size in brokers:
        if some and (entries + size > _AT_ONCE or len(some) == _BROKERS_AT_ONCE):
            yield some
            some, entries = [], 0
        some.append((name, size))
        entries += size
    if some:
        yield some


def _refuse_problems(batch: pa.RecordBatch) -> None:
    for problem in batch.column("problem").drop_null().to_pylist():
        raise PipelineError(f"{problem}; with onProblem=mark it is a row, and the rest is read")
