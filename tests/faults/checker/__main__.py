"""`python -m tests.faults.checker FOLDER`: check the history that stands in a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tests.faults.checker.history import BadHistory, read_history
from tests.faults.checker.report import check


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Check the history in FOLDER: exit 1 for a violation, 2 for what is no history."""
    try:
        report = check(read_history(folder))
    except BadHistory as error:
        raise click.UsageError(str(error)) from None
    for line in report.lines():
        click.echo(line)
    sys.exit(1 if report.caught_by else 0)


if __name__ == "__main__":
    main()
