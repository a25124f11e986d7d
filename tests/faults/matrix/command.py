"""`python -m tests.faults`: runs the matrix, says what happens, and sums up what the checker found."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click

from demo.processes import Interrupted, Patience
from tests.faults.checker.history import read_history
from tests.faults.checker.report import Report, check
from tests.faults.matrix.kinds.all import KINDS
from tests.faults.matrix.run import NotReady, StoreRun, Told
from tests.faults.matrix.stores import STORES
from tests.faults.matrix.summary import lines_of

_SIGNALLED: Final = 128


def _named(known: Sequence[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    def split(_: click.Context, __: click.Parameter, text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise click.BadParameter(f"{', '.join(unknown)}: there are {', '.join(known)}")
        return names or [*known]

    return split


@click.command()
@click.option("--minutes", type=click.FloatRange(0), default=6.0, show_default=True, help="Time for all.")
@click.option("--seed", type=int, help="The same seed breaks the same things; drawn if not given.")
@click.option("--deployments", default="", callback=_named([*STORES]), help="By default: all.")
@click.option("--faults", default="", callback=_named([*KINDS]), help="By default: all. Each named is run.")
@click.option("--out", type=click.Path(path_type=Path), help="A new folder that keeps histories and logs.")
def main(
    minutes: float, seed: int | None, deployments: list[str], faults: list[str], out: Path | None
) -> None:
    """Break real processes on each kind of store, and check what they did: exit 1 for a violation."""
    seed = random.SystemRandom().getrandbits(32) if seed is None else seed
    folder = out or Path(tempfile.mkdtemp(prefix="sharedroutes-faults-"))
    folder.mkdir(parents=True, exist_ok=True)
    patience, began_s = Patience(), time.monotonic()
    source = click.get_current_context().get_parameter_source("faults")
    all_named = source is click.core.ParameterSource.COMMANDLINE
    kinds = [KINDS[name] for name in faults]
    click.echo(f"seed {seed}, {minutes:g} min on {', '.join(deployments)}; history and logs: {folder}")

    def tell(deployment: str) -> Callable[[str], None]:
        return lambda text: click.echo(f"{time.monotonic() - began_s:6.0f} s  {deployment:<10}  {text}")

    found: list[tuple[Told, Report]] = []
    try:
        with patience.signals():
            for number, name in enumerate(deployments):
                until_s = began_s + 60 * minutes * (number + 1) / len(deployments)
                with StoreRun(name, folder / name, seed, patience, tell(name)) as run:
                    told = run.go(kinds, until_s, len(kinds) if all_named else 1)
                found.append((told, check(read_history(told.history))))
    except Interrupted as interrupted:
        click.echo(f"{interrupted}; what was broken is not checked", err=True)
        sys.exit(_SIGNALLED + interrupted.number)
    except (NotReady, TimeoutError) as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    for line in lines_of(found):
        click.echo(line)
    is_clean = not any(report.caught_by for _, report in found)
    if is_clean and out is None:
        shutil.rmtree(folder)
    sys.exit(0 if is_clean else 1)
