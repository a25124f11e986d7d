"""The page holds all it needs, says times and numbers as people read them, and escapes what others wrote."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from sharedroutes.pipeline.report.catalogue import ANSWERS, PARTS
from sharedroutes.pipeline.report.charts import Bar, Chart, Lane, Tick
from sharedroutes.pipeline.report.page import Grid, Overview, Page, Section, Tile, render, warnings
from sharedroutes.pipeline.report.words import Cell, cell
from sharedroutes.pipeline.tables import Column


def page(**parts: Any) -> Page:
    return Page(**{"title": "t", "period": "p", "tiles": [], "sections": []} | parts)


def grid(rows: list[list[Cell]], total: int = 0) -> Grid:
    return Grid(
        "things", "Things", "a thing", [("name", "what it is called", False)], rows, total or len(rows)
    )


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        (Column("begin_ms", "bigint", ""), 1_795_295_000_123, "2026-11-21 21:03:20"),
        (Column("hour", "timestamp", ""), datetime(2026, 11, 21, 21, tzinfo=UTC), "2026-11-21 21:00:00"),
        (Column("lost_ms", "bigint", ""), 12, "12 ms"),
        (Column("lost_ms", "bigint", ""), 0, "0 s"),
        (Column("lost_ms", "bigint", ""), 9_940, "9.94 s"),
        (Column("lost_ms", "bigint", ""), 59_999, "1 min"),
        (Column("lost_ms", "bigint", ""), 200_000, "3 min 20 s"),
        (Column("mtbf_s", "double", ""), 7_500.0, "2 h 5 min"),
        (Column("lost_min", "double", ""), 2 / 60, "2 s"),
        (Column("left_min", "double", ""), -90.0, "-1 h 30 min"),
        (Column("held_ms", "bigint", ""), 400 * 86_400_000, "400 d"),
        (Column("p50_ms", "double", ""), 0.4212, "0.421 ms"),
        (Column("availability", "double", ""), 1.0, "100 %"),
        (Column("availability", "double", ""), 0.99998, "99.998 %"),
        (Column("availability", "double", ""), 0.999999999, "99.999999 %"),
        (Column("availability", "double", ""), 0.5, "50 %"),
        (Column("attempts", "double", ""), 1_234.0, "1,234"),
        (Column("gini", "double", ""), 1 / 30, "0.0333"),
        (Column("moved", "boolean", ""), True, "yes"),
        (Column("moved", "boolean", ""), None, ""),
        (Column("brokers", "array<string>", ""), list("abcdef"), "a, b, c, d and 2 more"),
    ],
)
def test_a_value_is_shown_as_people_read_it(column: Column, value: Any, text: str) -> None:
    assert cell(column, value).text == text


def test_whoever_points_at_a_time_reads_its_ms() -> None:
    assert cell(Column("end_ms", "bigint", ""), 1_795_295_000_123).more == "2026-11-21 21:03:20.123 UTC"
    lost = cell(Column("lost_min", "double", ""), 12.031466666666667)
    assert (lost.text, lost.more) == ("12 min 2 s", "721,888 ms")
    assert cell(Column("p50_ms", "double", ""), 0.2725).more == "0.273 ms"


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=lambda answer: answer.name)
def test_an_answer_shows_and_orders_by_columns_that_it_has(answer: Any) -> None:
    assert {*answer.shown, *(name.removeprefix("-") for name in answer.order)} <= {*answer.table.names}
    assert [column.name for column in answer.columns(several=False)] == [*answer.shown]
    assert all("_" not in column.words for column in answer.table.columns)


def test_no_two_answers_have_one_name_and_no_two_parts_one_anchor() -> None:
    answers = [answer.name for part in PARTS for answer in part.answers]
    assert len({*answers}) == len(answers)
    assert len({part.anchor for part in PARTS}) == len(PARTS)


def test_what_others_wrote_is_escaped() -> None:
    bad = "<script>alert(1)</script>"
    chart = Chart(caption=bad, lanes=[Lane(bad, [Bar(0, 1, "alive", f'"{bad}')])], legend={"alive": bad})
    tile = Tile(bad, bad, bad, "bad", "s")
    html = render(
        page(title=bad, tiles=[tile], sections=[Section("s", "S", bad, chart, [grid([[Cell(bad)]])])])
    )
    assert "<script>" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 11
    assert 'data-tip="&#34;&lt;script' in html


def test_a_page_asks_nobody_for_anything() -> None:
    chart = Chart(caption="c", columns=[Bar(0, 1, "count", "t")], top="1", ticks=[Tick(0, "00:00")])
    html = render(page(tiles=[Tile("n", "v", "m", "good", "s")], sections=[Section("s", "S", "text", chart)]))
    assert re.findall(r'(?:src|href)="([^"]*)"', html) == ["#s", "#s"]
    assert "url(" not in html
    assert "@import" not in html
    assert "<script" not in html


def test_a_long_table_says_how_much_of_it_is_shown_and_an_empty_one_that_it_is() -> None:
    html = render(page(sections=[Section("s", "S", "x", None, [grid([[Cell("a")]], 1_000), grid([])])]))
    assert "1 of 1,000 rows; all are in <code>tables/things</code>" in html
    assert html.count("<table") == 1
    assert '<p class="cut">None.</p>' in html


def test_charts_end_where_nothing_has_changed_for_as_long_as_all_before_took() -> None:
    hour_ms = 3_600_000
    for end_ms, newest_ms, drawn_ms in (
        (3 * hour_ms, 2 * hour_ms, 3 * hour_ms),
        (99 * hour_ms, 2 * hour_ms, 4 * hour_ms),
        (99 * hour_ms, 1, hour_ms + 1),
    ):
        span = Overview(begin_ms=0, end_ms=end_ms, newest_ms=newest_ms, registries=("r",)).span
        assert (span.begin_ms, span.end_ms) == (0, drawn_ms)


def test_what_makes_answers_doubtful_is_told_first() -> None:
    overview = Overview(
        begin_ms=0,
        end_ms=1_795_295_100_456,
        newest_ms=1_795_295_000_123,
        out=2,
        registries=("r",),
        gaps=(("r", 1_795_295_000_123, "trimmed"),),
        quarantined=3,
        corrupt_samples=1,
    )
    assert warnings(overview)[2:] == [
        "r: changes were lost after 2026-11-21 21:03:20.123 (trimmed): what happened then is not known",
        "3 records could not be read; see the quarantine",
        "1 line, row or file is no sample, and left out",
    ]
    out, quiet = warnings(overview)[:2]
    assert out == "2 topics still out at the end, and counted as out up to then"
    assert quiet.startswith("nothing has changed since 2026-11-21 21:03:20.123, 1 min 40 s before the end: ")


def test_a_long_time_without_a_change_is_told() -> None:
    idle = Overview(begin_ms=0, end_ms=86_400_001, newest_ms=1, registries=())
    (quiet,) = warnings(idle)
    assert quiet.startswith("nothing has changed since 1970-01-01 00:00:00.001, 1 d before the end: ")
    assert warnings(idle._replace(end_ms=86_400_000)) == []
