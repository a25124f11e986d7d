"""What a DataFrame must be like to be loaded: every row is checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from ...registry import InvalidInput, TopicConfig
from ...registry.checks import check_broker_name, check_name
from ...registry.codec import encode_config
from ...registry.model import TOPIC_FIELDS
from ..errors import BadRows
from ..schemas import TOPIC_CONFIGS
from .routes_rows import check_names

DEFAULTS: Final[Mapping[str, Any]] = {
    "read_queue_nums": 4,
    "write_queue_nums": 4,
    "perm": 6,
    "topic_sys_flag": 0,
    "order": False,
    "topic_filter_type": "SINGLE_TAG",
}
"""What null stands for, and a column that is not there; attributes: none."""

CHECKED: Final = pa.schema(
    [("broker", pa.string()), ("cluster", pa.string()), ("topic", pa.string()), ("config", pa.binary())]
)
"""A checked row: `config` is the encoded configuration, `cluster` is empty for one that is not given."""

MAX_PROBLEMS: Final = 10
"""So many are told with their rows, the others are counted."""

_NEEDED: Final = ("broker", "topic")
_TEXT: Final = ("string", "void")
_TYPES: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "string": (_TEXT, "a string"),
    "int": (("tinyint", "smallint", "int", "bigint", *_TEXT), "a whole number"),  # CSV has only strings
    "boolean": (("boolean", *_TEXT), "a boolean"),
    "map<string,string>": (("map<string,string>", *_TEXT), "a map of strings, or a JSON object in a string"),
}
"""By the type of a column: which ones of Spark's are taken for it, and their name in words."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_BOOLEANS: Final = ("true", "false")


def check_columns(schema: StructType) -> None:
    """Raise BadRows unless a DataFrame with this schema can be loaded."""
    known = {column.name: column.type for column in TOPIC_CONFIGS.columns}
    names = [field.name.lower() for field in schema.fields]
    unknown = sorted(set(names) - known.keys())
    if unknown:
        raise BadRows(
            f"column {unknown[0]!r} is none of a topic's configuration: select only {', '.join(known)}"
        )
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise BadRows(f"column {missing[0]!r} is missing: there is no default for it")
    for name, field in zip(names, schema.fields, strict=True):
        if names.count(name) > 1:
            raise BadRows(f"column {name!r} stands twice")
        kinds, what = _TYPES[known[name]]
        if field.dataType.simpleString() not in kinds:
            raise BadRows(f"column {name!r} is {field.dataType.simpleString()}, not {what}: cast it")


@dataclass(frozen=True)
class Checked(WriterCommitMessage):
    """What the check of some rows found."""

    rows: pa.Table
    """Those that can be loaded, as CHECKED."""

    problems: Sequence[str] = ()
    """What is wrong with the others, the first few, each with its row."""

    bad_rows: int = 0

    @classmethod
    def of_all(cls, found: Iterable[Checked]) -> Self:
        """Return what several checks found, as one."""
        parts = [*found]
        rows = pa.concat_tables([CHECKED.empty_table(), *(part.rows for part in parts)])
        problems = [problem for part in parts for problem in part.problems]
        return cls(rows, problems[:MAX_PROBLEMS], sum(part.bad_rows for part in parts))


def check_batch(batch: pa.RecordBatch) -> Checked:
    """Check rows whose columns are in order."""
    columns = {name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)}
    columns = {name: column for name, column in columns.items() if not pa.types.is_null(column.type)}
    nothing = pa.nulls(len(batch), pa.string())
    names = {name: columns.get(name, nothing).cast(pa.string()) for name in ("broker", "cluster", "topic")}
    names["cluster"] = names["cluster"].fill_null("")
    problems: dict[int, str] = {}
    for at, problem in (
        *(
            (at, f"{name}: must not be null")
            for name in _NEEDED
            for at in pc.indices_nonzero(names[name].is_null()).to_pylist()
        ),
        *_bad_values("broker", names["broker"], check_broker_name),
        *check_names("topic", names["topic"]),
        *_bad_values("cluster", names["cluster"], _check_cluster),
    ):
        problems.setdefault(at, problem)
    rows = pa.Table.from_pydict({**names, "config": _configs(columns, len(batch), problems)}, CHECKED)
    if not problems:
        return Checked(rows)
    told = [f"row {_shown(batch, at)}: {problems[at]}" for at in sorted(problems)[:MAX_PROBLEMS]]
    good = pa.array([at for at in range(len(batch)) if at not in problems], pa.int64())
    return Checked(rows.take(good), told, len(problems))


def _is_text(column: pa.Array) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _check_cluster(name: str) -> None:
    if name:
        check_name("cluster", name)


def _bad_values(what: str, column: pa.Array, check: Any) -> Iterator[tuple[int, str]]:
    """Yield the places of what a check refuses; each value, of which there are few, is checked once."""
    for value in column.unique().to_pylist():
        try:
            check(value)
        except InvalidInput as error:
            problem = f"{what}: {str(error).partition(': ')[2]}"  # not RocketMQ's name of it
            for at in pc.indices_nonzero(pc.is_in(column, pa.array([value], column.type))).to_pylist():
                yield at, problem


def _configs(columns: Mapping[str, pa.Array], count: int, problems: dict[int, str]) -> pa.Array:
    """Return the encoded configurations; note those that are none. Each that occurs is made once."""
    parts: dict[str, pa.Array] = {"attributes": _attribute_texts(columns.get("attributes"), count)}
    for name, default in DEFAULTS.items():
        column = columns.get(name, pa.repeat(pa.scalar(default), count))
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        parts[name] = column.fill_null(pa.scalar(shown if _is_text(column) else default, column.type))
    rows = pa.table({**parts, "at": pa.array(range(count), pa.int64())})
    alike = rows.group_by([*parts]).aggregate([("at", "list")])
    places = alike["at_list"].combine_chunks()
    made: list[bytes | None] = []
    for values, those in zip(alike.select([*parts]).to_pylist(), places, strict=True):
        try:
            made.append(_encoded(values))
        except InvalidInput as error:
            made.append(None)
            for at in those.as_py():
                problems.setdefault(at, _by_column(str(error)))
    by_place = pc.sort_indices(places.flatten())
    return pa.array(made, pa.binary()).take(pc.list_parent_indices(places).take(by_place))


def _attribute_texts(column: pa.Array | None, count: int) -> pa.Array:
    """Return attributes as JSON: what a string says, or a map's; "" = none."""
    if column is not None and _is_text(column):
        return column.cast(pa.string()).fill_null("")
    if column is None or not len(column.keys):
        return pa.repeat(pa.scalar(""), count)
    found = [
        orjson.dumps(dict(value), option=orjson.OPT_SORT_KEYS).decode() if value else ""
        for value in column.to_pylist()
    ]
    return pa.array(found, pa.string())


def _encoded(values: Mapping[str, Any]) -> bytes:
    fields = {name: _parsed(name, value) for name, value in values.items()}
    text = fields.pop("attributes").strip()
    try:
        attributes = orjson.loads(text) if text else {}
    except ValueError:
        raise InvalidInput(f"attributes: {text[:80]!r} is no JSON object of strings") from None
    return encode_config(TopicConfig("any", **fields, attributes=attributes))


def _parsed(name: str, value: Any) -> Any:
    """Return a number or a boolean that is written as text; raise InvalidInput."""
    default = DEFAULTS.get(name)
    if not isinstance(value, str) or isinstance(default, str | None):
        return value
    text = value.strip().lower()
    if not text:
        return default
    if isinstance(default, bool):
        if text not in _BOOLEANS:
            raise InvalidInput(f"{name}: {value[:80]!r} is neither true nor false")
        return text == "true"
    if not _NUMBER.fullmatch(text):
        raise InvalidInput(f"{name}: {value[:80]!r} is no whole number")
    return int(text)


def _by_column(problem: str) -> str:
    """Return the words of a problem with the name of the column in place of RocketMQ's."""
    what, colon, rest = problem.partition(":")
    return f"{TOPIC_FIELDS.get(what, what)}{colon}{rest}".replace(" of topic 'any'", "")


def _shown(batch: pa.RecordBatch, at: int) -> str:
    """Return a row as JSON, but for what is null."""
    row = batch.slice(at, 1).to_pylist()[0]
    found = {name: value for name, value in row.items() if value is not None}
    return orjson.dumps(found, default=str, option=orjson.OPT_NON_STR_KEYS).decode(errors="replace")[:300]
