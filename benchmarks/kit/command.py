"""The command line of a set of benchmarks, and what it prints: the machine, tables of figures, JSON.

A question is a module whose docstring begins with it; it has `run(size)`, a class `Size` with the usual sizes
as defaults, and `QUICK`, the sizes of a quick run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import Any, Final, TextIO

import click

from sharedroutes.registry import RegistryError

from .figures import Benchmark, Figure, Outcome
from .machine import Machine, load_now, this_machine

_ALL: Final = "all"
_HEAD: Final = ("measured", "median", "quartiles", "unit", "target", "")
_GAP: Final = "  "
_VERDICTS: Final = {None: "", True: "met", False: "NOT MET"}


def benchmarks_of(package: str, names: Iterable[str]) -> dict[str, Benchmark]:
    """Return the benchmarks that modules of a package are, by name."""
    found = {}
    for name in names:
        module: Any = import_module(f"{package}.{name}")
        question, _, _ = module.__doc__.partition("\n")
        found[name] = Benchmark(
            question, partial(module.run, module.Size()), partial(module.run, module.QUICK)
        )
    return found


def command(
    benchmarks: Mapping[str, Benchmark],
    *,
    soon: Sequence[str] = (),
    problems: tuple[type[Exception], ...] = (RegistryError,),
) -> click.Command:
    """Return the command that runs these; errors of `problems` end it with one line.

    `soon`: those that a quick run is about where none is named, if that is not to be all.
    """

    def list_them(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's
        if wanted:
            width = max(map(len, benchmarks))
            for name, benchmark in benchmarks.items():
                click.echo(f"{name.ljust(width)}  {benchmark.question}")
            context.exit()

    @click.command()
    @click.argument("names", nargs=-1, type=click.Choice([*benchmarks, _ALL]))
    @click.option("--quick", is_flag=True, help="Fewer rounds: for a first look, not for a report.")
    @click.option("--check", is_flag=True, help="Exit with 1 when a target is missed.")
    @click.option(
        "--out",
        "--json",
        "json_file",
        type=click.File("w", lazy=False),
        help="Write all rounds to this file, as JSON.",
    )
    @click.option(
        "--list",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=list_them,
        help="List the questions.",
    )
    def main(names: tuple[str, ...], json_file: TextIO | None, *, quick: bool, check: bool) -> None:
        """Answer some questions about speed, or all of them, on servers that are started for it."""
        wanted = {*(names or (soon if quick else ()) or (_ALL,))}
        chosen = {key: one for key, one in benchmarks.items() if wanted & {key, _ALL}}
        try:
            outcomes = _run(chosen, json_file, quick=quick)
        except problems as error:
            raise click.ClickException(str(error)) from error
        if check and not all(outcome.met for outcome in outcomes):
            sys.exit(1)

    return main


def _run(chosen: Mapping[str, Benchmark], json_file: TextIO | None, *, quick: bool) -> list[Outcome]:
    outcomes: dict[str, tuple[str, Outcome]] = {}
    machine, begin = this_machine(), load_now()
    click.echo(f"{machine}; load {begin:.1f}\n")
    try:
        for name, benchmark in chosen.items():
            began_s = time.monotonic()
            outcome = benchmark.quick() if quick else benchmark.full()
            outcomes[name] = (benchmark.question, outcome)
            click.echo(render(name, benchmark.question, outcome))
            click.echo(f"took {time.monotonic() - began_s:.0f} s\n")
    finally:  # an hour of figures is not lost by the one benchmark that fails
        end = load_now()
        click.echo(f"load at the end: {end:.1f}")
        if json_file is not None:
            json_file.write(to_json(machine, outcomes, load=(begin, end), quick=quick))
    return [outcome for _, outcome in outcomes.values()]


def render(name: str, question: str, outcome: Outcome) -> str:
    """Return one benchmark's question, table and notes."""
    rows = [_HEAD, *(_row(figure) for figure in outcome.figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    table = [_line(row, widths) for row in rows]
    table.insert(1, "-" * max(len(line) for line in table))
    return "\n".join([f"{name}: {question}", *table, *(f"note: {note}" for note in outcome.notes)])


def to_json(
    machine: Machine, outcomes: Mapping[str, tuple[str, Outcome]], *, load: tuple[float, float], quick: bool
) -> str:
    """Return everything that was measured, with all rounds; `outcomes` = name to question and outcome.

    `load`: of the machine, when the run began and when it ended.
    """
    document = {
        "machine": asdict(machine),
        "quick": quick,
        "load": {"begin": load[0], "end": load[1]},
        "benchmarks": [
            {
                "name": name,
                "question": question,
                "met": outcome.met,
                "figures": [_fields(figure) for figure in outcome.figures],
                "notes": list(outcome.notes),
            }
            for name, (question, outcome) in outcomes.items()
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _row(figure: Figure) -> tuple[str, ...]:
    first, third = figure.quartiles
    spread = f"{number(first)} - {number(third)}" if len(figure.rounds) > 1 else ""
    target = "" if figure.target is None else str(figure.target)
    return (figure.name, number(figure.median), spread, figure.unit, target, _VERDICTS[figure.met])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(_cells(row, widths)).rstrip()


def _cells(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if column in (1, 2) else cell.ljust(width)


def number(value: float) -> str:
    """Return three significant digits, and all digits before the point."""
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{decimals}f}"


def _fields(figure: Figure) -> dict[str, Any]:
    target = figure.target
    return {
        "name": figure.name,
        "unit": figure.unit,
        "median": figure.median,
        "min": figure.low,
        "max": figure.high,
        "quartiles": list(figure.quartiles),
        "rounds": list(figure.rounds),
        "target": None if target is None else {"bound": target.bound.value, "limit": target.limit},
        "met": figure.met,
    }
