"""Writes what follows from the code in docs/pipeline.md and docs/pipeline/: schemas, the files of a report.

`python tools/pipeline_docs.py` rewrites the pages; `--check` says which ones would change, and ends with 1.
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

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
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
        table = known[match["name"]]
        rows = "".join(f"| `{one.name}` | `{one.type}` | {one.meaning} |\n" for one in table.columns)
        head = f"`{table.name}`{match['of'] or ''}: {table.meaning}."
        return f"{head}\n\n| column | type | meaning |\n|---|---|---|\n{rows}"

    rows = "".join(f"| `{one.name}` | {one.needs} | {one.table.meaning} |\n" for one in ANSWERS.values())
    files = f"| table | needs | what a row is |\n|---|---|---|\n{rows}"
    return _FILES.sub(lambda _: files, _SCHEMA.sub(schema, text))


def main() -> int:
    """Write or check the pages; return the exit status."""
    known = tables()
    changed = {
        page: new for page in pages() if (new := written(old := page.read_text("utf-8"), known)) != old
    }
    for page, text in changed.items():
        print(page.relative_to(DOCS.parent))
        if "--check" not in sys.argv:
            page.write_text(text, encoding="utf-8")
    return int("--check" in sys.argv and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
