"""`python -m benchmarks.report FILE... FOLDER`: benchmarks.md, scale.md and what they show, into a folder.

The files are those of `python -m benchmarks --out`, or an earlier figures.json. Where two have the same
benchmark, the later file counts.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from . import scale
from .page import NAME, figures, plots, text
from .runs import merged


@click.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def main(files: tuple[Path, ...], folder: Path) -> None:
    """Write the page of these files into FOLDER."""
    runs = merged([json.loads(file.read_text(encoding="utf-8")) for file in files])
    beside = folder / NAME
    beside.mkdir(parents=True, exist_ok=True)
    (beside / "figures.json").write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    for name, found in figures(runs).items():
        (beside / f"{name}.md").write_text(found, encoding="utf-8")
    for name, plot in plots(runs).items():
        (beside / f"{name}.svg").write_text(plot, encoding="utf-8")
    page = folder / f"{NAME}.md"
    page.write_text(text(runs), encoding="utf-8")
    prices = scale.prices(runs)
    if prices is not None:
        (beside / f"{scale.NAME}.svg").write_text(scale.plot(prices), encoding="utf-8")
        (folder / f"{scale.NAME}.md").write_text(scale.text(runs, prices), encoding="utf-8")
    click.echo(f"{page}: {sum(len(run['benchmarks']) for run in runs)} benchmarks")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.report")
