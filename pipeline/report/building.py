"""Writes a report: every answer as a table, and one page that shows what matters of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..answers.frames import covered
from ..schemas import GAP
from .facts import Overview, facts, warnings
from .found import Found
from .gathering import ANSWERS, History, answers
from .page import Page, render, time_text
from .sections import sections
from .writing import check_folder, remove_table, write_table

__all__ = ["check_report_folder", "write_report"]

PAGE: Final = "report.html"
TABLES: Final = "tables"
_MOST: Final = 1_000
"""So many gaps and faults are shown."""

OnAnswer = Callable[[str], object]
"""Is told the name of each answer before it is worked out."""


def check_report_folder(out: Path) -> None:
    """See that a report can be written into a folder, which is made; raises BadOption."""
    for folder in (out, out / TABLES):
        check_folder(folder)


def write_report(
    history: History, out: Path, *, title: str = "Route registry", on_answer: OnAnswer = lambda _: None
) -> Path:
    """Write tables and page into a folder; return the path of the page.

    The folder is on this machine, whatever Spark's master is, and each answer has to fit into its memory. The
    page comes last, and takes the place of an older one in one step. Raises BadOption before the first answer
    is worked out when nothing can be written there, or the history cannot end at its `until_ms`.
    """
    check_report_folder(out)
    history.check()
    found: dict[str, Found] = {}
    for table, frame in answers(history):
        on_answer(table.name)
        content = frame.toArrow()
        write_table(content, out / TABLES, table.name)
        found[table.name] = Found(content)
    for name in ANSWERS - found.keys():  # of an older report, about another time
        remove_table(out / TABLES, name)
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


def _overview(history: History) -> Overview:
    spans = covered(history.changes, history.until_ms).agg(
        F.min("since_ms").alias("begin_ms"),
        F.max("until_ms").alias("end_ms"),
        F.sort_array(F.collect_set("registry")).alias("registries"),
    )
    span = spans.first()
    until_ms = (span and span["end_ms"]) or 0
    gaps = history.changes.where((F.col("kind") == GAP) & (F.col("ms") <= until_ms))
    return Overview(
        begin_ms=(span and span["begin_ms"]) or 0,
        end_ms=until_ms,
        registries=tuple((span and span["registries"]) or ()),
        gaps=tuple(
            (row["registry"], row["ms"], row["reason"])
            for row in gaps.orderBy("registry", "ms", "seq").limit(_MOST).collect()
        ),
        quarantined=_until(history.quarantine, "ms", until_ms).count()
        if history.quarantine is not None
        else 0,
        corrupt_samples=history.corrupt_samples.count() if history.corrupt_samples is not None else 0,
        marks=tuple(_marks(history.faults, until_ms)),
    )


def _marks(faults: DataFrame | None, until_ms: int) -> Iterator[tuple[str, str, int, str]]:
    if faults is not None:
        for row in _until(faults, "at_ms", until_ms).orderBy("at_ms").limit(_MOST).collect():
            yield row["registry"] or "", row["broker"] or "", row["at_ms"], row["what"]


def _until(rows: DataFrame, column: str, until_ms: int) -> DataFrame:
    return rows.where(F.col(column) <= until_ms)
