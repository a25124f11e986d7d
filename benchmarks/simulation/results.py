"""Makes the tables of a simulation from what its tasks have added up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sharedroutes.pipeline.tables import Table

from .config import KINDS, FleetConfig
from .faults import Faults
from .outcome import ALL, HISTOGRAM, MEASURES, QUANTILES, SIMULATED_FAULTS, TOTALS
from .sketch import EDGES, Sketch, quantile
from .tally import PAIR_MEASURES, Tally

__all__ = ["faults_table", "histogram_table", "quantiles_table", "totals_table"]

_US: Final = 1e6
_AVOID: Final = MEASURES[0]
_OF_CLIENTS: Final = MEASURES[-1]
_SHARES: Final = (0.50, 0.90, 0.95, 0.99)
_TYPES: Final = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}


def totals_table(config: FleetConfig, faults: Faults, tally: Tally) -> pa.Table:
    """Return TOTALS."""
    client_hours = config.clients * config.hours
    rows = []
    for number, system in enumerate(config.systems):
        for kind, chosen in _kinds():
            of_kind = np.isin(faults.kind, chosen)
            misdirected = int(tally.misdirected[number][of_kind].sum())
            rows.append(
                (
                    system.name,
                    kind,
                    int(of_kind.sum()),
                    int(tally.met[of_kind].sum()),
                    int(tally.avoided[number][of_kind].sum()),
                    int(tally.never[number][of_kind].sum()),
                    misdirected,
                    misdirected / client_hours,
                    client_hours,
                )
            )
    return _table(TOTALS, rows)


def quantiles_table(config: FleetConfig, faults: Faults, tally: Tally) -> pa.Table:
    """Return QUANTILES; a measure of which nobody could have met anything has no row."""
    rows = []
    for system, kind, measure, sketch, never in _sketches(config, faults, tally):
        size, unit = sketch.size(0), _unit(measure)
        if not size + never:
            continue
        largest = int(sketch.largest[0])
        found = [quantile(sketch.counts[0], largest, share, never) for share in _SHARES]
        mean = sketch.total(0) / size / unit if size else None
        shown = [None if value is None else value / unit for value in (*found, largest if size else None)]
        rows.append((system, kind, measure, size, never, mean, *shown))
    return _table(QUANTILES, rows)


def histogram_table(config: FleetConfig, faults: Faults, tally: Tally) -> pa.Table:
    """Return HISTOGRAM."""
    rows: list[tuple[Any, ...]] = []
    for system, kind, measure, sketch, never in _sketches(config, faults, tally):
        counts, unit = sketch.counts[0], _unit(measure)
        for place in np.flatnonzero(counts):
            low = 0 if place == 0 else int(EDGES[place - 1])
            rows.append((system, kind, measure, low / unit, int(EDGES[place]) / unit, int(counts[place])))
        if never:
            rows.append((system, kind, measure, None, None, never))
    return _table(HISTOGRAM, rows)


def faults_table(config: FleetConfig, faults: Faults, tally: Tally) -> pa.Table:
    """Return SIMULATED_FAULTS."""
    nobody = tally.met == 0
    kinds = np.array(KINDS, dtype=object)[faults.kind]
    parts = []
    for number, system in enumerate(config.systems):
        mean_s = tally.exposed_us[number] / np.maximum(1, tally.met) / _US
        columns = [
            np.full(len(faults), system.name, dtype=object),
            np.arange(len(faults)),
            faults.broker,
            kinds,
            faults.began_s,
            faults.lasted_s,
            tally.met,
            tally.avoided[number],
            tally.never[number],
            tally.misdirected[number],
            pa.array(mean_s, mask=nobody),
            pa.array(tally.longest_us[number] / _US, mask=nobody),
        ]
        parts.append(
            pa.Table.from_arrays([pa.array(one) for one in columns], schema=_schema(SIMULATED_FAULTS))
        )
    return pa.concat_tables(parts)


def _kinds() -> Iterator[tuple[str, list[int]]]:
    """Yield each kind of fault, and all together, with their indexes in KINDS."""
    for number, kind in enumerate(KINDS):
        yield kind, [number]
    yield ALL, list(range(len(KINDS)))


def _sketches(
    config: FleetConfig, faults: Faults, tally: Tally
) -> Iterator[tuple[str, str, str, Sketch, int]]:
    """Yield system, kind, measure, their distribution, and in how many pairs it never came to a value."""
    for number, system in enumerate(config.systems):
        for kind, chosen in _kinds():
            never = int(tally.never[number][np.isin(faults.kind, chosen)].sum())
            for place, measure in enumerate(PAIR_MEASURES):
                rows = np.array([tally.row(number, one, place) for one in chosen])
                left_out = never if measure == _AVOID else 0
                yield system.name, kind, measure, tally.pairs.combined(rows), left_out
        yield system.name, ALL, _OF_CLIENTS, tally.clients.combined(np.array([number])), 0


def _unit(measure: str) -> float:
    return _US if measure.endswith("_s") else 1.0


def _schema(table: Table) -> pa.Schema:
    return pa.schema([(column.name, _TYPES[column.type]) for column in table.columns])


def _table(table: Table, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [() for _ in table.columns]
    schema = _schema(table)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
