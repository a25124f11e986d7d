"""Writes a report: every answer as a table, and one page that shows what matters of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..answers.frames import covered
from ..schemas import GAP
from ..tables import Table
from .facts import Overview, facts, warnings
from .gathering import History, answers
from .page import Page, render, time_text
from .sections import sections
from .writing import write_table

__all__ = ["ANSWERS", "Found", "write_report"]

PAGE: Final = "report.html"
TABLES: Final = "tables"
ANSWERS: Final = 24
"""So many steps there are with samples and routes: an answer each, and the page."""

_KEPT_ROWS: Final = 5_000
"""Of each answer, for plots and for the first lines of tables."""

OnAnswer = Callable[[str], object]
"""Is told the name of each answer before it is worked out."""


@dataclass(frozen=True, slots=True)
class Found:
    """The first rows of an answer, and how many there are."""

    table: Table
    rows: Sequence[Mapping[str, Any]] = field(repr=False)
    total: int


def write_report(
    history: History, out: Path, *, title: str = "Route registry", on_answer: OnAnswer = lambda _: None
) -> Path:
    """Write tables and page into a folder; return the path of the page.

    The folder is on this machine, whatever Spark's master is, and each answer has to fit into its memory. The
    page comes last, and takes the place of an older one in one step.
    """
    found: dict[str, Found] = {}
    for table, frame in answers(history):
        on_answer(table.name)
        content = frame.toArrow()
        write_table(content, out / TABLES, table.name)
        found[table.name] = _first(table, content)
    on_answer("page")
    overview = _overview(history)
    page = Page(
        title,
        f"{time_text(overview.begin_ms)} to {time_text(overview.end_ms)} UTC, by the clock of the store",
        facts(overview, found),
        sections(overview, found),
        warnings(overview),
    )
    path = out / PAGE
    partly = out / f".{PAGE}.part"
    partly.write_text(render(page), encoding="utf-8")
    return partly.replace(path)


def _first(table: Table, content: pa.Table) -> Found:
    return Found(table, content.slice(0, _KEPT_ROWS).to_pylist(), content.num_rows)


def _overview(history: History) -> Overview:
    spans = covered(history.changes, history.until_ms).agg(
        F.min("since_ms").alias("begin_ms"),
        F.max("until_ms").alias("end_ms"),
        F.sort_array(F.collect_set("registry")).alias("registries"),
    )
    span = spans.first()
    gaps = history.changes.where(F.col("kind") == GAP).orderBy("registry", "ms", "seq").limit(_KEPT_ROWS)
    return Overview(
        begin_ms=(span and span["begin_ms"]) or 0,
        end_ms=(span and span["end_ms"]) or 0,
        registries=tuple((span and span["registries"]) or ()),
        gaps=tuple((row["registry"], row["ms"], row["reason"]) for row in gaps.collect()),
        quarantined=history.quarantine.count() if history.quarantine is not None else 0,
        marks=tuple(_marks(history.faults)),
    )


def _marks(faults: DataFrame | None) -> Iterator[tuple[str, int, str]]:
    if faults is not None:
        for row in faults.orderBy("at_ms").limit(_KEPT_ROWS).collect():
            yield row["broker"] or "", row["at_ms"], row["what"]
