"""What is a sample, and what is set aside."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.pipeline.schemas import SAMPLES
from sharedroutes.pipeline.sources.sample_rows import (
    ARROW,
    MAY_BE_MISSING,
    Corrupt,
    of_lines,
    of_registry,
    of_table,
)

GOOD: Final[dict[str, Any]] = {
    "registry": "eu",
    "client": "c",
    "at_ms": 1_700_000_000_000,
    "error_ms": 0.5,
    "topic": "t",
    "broker": "a",
    "latency_ms": 2.5,
    "outcome": "ok",
    "isolated": False,
    "attempt": 1,
    "position": "1-0",
    "share": 0.01,
}


def line(**changes: object) -> bytes:
    return orjson.dumps(GOOD | changes, option=orjson.OPT_APPEND_NEWLINE)


def _read(data: bytes, place: int = 0) -> tuple[list[dict[str, Any]], list[Corrupt]]:
    return _split(of_lines(data, place))


def _split(found: Iterable[pa.Table | Corrupt]) -> tuple[list[dict[str, Any]], list[Corrupt]]:
    rows: list[dict[str, Any]] = []
    corrupt: list[Corrupt] = []
    for each in found:
        if isinstance(each, Corrupt):
            corrupt.append(each)
        else:
            rows += each.to_pylist()
    return rows, corrupt


def test_arrows_schema_is_that_of_the_samples() -> None:
    spark = {"string": "string", "bigint": "int64", "int": "int32", "double": "double", "boolean": "bool"}
    assert [(field.name, str(field.type)) for field in ARROW] == [
        (column.name, spark[column.type]) for column in SAMPLES.columns
    ]


def test_lines_become_rows_in_order() -> None:
    rows, corrupt = _read(line() + b"\n" + line(topic="ü", error_ms=None, latency_ms=3))
    assert rows == [GOOD, GOOD | {"topic": "ü", "error_ms": None, "latency_ms": 3.0}]
    assert corrupt == []


def test_what_has_a_default_may_be_missing_and_what_is_more_is_left_out() -> None:
    less = {name: value for name, value in GOOD.items() if name not in MAY_BE_MISSING}
    rows, corrupt = _read(json.dumps(less | {"zone": ["z"]}).encode())
    assert rows == [GOOD | {"registry": None, "error_ms": None, "position": ""}]
    assert corrupt == []


def test_samples_that_name_no_registry_get_the_one_that_is_given() -> None:
    (table,) = of_lines(line() + line(registry="") + line(registry=None), 0)
    assert isinstance(table, pa.Table)
    assert table["registry"].to_pylist() == ["eu", None, None]
    assert of_registry(table, "us")["registry"].to_pylist() == ["eu", "us", "us"]
    assert of_registry(table, "us").schema == ARROW


@pytest.mark.parametrize(
    "bad",
    [
        b'{"client":"c","at_ms":17000',
        b"null\n",
        b"[]\n",
        b"5\n",
        b"\x00\n",
        line().strip() + line(),
        line(topic="\xff").decode().encode("latin-1"),
        *(line(**{name: None}) for name in ("client", "at_ms", "topic", "broker", "outcome", "share")),
        *(line(latency_ms=value) for value in (-1.0, "2.5", None)),
        *(line(share=value) for value in (0.0, 1.5)),
        *(line(at_ms=value) for value in (-1, 1.5, 2**63)),
        *(line(attempt=value) for value in (0, 2**31)),
        line(outcome="fine"),
        line(error_ms=-1.0),
        line(isolated=1),
        line(registry=1),
        line(latency_ms=1.0).replace(b"1.0", b"NaN"),
        line(latency_ms=1.0).replace(b"1.0", b"Infinity"),
    ],
)
def test_a_line_that_is_no_sample_is_set_aside_alone(bad: bytes) -> None:
    before, after = line() * 3, b"\n" + line() * 4
    rows, corrupt = _read(before + bad + after, 1_000)
    assert rows == [GOOD] * 7
    (found,) = corrupt
    assert found.place == 1_000 + len(before)
    assert found.record == bad.rstrip(b"\n").decode(errors="replace")
    assert found.problem


def test_the_problem_names_the_columns() -> None:
    _, (found,) = _read(line(share=2.0, outcome="fine"))
    assert found.problem == "no sample has such a value: outcome, share"


def test_rows_of_a_table_are_looked_at_alike() -> None:
    table = pa.Table.from_pylist([GOOD, GOOD | {"share": 2.0}, GOOD | {"isolated": None}], schema=ARROW)
    rows, corrupt = _split(of_table(table, 10))
    assert rows == [GOOD, GOOD]
    assert [(each.place, each.problem) for each in corrupt] == [(11, "no sample has such a value: share")]
    assert json.loads(corrupt[0].record)["share"] == 2.0


@given(st.lists(st.booleans(), max_size=40))
def test_nothing_is_lost_or_doubled(good: list[bool]) -> None:
    lines = [line(attempt=place) if is_good else b'{"torn\n' for place, is_good in enumerate(good, start=1)]
    rows, corrupt = _read(b"".join(lines))
    assert [row["attempt"] for row in rows] == [place for place, one in enumerate(good, start=1) if one]
    assert len(rows) + len(corrupt) == len(good)


_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_LINES: Final = st.one_of(
    st.dictionaries(st.sampled_from([*GOOD, "zone"]), _VALUES, max_size=12).map(
        lambda found: json.dumps(GOOD | found).encode()
    ),
    _VALUES.map(lambda found: json.dumps(found).encode()),
    st.binary(max_size=40).map(lambda found: found.replace(b"\n", b" ")),
)


@given(st.lists(_LINES, max_size=8))
def test_whatever_the_lines_are_each_is_a_sample_or_set_aside_or_blank(lines: list[bytes]) -> None:
    """And what is a sample among them is one on its own, and one that the checks of a table let pass."""
    rows, corrupt = _read(b"\n".join(lines))
    assert len(rows) + len(corrupt) == sum(1 for each in lines if each.strip())
    assert rows == [row for each in lines for row in _read(each)[0]]
    again, refused = _split(of_table(pa.Table.from_pylist(rows, schema=ARROW), 0))
    assert (again, refused) == (rows, [])
