"""What the pages under docs/ say in their tables and code blocks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"


def page(name: str) -> str:
    """Return the text of a page."""
    return _text(DOCS / name)


def guide(name: str) -> str:
    """Return the text of all pages of a guide: the short one, and those in the folder of its name."""
    return "\n".join((page(f"{name}.md"), *map(_text, sorted((DOCS / name).glob("*.md")))))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading, without its head."""
    section = re.split(r"^##+ ", text.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    table = re.search(r"(?:^\|.*\|\n)+", section, re.MULTILINE)
    assert table, heading
    _, _, *lines = re.findall(r"^\|(.*)\|$", table[0], re.MULTILINE)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines]


def names(cell: str) -> list[str]:
    """Return what a cell has in backquotes."""
    return re.findall(r"`([^`]+)`", cell)


def code_blocks(text: str) -> list[str]:
    """Return the content of every code block, of whatever language."""
    return re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def lacks(output: str, shown: str) -> list[str]:
    """Return the lines of a page that an output has not; `...` stands for anything, spaces for any number."""
    lines = [" ".join(line.split()) for line in output.splitlines()]

    def is_there(line: str) -> bool:
        pattern = ".*".join(re.escape(" ".join(part.split())) for part in line.split("..."))
        return any(re.search(pattern, other) for other in lines)

    return [line for line in shown.splitlines() if not is_there(line)]


def check_links(text: str, folder: Path = DOCS) -> None:
    """Check that every link of a page in a folder leads to a file, or to a heading of it or another one."""
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        if path.startswith("https://"):
            continue
        assert (folder / path).exists(), target
        other = (folder / path).read_text(encoding="utf-8") if anchor and path else text
        assert not anchor or anchor in anchors(other), target


def anchors(text: str) -> set[str]:
    """Return what links may name of a page, as GitHub makes it of the headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in headings}
