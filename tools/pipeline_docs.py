"""Writes what follows from the code in docs/pipeline.md and docs/pipeline/: schemas, the files of a report.

`python -m tools.pipeline_docs` rewrites the pages; `--check` shows how they would change, and ends with 1.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from sharedroutes import pipeline
from sharedroutes.pipeline.report import ANSWERS
from sharedroutes.pipeline.tables import Table
from tools.pages import DOCS, table, write

_SCHEMA: Final = re.compile(
    r"^`(?P<name>\w+)`(?P<of> \([^)]*\))?: .*\.\n\n\| column \| type \| meaning \|\n(?:\|.*\n)+", re.MULTILINE
)
_FILES: Final = re.compile(r"^\| table \| needs \| what a row is \|\n(?:\|.*\n)+", re.MULTILINE)


def pages() -> list[Path]:
    """Return the pages about the pipeline."""
    return [DOCS / "pipeline.md", *sorted((DOCS / "pipeline").glob("*.md"))]


def tables() -> dict[str, Table]:
    """Return all tables of the pipeline, by name."""
    modules = [
        import_module(one.name) for one in pkgutil.walk_packages(pipeline.__path__, f"{pipeline.__name__}.")
    ]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Table)]
    return {table.name: table for table in found}


def written(text: str, known: dict[str, Table]) -> str:
    """Return a page with its tables as the code has them."""

    def schema(match: re.Match[str]) -> str:
        found = known[match["name"]]
        rows = ((f"`{one.name}`", f"`{one.type}`", one.meaning) for one in found.columns)
        head = f"`{found.name}`{match['of'] or ''}: {found.meaning}."
        return f"{head}\n\n{table(('column', 'type', 'meaning'), rows)}"

    rows = ((f"`{one.name}`", one.needs, one.table.meaning) for one in ANSWERS.values())
    files = table(("table", "needs", "what a row is"), rows)
    return _FILES.sub(lambda _: files, _SCHEMA.sub(schema, text))


if __name__ == "__main__":
    known_tables = tables()
    sys.exit(write({page: written(page.read_text("utf-8"), known_tables) for page in pages()}))
