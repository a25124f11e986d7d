"""Tables and one page that tell what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from pyspark.sql import functions as F

from .catalogue import ANSWERS, Working, asked
from .history import History, check_times
from .page import page_of, render, verdicts
from .written import Found, Output, check_out

__all__ = ["ANSWERS", "History", "Report", "asked", "check_out", "check_times", "write_report"]

PAGE: Final = "report.html"


class Report(NamedTuple):
    """What was written: the page, and how topics did by the objective; 0 where there is none."""

    page: str
    until_ms: int
    """Up to when it is, ms since 1970."""

    warnings: Sequence[str] = ()
    """What makes the answers doubtful, as the page has it."""

    missed: int = 0
    burning: int = 0


def write_report(
    history: History,
    out: str,
    *,
    title: str = "Route registry",
    on_answer: Callable[[str], object] = lambda _: None,
) -> Report:
    """Write tables and page into a folder, on any file system that Spark knows.

    `on_answer` is told the name of each answer before it is worked out. Spark writes the tables; only sums
    and first rows are brought to this process. An older report stays as it was until all is done; the page
    comes last. Raises BadOption before all that when nothing can be written there, or the history has nothing
    in the time that is asked for.
    """
    spark = history.changes.sparkSession
    output = Output(spark, out)
    output.check()
    ((now_ms,),) = spark.range(1).select(F.unix_millis(F.current_timestamp())).collect()
    history = history.observed(now_ms)
    found: dict[str, Found] = {}
    with closing(Working(history, output.keep)) as work:
        for answer in asked(history):
            on_answer(answer.name)
            found[answer.name] = output.write(answer, answer.query(work))
        on_answer("page")
        page = page_of(title, work, found)
        budgets = verdicts(found["topic_budgets"]) if "topic_budgets" in found else {}
        path = output.finish(found, ANSWERS, PAGE, render(page))
        counts = budgets.get("missed", 0), budgets.get("burning", 0)
        return Report(path, history.until_ms or 0, page.warnings, *counts)
