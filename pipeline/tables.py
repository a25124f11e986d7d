"""What a table is: columns with their types and meanings, from which schema and documentation are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..registry.history import Column

__all__ = ["Column", "Table"]

# StructType.fromDDL does the same, but asks a running session.
_TYPES: Final[dict[str, DataType]] = {
    "string": StringType(),
    "bigint": LongType(),
    "int": IntegerType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "array<string>": ArrayType(StringType()),
    "array<bigint>": ArrayType(LongType()),
    "map<string,string>": MapType(StringType(), StringType()),
}


@dataclass(frozen=True, slots=True)
class Table:
    """A named schema; `meaning` says what one row is."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """The schema in Spark's DDL."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def schema(self) -> StructType:
        """The schema as Spark's type; needs no session."""
        return StructType([StructField(column.name, _TYPES[column.type]) for column in self.columns])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)
