"""The command line of a set of benchmarks: one of them, or all, as text and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final, TextIO

import click

from sharedroutes.registry import RegistryError

from .figures import Benchmark, Outcome
from .machine import this_machine
from .report import render, to_json

_ALL: Final = "all"


def command(
    benchmarks: Mapping[str, Benchmark], *, problems: tuple[type[Exception], ...] = (RegistryError,)
) -> click.Command:
    """Return the command that runs these; `problems` are told in one line."""

    def list_them(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's
        if wanted:
            width = max(map(len, benchmarks))
            for name, benchmark in benchmarks.items():
                click.echo(f"{name.ljust(width)}  {benchmark.question}")
            context.exit()

    @click.command()
    @click.argument("name", type=click.Choice([*benchmarks, _ALL]), default=_ALL)
    @click.option("--quick", is_flag=True, help="Fewer rounds: for a first look, not for a report.")
    @click.option("--check", is_flag=True, help="Exit with 1 when a target is missed.")
    @click.option(
        "--json", "json_file", type=click.File("w", lazy=False), help="Write all rounds to this file."
    )
    @click.option(
        "--list",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=list_them,
        help="List the questions.",
    )
    def main(name: str, json_file: TextIO | None, *, quick: bool, check: bool) -> None:
        """Answer one question about speed, or all of them, on servers that are started for it."""
        chosen = {key: one for key, one in benchmarks.items() if name in (_ALL, key)}
        try:
            outcomes = _run(chosen, json_file, quick=quick)
        except problems as error:
            raise click.ClickException(str(error)) from error
        if check and not all(outcome.met for outcome in outcomes):
            sys.exit(1)

    return main


def _run(chosen: Mapping[str, Benchmark], json_file: TextIO | None, *, quick: bool) -> list[Outcome]:
    outcomes: dict[str, tuple[str, Outcome]] = {}
    machine = this_machine()
    click.echo(f"{machine}\n")
    for name, benchmark in chosen.items():
        outcome = benchmark.quick() if quick else benchmark.full()
        outcomes[name] = (benchmark.question, outcome)
        click.echo(render(name, benchmark.question, outcome) + "\n")
    if json_file is not None:
        json_file.write(to_json(machine, outcomes))
    return [outcome for _, outcome in outcomes.values()]
