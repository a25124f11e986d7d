"""What a table is: columns with types, meanings, words and units; schema, files, page and docs follow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from textwrap import dedent
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import types as of_spark
from pyspark.sql.pandas.types import to_arrow_schema

_STRING: Final = of_spark.StringType()
# StructType.fromDDL does the same, but asks a running session.
_TYPES: Final[dict[str, of_spark.DataType]] = {
    "string": _STRING,
    "bigint": of_spark.LongType(),
    "int": of_spark.IntegerType(),
    "double": of_spark.DoubleType(),
    "boolean": of_spark.BooleanType(),
    "timestamp": of_spark.TimestampType(),
    "array<string>": of_spark.ArrayType(_STRING),
    "array<bigint>": of_spark.ArrayType(of_spark.LongType()),
    "map<string,string>": of_spark.MapType(_STRING, _STRING),
}


class Unit(StrEnum):
    """What the values of a column count."""

    TIME = "time"
    """Ms since 1970."""

    MS = "ms"
    S = "s"
    MIN = "min"
    SHARE = "share"
    """Of 1."""

    NUMBER = "number"
    TEXT = "text"


_LENGTHS: Final = {"_ms": Unit.MS, "_s": Unit.S, "_min": Unit.MIN}
_NUMBERS: Final = ("bigint", "int", "double")
_AT: Final = ("begin", "end", "from", "to", "until", "since", "created", "gone", "hour", "told", "at")
_TIMES: Final = tuple(
    f"{when}_ms" for when in (*_AT, "fault", "back", "used", "avoided", "elsewhere", "knew")
)
"""Columns in ms that hold times; all others in ms hold lengths, `..._after_ms` among them."""

_SHARES: Final = ("availability", "share", "spent")


class Column(NamedTuple):
    """One column: its name, its type in Spark's DDL, and what it means."""

    name: str
    type: str
    meaning: str
    title: str = ""
    """What people read above it; empty = its name in words, without the unit."""

    formula: str = ""
    """How it follows from others, for Spark; what a division by zero comes to is null."""

    @property
    def unit(self) -> Unit:
        """What its values count, by name and type."""
        if self.type == "timestamp" or (self.type == "bigint" and self.name.endswith(_TIMES)):
            return Unit.TIME
        if self.type not in _NUMBERS:
            return Unit.TEXT
        if self.type == "double" and self.name.endswith(_SHARES):
            return Unit.SHARE
        return next((unit for end, unit in _LENGTHS.items() if self.name.endswith(end)), Unit.NUMBER)

    @property
    def words(self) -> str:
        """What people read above it."""
        ends = next((end for end in _LENGTHS if self.name.endswith(end)), "")
        return self.title or self.name.removesuffix(ends).replace("_", " ")


@dataclass(frozen=True, slots=True)
class Table:
    """A named schema; `meaning` says what one row is."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> of_spark.StructType:
        """The schema as Spark's type; needs no session."""
        fields = [of_spark.StructField(column.name, _TYPES[column.type]) for column in self.columns]
        return of_spark.StructType(fields)

    @property
    def arrow(self) -> pa.Schema:
        """The schema as Arrow's type: what Spark wants of the batches of a source, to the letter."""
        return to_arrow_schema(self.schema, timezone="UTC")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)


_COMMON: Final = {
    "registry": Column("registry", "string", "which registry"),
    "cluster": Column("cluster", "string", "cluster name"),
    "broker": Column("broker", "string", "broker name"),
    "broker_id": Column("broker_id", "bigint", "0 = master", "id"),
    "topic": Column("topic", "string", "topic name"),
    "system": Column("system", "boolean", "whether the topic is RocketMQ's own", "RocketMQ's own"),
}
"""Columns that many tables have."""

_GOES_ON: Final = re.compile(r"\n {2,}")
_COLUMN: Final = re.compile(r"(\w+) (\S+?)(?: \(([^)]+)\))?(?:: (.+)| = ([^;:]+)(.*))")


def table(text: str, before: Iterable[Column] = ()) -> Table:
    """Return the table that a text declares, after the columns that stand `before` its own.

    The first line is `name: what a row is`, all others `name type: meaning` or `name type = formula; more`,
    with a `(title)` after the type where the name says too little; columns that many tables have are named
    alone. A line that is indented belongs to the one above.
    """
    head, *lines = _GOES_ON.sub(" ", dedent(text).strip()).split("\n")
    name, _, meaning = head.partition(": ")
    return Table(name, meaning, (*before, *(column for line in lines for column in _columns(line))))


def _columns(line: str) -> Iterator[Column]:
    if parts := _COLUMN.fullmatch(line):
        name, kind, title, meaning, formula, more = (part or "" for part in parts.groups())
        yield Column(name, kind, meaning or formula + more, title, formula)
    else:
        yield from (_COMMON[name] for name in line.split(", "))
