"""Rows are checked before anything is written: what is wrong is told with its row and column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from sharedroutes.pipeline.errors import BadRows
from sharedroutes.pipeline.schemas import TOPIC_CONFIGS
from sharedroutes.pipeline.sources.routes_checks import DEFAULTS, check_batch, check_columns
from sharedroutes.registry import InvalidInput, TopicConfig
from sharedroutes.registry.codec import encode_config

SCHEMA = TOPIC_CONFIGS.arrow


def batch(*rows: dict[str, Any], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def only_problem(**row: Any) -> str:
    checked = check_batch(batch(row))
    assert len(checked.rows) == 0
    assert checked.bad_rows == 1
    (problem,) = checked.problems
    return problem


def test_what_is_not_given_takes_its_default() -> None:
    (row,) = check_batch(batch({"broker": "b", "topic": "t"})).rows.to_pylist()
    assert row == {"broker": "b", "cluster": "", "topic": "t", "config": b"4 4 6 0"}
    bare = pa.schema([("Topic", pa.string()), ("broker", pa.large_string())])
    (same,) = check_batch(batch({"broker": "b", "Topic": "t"}, schema=bare)).rows.to_pylist()
    assert same == row


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"broker": None, "topic": "t"}, "broker: must not be null"),
        ({"broker": "b", "topic": None}, "topic: must not be null"),
        ({"broker": "a:b", "topic": "t"}, "broker: 'a:b' must not hold a colon"),
        ({"broker": "", "topic": "t"}, "broker: '' must not be empty"),
        ({"broker": "b", "topic": "a\tb"}, "topic: 'a\\tb' must not be empty nor hold white space"),
        ({"broker": "b", "topic": "a\u3000b"}, r"topic: 'a\u3000b' must not be empty nor hold white space"),
        ({"broker": "b", "topic": "x" * 256}, "has 256 bytes, the limit is 255"),
        ({"broker": "b", "topic": "t", "cluster": "a b"}, "cluster: 'a b' must not be empty"),
        ({"broker": "b", "topic": "t", "perm": 8}, "perm: 8 is not within 0..7"),
        ({"broker": "b", "topic": "t", "read_queue_nums": -1}, "read_queue_nums: -1 is not within"),
        ({"broker": "b", "topic": "t", "topic_filter_type": "ALL"}, "topic_filter_type: 'ALL' is neither"),
        (
            {"broker": "b", "topic": "t", "attributes": [("a", "x" * 70_000)]},
            "attributes: 70001 bytes, the limit",
        ),
    ],
)
def test_a_row_that_makes_no_sense_is_told_with_its_column(row: dict[str, Any], problem: str) -> None:
    told = only_problem(**row)
    assert told.startswith("row {")
    assert problem in told


def test_the_good_rows_beside_a_bad_one_are_kept() -> None:
    rows = [{"broker": "b", "topic": f"t{number}", "perm": number} for number in range(10)]
    checked = check_batch(batch(*rows))
    assert [row["topic"] for row in checked.rows.to_pylist()] == [f"t{number}" for number in range(8)]
    assert checked.bad_rows == 2


def test_numbers_and_booleans_may_be_text() -> None:
    schema = pa.schema([(name, pa.string()) for name in TOPIC_CONFIGS.names])
    row = {"broker": "b", "topic": "t", "perm": " 4 ", "order": "TRUE", "attributes": '{"a": "b"}'}
    (good,) = check_batch(batch(row, schema=schema)).rows.to_pylist()
    assert good["config"] == b'4 4 4 0 {"attributes":{"a":"b"},"order":true}'
    wrong = [
        {"perm": "4.0"},
        {"order": "yes"},
        {"attributes": "[1]"},
        {"attributes": '{"a":1}'},
        {"perm": "\u0664"},
    ]
    for part in wrong:
        assert check_batch(batch({**row, **part}, schema=schema)).bad_rows == 1


def test_columns_that_cannot_be_loaded_are_named() -> None:
    topic, broker = StructField("topic", StringType()), StructField("broker", StringType())
    check_columns(StructType([StructField("TOPIC", StringType()), broker, StructField("perm", LongType())]))
    with pytest.raises(BadRows, match="column 'broker' is missing"):
        check_columns(StructType([topic]))
    with pytest.raises(BadRows, match=r"column 'color' is none of .*select only broker, cluster, topic"):
        check_columns(StructType([topic, broker, StructField("color", StringType())]))
    with pytest.raises(BadRows, match="column 'topic' stands twice"):
        check_columns(StructType([topic, broker, StructField("Topic", StringType())]))
    with pytest.raises(BadRows, match="column 'perm' is double, not a whole number: cast it"):
        check_columns(StructType([topic, broker, StructField("perm", DoubleType())]))
    odd = StructField("attributes", MapType(StringType(), IntegerType()))
    with pytest.raises(BadRows, match="column 'attributes' is map<string,int>, not a map of strings"):
        check_columns(StructType([topic, broker, odd]))


NUMBERS = st.none() | st.integers(-2, 9) | st.integers(-(2**31), 2**31 - 1)
ROWS = st.fixed_dictionaries(
    {
        "broker": st.none() | st.text(max_size=4),
        "topic": st.none() | st.text(max_size=4),
        "read_queue_nums": NUMBERS,
        "perm": NUMBERS,
        "topic_sys_flag": NUMBERS,
        "order": st.none() | st.booleans(),
        "topic_filter_type": st.none() | st.sampled_from(["SINGLE_TAG", "MULTI_TAG", "x"]),
        "attributes": st.none() | st.lists(st.tuples(st.text(max_size=2), st.text(max_size=2)), max_size=2),
    }
)


@given(st.lists(ROWS, max_size=12))
def test_what_passes_is_what_the_model_takes(rows: list[dict[str, Any]]) -> None:
    expected = []
    for row in rows:
        given_ = {name: value for name, value in row.items() if value is not None and name in DEFAULTS}
        attributes = dict(row["attributes"] or [])
        try:
            name, broker = row["topic"], row["broker"]
            config = TopicConfig(name, **{**DEFAULTS, **given_}, attributes=attributes)
            TopicConfig(broker)  # a broker's name is one of a topic without a colon
            if ":" not in broker:
                expected.append((broker, name, encode_config(config)))
        except InvalidInput:
            continue
    checked = check_batch(batch(*rows))
    assert [(row["broker"], row["topic"], row["config"]) for row in checked.rows.to_pylist()] == expected
    assert checked.bad_rows == len(rows) - len(expected)
