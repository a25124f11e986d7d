"""`python -m tests.faults`: runs the matrix, says what happens, and sums up what the checker found."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from demo.processes import Interrupted, Patience
from tests.faults.checker.history import read_history
from tests.faults.checker.report import check
from tests.faults.matrix.kinds.all import KINDS
from tests.faults.matrix.kinds.kind import Kind
from tests.faults.matrix.ledger import Checked, add_to_ledger
from tests.faults.matrix.plots import write_plots
from tests.faults.matrix.run import NotReady, StoreRun
from tests.faults.matrix.stores import STORES
from tests.faults.matrix.summary import lines_of

_NOT_TO_ITS_END: Final = 3
_SIGNALLED: Final = 128


def _named(known: Sequence[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    def split(_: click.Context, __: click.Parameter, text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise click.BadParameter(f"{', '.join(unknown)}: there are {', '.join(known)}")
        return names or [*known]

    return split


@dataclass(frozen=True, slots=True)
class Matrix:
    """What is run."""

    minutes: float
    seed: int
    deployments: Sequence[str]
    kinds: Sequence[Kind]
    at_least: int
    """So many faults on each store, however long they take."""

    folder: Path
    churns: bool = False
    """Whether topics come and go all the time."""

    plots: Path | None = None
    """Where plots of each run are written."""

    def run(self, patience: Patience) -> list[Checked]:
        """Run on one store after another, and check each; raises Interrupted, NotReady and TimeoutError."""
        began_s, found = time.monotonic(), []
        for number, name in enumerate(self.deployments):
            begun_s = time.monotonic()
            until_s = began_s + 60 * self.minutes * (number + 1) / len(self.deployments)

            def tell(text: str, name: str = name) -> None:
                click.echo(f"{time.monotonic() - began_s:6.0f} s  {name:<10}  {text}")

            folder = self.folder / name
            with StoreRun(name, folder, self.seed, patience, tell, churns=self.churns) as run:
                told = run.go(self.kinds, until_s, self.at_least)
            minutes, history = (time.monotonic() - begun_s) / 60, read_history(told.history)
            found.append(Checked(told, check(history), minutes))
            for path in write_plots(self.plots, name, history) if self.plots else ():
                tell(f"wrote {path}")
        return found


@click.command()
@click.option("--minutes", type=click.FloatRange(0), default=6.0, show_default=True, help="Time for all.")
@click.option("--seed", type=int, help="The same seed breaks the same things; drawn if not given.")
@click.option("--deployments", default="", callback=_named([*STORES]), help="By default: all.")
@click.option("--faults", default="", callback=_named([*KINDS]), help="By default: all. Each named is run.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder that keeps histories and logs.")
@click.option("--ledger", type=click.Path(path_type=Path), help="The page to which the run is added.")
@click.option("--churn", is_flag=True, help="Let topics come and go all the time besides.")
@click.option("--plots", type=click.Path(path_type=Path), help="A folder for plots of what processes took.")
@click.pass_context
def main(context: click.Context, /, **given: Any) -> None:
    """Break real processes on each kind of store, and check what they did.

    Exit 1 for a violation, 3 when a run could not go on to its end.
    """
    out: Path | None = given["out"]
    folder = out or Path(tempfile.mkdtemp(prefix="sharedroutes-faults-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise click.BadParameter(f"{folder} is not empty: name a new folder", param_hint="--out")
    is_named = context.get_parameter_source("faults") is ParameterSource.COMMANDLINE
    matrix = Matrix(
        minutes=given["minutes"],
        seed=random.SystemRandom().getrandbits(32) if given["seed"] is None else given["seed"],
        deployments=given["deployments"],
        kinds=[KINDS[name] for name in given["faults"]],
        at_least=len(given["faults"]) if is_named else 1,
        folder=folder,
        churns=given["churn"],
        plots=given["plots"],
    )
    on = ", ".join(matrix.deployments)
    click.echo(f"seed {matrix.seed}, {matrix.minutes:g} min on {on}; history and logs: {folder}")
    found = _run(matrix)
    for line in lines_of(found):
        click.echo(line)
    if given["ledger"] is not None:
        add_to_ledger(given["ledger"], found)
    is_clean = not any(one.report.caught_by for one in found)
    if is_clean and out is None:
        shutil.rmtree(folder)
    sys.exit(0 if is_clean else 1)


def _run(matrix: Matrix) -> list[Checked]:
    patience = Patience()
    try:
        with patience.signals():
            return matrix.run(patience)
    except Interrupted as interrupted:
        click.echo(f"{interrupted}; what was broken is not checked", err=True)
        sys.exit(_SIGNALLED + interrupted.number)
    except (NotReady, TimeoutError) as error:
        click.echo(str(error), err=True)
    except Exception:  # noqa: BLE001 - with this traceback Python would exit like a violation
        traceback.print_exc()
    sys.exit(_NOT_TO_ITS_END)
