"""A line that cannot be read is named with its file; nothing of Spark's stack is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sharedroutes.pipeline.errors import BadRows
from sharedroutes.pipeline.load import Source, Target, load, read_configs

GOOD = b'{"broker":"a","topic":"x"}\n'
NOBODY = Target(url="redis://127.0.0.1:1/0")
"""Nothing is written: nobody is asked."""


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("t.json", GOOD + b'\n{"broker":"a","topic":"y"\n' + GOOD, "line 3: is no JSON: "),
        ("t.jsonl", GOOD * 3 + b"nonsense\n", "line 4: is no JSON: "),
        ("t.json", GOOD + b'{"broker":"a","topic":"\xff"}\n', "line 2: is no UTF-8: "),
        ("t.csv", b"broker,topic,perm\na,x,6\na,y\n", "line 3: has 2 columns, and the header 3: a,y"),
        ("t.csv", b'broker,topic,perm\na,x,6\na,"y\na,z,6\n', 'line 3: unexpected end of data: a,"y'),
    ],
)
def test_the_line_is_named(
    spark: SparkSession, tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    path = tmp_path / "more than one" / name
    path.parent.mkdir()
    path.write_bytes(content)
    (path.parent / f"good.{path.suffix}").write_bytes(content[: content.index(b"\n") + 1])
    with pytest.raises(BadRows) as caught:
        load(spark, read_configs(spark, Source(path=str(path))), NOBODY)
    assert str(caught.value).startswith(f"{path}, {problem}")
    assert "\n" not in str(caught.value)
