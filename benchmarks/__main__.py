"""`python -m benchmarks NAME [--quick] [--check] [--json FILE]`."""

from __future__ import annotations

import sys
from typing import Final, TextIO

import click

from sharedroutes.registry import RegistryError

from . import (
    agent,
    expiry,
    fanout,
    heartbeat,
    idle,
    lookup,
    memory,
    outage,
    propagate,
    refresh,
    register,
    rejoin,
    scale,
    select,
    storm,
)
from .harness import Benchmark, Outcome
from .machine import this_machine
from .report import render, to_json

__all__ = ["BENCHMARKS", "main"]

BENCHMARKS: Final[dict[str, Benchmark]] = {
    "lookup": lookup.BENCHMARK,
    "register": register.BENCHMARK,
    "heartbeat": heartbeat.BENCHMARK,
    "memory": memory.BENCHMARK,
    "scale": scale.BENCHMARK,
    "select": select.BENCHMARK,
    "refresh": refresh.BENCHMARK,
    "outage": outage.BENCHMARK,
    "storm": storm.BENCHMARK,
    "propagate": propagate.BENCHMARK,
    "fanout": fanout.BENCHMARK,
    "expiry": expiry.BENCHMARK,
    "agent": agent.BENCHMARK,
    "idle": idle.BENCHMARK,
    "rejoin": rejoin.BENCHMARK,
}

_ALL: Final = "all"


def _list(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted:
        width = max(map(len, BENCHMARKS))
        for name, benchmark in BENCHMARKS.items():
            click.echo(f"{name.ljust(width)}  {benchmark.question}")
        context.exit()


@click.command()
@click.argument("name", type=click.Choice([*BENCHMARKS, _ALL]), default=_ALL)
@click.option("--quick", is_flag=True, help="Fewer rounds: for a first look, not for a report.")
@click.option("--check", is_flag=True, help="Exit with 1 when a target is missed.")
@click.option("--json", "json_file", type=click.File("w", lazy=False), help="Write all rounds to this file.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the questions."
)
def main(name: str, json_file: TextIO | None, *, quick: bool, check: bool) -> None:
    """Answer one question about speed, or all of them, on servers that are started for it."""
    outcomes: dict[str, tuple[str, Outcome]] = {}
    try:
        machine = this_machine()
        click.echo(f"{machine}\n")
        for chosen, benchmark in BENCHMARKS.items():
            if name in (_ALL, chosen):
                outcome = benchmark.quick() if quick else benchmark.full()
                outcomes[chosen] = (benchmark.question, outcome)
                click.echo(render(chosen, benchmark.question, outcome) + "\n")
    except RegistryError as error:
        raise click.ClickException(str(error)) from error
    if json_file is not None:
        json_file.write(to_json(machine, outcomes))
    if check and not all(outcome.met for _, outcome in outcomes.values()):
        sys.exit(1)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
