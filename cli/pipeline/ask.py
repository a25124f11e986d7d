"""`pipeline ask`: the questions of `history`, `table`, `diff` and `before`, to a history that was kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
from pyspark.sql import DataFrame, Row

from ...daemon.printing import iso, output_option
from ...pipeline.answers.frames import covered
from ...pipeline.answers.past import ask as ask_changes
from ...pipeline.answers.past import names_like, table_of
from ...pipeline.ingest import stored_changes
from ...pipeline.report.history import check_routes, read_routes
from ...registry.history import Column, Question, TableAt
from ..questions import Make, commands, named, not_known, print_answer
from ..root import Group
from .spark import Start, about, changes_option, check_changes, namespace_option, say, with_spark

_limit_option = click.option(
    "--limit", type=click.IntRange(1), default=10_000, show_default=True, help="Most rows that are printed."
)


def _ask(make: Make) -> Callable[..., None]:
    @changes_option
    @click.option(
        "--routes",
        default="",
        metavar="URL|PATH",
        help="The routes now, for what no change names: the store's URL, or a snapshot in Parquet.",
    )
    @namespace_option
    @_limit_option
    @output_option
    @with_spark
    def run(
        start: Start, /, *, history: str, routes: str, namespace: str, limit: int, output: str, **given: Any
    ) -> None:
        question = make(time.time_ns() // 1_000_000, **given)
        if routes:
            with about("--routes"):
                check_routes(routes, namespace)
        check_changes(history)
        spark, there = start(), None
        with about("--changes"):
            changes = stored_changes(spark, history)
        if routes:
            with about("--routes"):
                there = read_routes(spark, routes, namespace)
        problems = [*_out_of_reach(question, changes)]
        rows = ask_changes(question, changes, there).take(limit + 1)
        if len(rows) > limit:
            problems.append(f"there are more rows than {limit:,}, the first of which these are: --limit N")
            rows.pop()
        unknown = [*_unknown(question, rows, changes, there)]
        columns = [Column(*column[:3]) for column in table_of(question).columns]
        if rows or not unknown or output != "table":
            print_answer(output, columns, map(tuple, rows))
        if unknown or problems:
            raise click.ClickException("\n".join((*unknown, *problems)))

    return run


def _unknown(
    question: Question, rows: Sequence[Row], changes: DataFrame, routes: DataFrame | None
) -> Iterator[str]:
    """Yield what to say of each name that is asked for, and that neither answer nor history has."""
    kind, asked = named(question)
    if rows:
        asked = asked - {row["topic"] for row in rows} if isinstance(question, TableAt) else frozenset()
    for name in sorted(asked):
        known = names_like(kind, name, changes, routes)
        if name not in known:
            yield not_known(kind, name, known)


def _out_of_reach(question: Question, changes: DataFrame) -> Iterator[str]:
    """Yield which histories begin after the time that is asked about; says what else they lack."""
    from_ms, to_ms = question.span
    for row in covered(changes).collect():
        registry, since_ms, until_ms = row["registry"], row["since_ms"], row["until_ms"]
        begins = f"the history of {registry} begins at {iso(since_ms)}: what was before is not known"
        if to_ms is not None and to_ms < since_ms:
            yield begins
        elif from_ms is not None and from_ms < since_ms:
            say(begins)
        if to_ms is not None and to_ms > until_ms:
            say(f"the history of {registry} ends at {iso(until_ms)}: what came later is not in it")
        for gap in row["gaps"]:
            if gap["ms"] <= (to_ms or until_ms) and gap["after_ms"] >= (from_ms or since_ms):
                say(f"changes of {registry} are lost from {iso(gap['ms'])} to {iso(gap['after_ms'])}")


ask = Group("ask", help="Ask a kept history what happened; see `sharedroutes history`.", no_args_is_help=True)
for command in commands(_ask).values():
    ask.add_command(command)
