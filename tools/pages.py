"""What all that writes files from the code has in common: where they go, and what `--check` does."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
_TABLE: Final = re.compile(r"(?:^\|.*\|\n)+", re.MULTILINE)


def write(made: Mapping[Path, str]) -> int:
    """Write the files that differ; with `--check` only show how they do. Return the exit status."""
    is_check = "--check" in sys.argv
    changed = False
    for path, text in made.items():
        old = path.read_text(encoding="utf-8") if path.is_file() else ""
        if old == text:
            continue
        changed = True
        print(path.relative_to(ROOT))
        if is_check:
            print(*difflib.unified_diff(old.splitlines(), text.splitlines(), lineterm=""), sep="\n")
        else:
            path.write_text(text, encoding="utf-8")
    return int(is_check and changed)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    columns = list(head)
    lines = "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in (columns, *rows))
    return lines.replace("\n", f"\n|{'---|' * len(columns)}\n", 1)


def with_table(text: str, heading: str, made: str) -> str:
    """Return a page with another table in the place of the first one under a heading."""
    before, mark, after = text.partition(f"# {heading}\n")
    if not mark or not _TABLE.search(after):
        raise ValueError(f"no table under {heading!r}")
    return before + mark + _TABLE.sub(lambda _: made, after, count=1)
