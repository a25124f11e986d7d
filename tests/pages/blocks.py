"""The blocks of code in the pages, and which test runs each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = (
    "README.md",
    "examples/README.md",
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))),
)
SHELL: Final = ("sh", "console")
PYTHON: Final = ("python",)
FILES: Final = ("toml", "yaml", "ini", "properties", "dockerfile")
JAVA: Final = ("java",)

_FENCE: Final = re.compile(
    r"^( *)```(\w+)\n(.*?)^\1```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A block of code, and what it prints, if that is shown below it."""

    page: str
    line: int
    language: str
    text: str
    shown: str

    @property
    def place(self) -> str:
        """Where it stands, for people."""
        return f"{self.page}:{self.line}"


class Room(NamedTuple):
    """A test that runs every block of some languages in some pages."""

    test: str
    languages: tuple[str, ...]
    pages: tuple[str, ...]
    having: str = ""
    """Only blocks with this text."""


ROOMS: Final = (
    Room(
        "tests/pages/test_python.py",
        PYTHON,
        ("README.md", "docs/client.md", "docs/client/*", "docs/operating.md", "docs/howto/*"),
    ),
    Room("tests/pages/test_spark.py", SHELL, ("docs/howto/incidents.md",), having="sharedroutes pipeline "),
    Room(
        "tests/pages/test_store.py",
        SHELL,
        tuple(f"docs/howto/{name}.md" for name in ("acl-and-tls", "incidents", "redis-down", "zones")),
    ),
)
"""The first that takes a block runs it."""

ONLY_READ: Final[Mapping[str, str]] = {}
"""Blocks that no test runs, by their first line, and why not; what else can be checked of them is."""


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page that say in which language they are."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start()) + 1,
            found[2],
            _outdented(found[3], found[1]),
            found[4] or "",
        )
        for found in _FENCE.finditer(text)
    ]


def room_of(block: Block) -> Room | None:
    """Return which test runs a block."""
    return next(
        (
            room
            for room in ROOMS
            if block.language in room.languages
            and any(fnmatch(block.page, page) for page in room.pages)
            and room.having in block.text
        ),
        None,
    )


def reason(block: Block) -> str:
    """Return why no test runs a block, or nothing."""
    return ONLY_READ.get(block.text.partition("\n")[0], "")


def blocks_of(test: str) -> dict[str, list[Block]]:
    """Return the blocks that a test runs, in order, by page; it is named by its file."""
    name = Path(test).resolve().relative_to(ROOT).as_posix()
    found: dict[str, list[Block]] = {}
    for block in (block for page in PAGES for block in blocks(page)):
        room = room_of(block)
        if room is not None and room.test == name and not reason(block):
            found.setdefault(block.page, []).append(block)
    assert found, name
    return found


def _outdented(text: str, indent: str) -> str:
    return re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)
