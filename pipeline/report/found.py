"""An answer as the page needs it: its first rows, and what all of them come to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Found"]

_SHOWN: Final = 5_000
"""Rows for the first lines of tables."""


class Found:
    """What an answer found, which can be millions of rows."""

    def __init__(self, content: pa.Table) -> None:
        self._content = content

    @property
    def total(self) -> int:
        """How many rows there are."""
        return int(self._content.num_rows)

    @cached_property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The first 5,000 rows."""
        return _rows(self._content.slice(0, _SHOWN))

    def values(self, column: str) -> list[Any]:
        """Return a column of all rows."""
        values: list[Any] = self._content.column(column).to_pylist()
        return values

    def sum(self, column: str) -> int:
        """Return the sum of a column of numbers, of all rows."""
        return pc.sum(self._content.column(column)).as_py() or 0

    def most(self, column: str, count: int) -> Sequence[Mapping[str, Any]]:
        """Return the rows in which a column is largest, the largest first."""
        return _rows(self._content.sort_by([(column, "descending")]).slice(0, count))

    def of(self, columns: Sequence[str], keys: Collection[Sequence[Any]]) -> Sequence[Mapping[str, Any]]:
        """Return the rows in which these columns are one of some keys, in their order."""
        wanted = pa.schema([self._content.schema.field(name) for name in columns])
        chosen = pa.Table.from_pylist([dict(zip(columns, key, strict=True)) for key in keys], schema=wanted)
        joined = self._content.join(chosen, list(columns), join_type="left semi")
        return _rows(joined.sort_by([(name, "ascending") for name in columns]))


def _rows(content: pa.Table) -> Sequence[Mapping[str, Any]]:
    rows: list[dict[str, Any]] = content.to_pylist()
    return rows
