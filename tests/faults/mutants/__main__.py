"""`python -m tests.faults.mutants`: a product with deliberate faults, which the matrix has to catch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import click

from tests.faults.checker.history import read_history
from tests.faults.checker.report import check
from tests.faults.mutants.catalogue import MUTANTS
from tests.faults.mutants.mutant import Mutant

ROOT: Final = Path(__file__).resolve().parents[3]
_RUN_S: Final = 1_200.0
_SEEDS: Final = 5
"""With so many seeds a mutant is looked for."""

Tell = Callable[[str, str], None]


def copy_to(folder: Path) -> None:
    """Copy what git knows of the repository, as it is now, below a folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = ROOT / name, folder / name
        if source.exists() or source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


class Trial:
    """Runs the matrix on a copy of the repository."""

    def __init__(self, folder: Path) -> None:
        self._repository = folder / "repository"
        self._runs = folder
        copy_to(self._repository)

    def run(
        self, name: str, store: str, faults: Iterable[str], seed: int, mutant: Mutant | None = None
    ) -> str:
        """Return the letters of the rules that are violated; raises NotRun."""
        name = f"{name}-{seed}"
        out = self._runs / name
        command = [sys.executable, "-m", "tests.faults", "--minutes", "0", "--seed", str(seed)]
        command += ["--deployments", store, "--faults", ",".join(faults), "--out", str(out)]
        found = [str(self._repository / "src"), str(self._repository)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(found)}
        environment["PYTHONPYCACHEPREFIX"] = str(self._repository / ".pycache")
        with (self._runs / f"{name}.log").open("wb") as log:
            done = self._go(command, environment, log.fileno(), mutant)
        history = out / store / "history"
        report = check(read_history(history) if history.exists() else ())
        if not report.verdicts["d"].checked:
            raise NotRun(f"nothing was true to begin with: see {self._runs / name}.log")
        if not report.caught_by and done != 0:
            raise NotRun(f"it ended with {done}, and nothing is violated: see {self._runs / name}.log")
        return report.caught_by

    def _go(
        self, command: Sequence[str], environment: dict[str, str], log: int, mutant: Mutant | None
    ) -> int:
        with nullcontext() if mutant is None else mutant.applied(self._repository):
            return subprocess.run(
                command,
                cwd=self._repository,
                env=environment,
                stdout=log,
                stderr=log,
                timeout=_RUN_S,
                check=False,
            ).returncode


class NotRun(Exception):
    """The matrix did not run to its end."""


def _named(_: click.Context, __: click.Parameter, names: Collection[str]) -> list[Mutant]:
    unknown = [name for name in names if name not in MUTANTS]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}: there are {', '.join(MUTANTS)}")
    return [MUTANTS[name] for name in names or MUTANTS]


@click.command()
@click.argument("mutants", nargs=-1, callback=_named)
@click.option("--seed", type=int, default=1, show_default=True, help="The first of all runs.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder that keeps histories and logs.")
def main(mutants: list[Mutant], seed: int, out: Path | None) -> None:
    """Break the product on purpose, one MUTANT after the other, and let the matrix find out: exit 1 if not.

    Before, the same faults run on the product as it is: a rule that is violated then catches nobody.
    """
    folder = Path(tempfile.mkdtemp(prefix="sharedroutes-mutants-")) if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    click.echo(f"seed {seed}; histories and logs: {folder}")
    trial, began_s = Trial(folder), time.monotonic()

    def tell(name: str, text: str) -> None:
        click.echo(f"{time.monotonic() - began_s:6.0f} s  {name:<24} {text}")

    noise: dict[str, str] = {}
    for store in dict.fromkeys(mutant.store for mutant in mutants):
        asked = dict.fromkeys(fault for mutant in mutants if mutant.store == store for fault in mutant.faults)
        try:
            noise[store] = trial.run(f"none-{store}", store, asked, seed)
        except NotRun as error:
            raise click.ClickException(f"(none, {store}): {error}") from None
        tell(f"(none, {store})", f"violates {noise[store]}" if noise[store] else "clean")
    missed = [
        mutant.name for mutant in mutants if not _is_caught(trial, mutant, noise[mutant.store], seed, tell)
    ]
    if missed:
        click.echo(f"not caught: {', '.join(missed)}", err=True)
    elif out is None:
        shutil.rmtree(folder)
    sys.exit(1 if missed else 0)


def _is_caught(trial: Trial, mutant: Mutant, noise: str, seed: int, tell: Tell) -> bool:
    """Return whether the matrix finds a mutant by one of a few seeds: a seed may pass by what shows it."""
    for tried in range(seed, seed + _SEEDS):
        try:
            caught_by = trial.run(mutant.name, mutant.store, mutant.faults, tried, mutant)
            letters = [letter for letter in caught_by if letter not in noise]
            if letters and tried != seed:  # the same faults in the same order, on the product as it is
                noise += trial.run(f"none-{mutant.name}", mutant.store, mutant.faults, tried)
                letters = [letter for letter in letters if letter not in noise]
        except NotRun as error:
            tell(mutant.name, str(error))
            return False
        if letters:
            tell(mutant.name, f"caught by {', '.join(letters)} (seed {tried}): {mutant.says}")
            return True
    tell(mutant.name, f"NOT CAUGHT: {mutant.says}")
    return False


if __name__ == "__main__":
    main()
