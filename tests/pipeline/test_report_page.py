"""The page holds all it needs, says times and numbers as people read them, and escapes what others wrote."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from sharedroutes.pipeline.report.facts import Overview, warnings
from sharedroutes.pipeline.report.page import Fact, Page, Plot, Section, cell, grid, render
from sharedroutes.pipeline.report.writing import write_table
from sharedroutes.pipeline.tables import Column, Table

TABLE = Table(
    "things",
    "a thing",
    (
        Column("name", "string", "what it is called"),
        Column("begin_ms", "bigint", "when it began"),
        Column("lost_ms", "bigint", "how long it lasted"),
    ),
)


def page(**parts: Any) -> Page:
    return Page(**{"title": "t", "period": "p", "facts": [], "sections": []} | parts)


@pytest.mark.parametrize(
    ("name", "kind", "value", "text", "is_number"),
    [
        ("begin_ms", "bigint", 1_795_295_000_123, "2026-11-21 21:03:20.123", False),
        ("lost_ms", "bigint", 1_234_567, "1,234,567", True),
        ("told_after_ms", "bigint", 12, "12", True),
        ("share", "double", 0.99998, "0.99998", True),
        ("lost_min", "double", 2 / 60, "0.0333", True),
        ("mtbf_s", "double", 1234.5, "1,234.50", True),
        ("hour", "timestamp", datetime(2026, 11, 21, 21, tzinfo=UTC), "2026-11-21 21:00:00", False),
        ("moved", "boolean", True, "yes", False),
        ("moved", "boolean", None, "", False),
        ("brokers", "array<string>", ["a", "b"], "a, b", False),
        ("brokers", "array<string>", list("abcdefg"), "a, b, c, d, e and 2 more", False),
    ],
)
def test_a_value_is_shown_as_people_read_it(
    name: str,
    kind: str,
    value: Any,
    text: str,
    is_number: bool,  # noqa: FBT001
) -> None:
    assert cell(Column(name, kind, ""), value) == (text, is_number)


def test_what_others_wrote_is_escaped() -> None:
    rows = [["<script>alert(1)</script>", 1, 2]]
    html = render(page(sections=[Section("s", "S", "text", grids=[grid(TABLE, rows)])]))
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_a_page_asks_nobody_for_anything() -> None:
    plot = Plot("data:image/svg+xml;base64,AAAA", "a picture")
    html = render(page(facts=[Fact("n", "v")], sections=[Section("s", "S", "text", plots=[plot])]))
    links = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert links == ["#s", plot.url]
    assert "url(" not in html
    assert "@import" not in html


def test_a_long_table_says_how_much_of_it_is_shown() -> None:
    rows = [[str(number), number, number] for number in range(50)]
    html = render(page(sections=[Section("s", "S", "text", grids=[grid(TABLE, rows, 1_000)])]))
    assert html.count('<td class="number">') == 20
    assert "20 of 1000 rows; all are in the file." in html


def test_an_empty_table_says_so() -> None:
    html = render(page(sections=[Section("s", "S", "x", grids=[grid(TABLE, [])])]))
    assert '<td colspan="3">nothing</td>' in html


def test_what_makes_answers_doubtful_is_told_first() -> None:
    overview = Overview(
        begin_ms=0,
        end_ms=1,
        registries=("r",),
        gaps=(("r", 1_795_295_000_123, "trimmed"),),
        quarantined=3,
        corrupt_samples=2,
    )
    assert warnings(overview) == [
        "r: changes were lost after 2026-11-21 21:03:20.123 (trimmed): what happened then is not known",
        "3 records could not be read; they are in the quarantine",
        "2 lines, rows or files are no samples and were left out",
    ]


def test_a_table_is_written_as_parquet_and_as_csv_with_lists_as_json(tmp_path: Path) -> None:
    table = pa.table({"name": ["a", "b"], "brokers": [["x", 'y"'], None], "n": [1, 2]})
    write_table(table, tmp_path / "tables", "things")
    assert pq.read_table(tmp_path / "tables" / "things.parquet").equals(table)
    found = pa_csv.read_csv(tmp_path / "tables" / "things.csv").to_pydict()
    assert found == {"name": ["a", "b"], "brokers": ['["x","y\\""]', ""], "n": [1, 2]}
