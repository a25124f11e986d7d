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


HOWTO: Final = "docs/howto/"
ROOMS: Final = (
    Room("tests/interop/test_tutorial.py", SHELL, ("docs/tutorial.md",)),
    Room("tests/interop/test_migration.py", SHELL, ("docs/migrate.md",)),
    Room("tests/interop/test_java_page.py", (*SHELL, *JAVA), (f"{HOWTO}java.md",)),
    Room("tests/real/test_secured.py", (*SHELL, "yaml"), ("docs/agent/users-and-tls.md",)),
    Room(
        "tests/cluster/test_pages.py",
        SHELL,
        tuple(f"{HOWTO}{name}.md" for name in ("cluster", "many-clients", "sentinel")),
    ),
    Room("tests/deploy/test_agent_page.py", PYTHON, ("docs/agent/library.md",)),
    Room("tests/pipeline/spark/test_pages.py", PYTHON, ("docs/pipeline/*", "docs/simulation.md")),
    Room("tests/pages/test_python.py", PYTHON, ("*",)),
    Room("tests/pages/test_spark.py", SHELL, ("docs/pipeline*", "docs/simulation.md")),
    Room("tests/pages/test_spark.py", SHELL, (f"{HOWTO}incidents.md",), having="sharedroutes pipeline "),
    Room(
        "tests/pages/test_store.py",
        SHELL,
        (
            "docs/cli.md",
            *(f"{HOWTO}{name}.md" for name in ("acl-and-tls", "incidents", "redis-down", "zones")),
        ),
    ),
    Room(
        "tests/pages/test_installed.py",
        SHELL,
        (
            "README.md",
            "examples/README.md",
            "docs/client.md",
            "docs/agent.md",
            "docs/upgrading.md",
            "docs/nameserver.md",
        ),
    ),
    Room("tests/test_cli_page.py", FILES, ("docs/cli.md",)),
    Room("tests/pages/test_files.py", FILES, ("*",)),
)
"""The first that takes a block runs it."""

_DOCKER: Final = "needs a Docker daemon"
_KUBERNETES: Final = "needs a Kubernetes cluster, and images in it"
ONLY_READ: Final[Mapping[tuple[str, str], str]] = {
    (
        "README.md",
        "make demo ",
    ): "would run all tests, this one too; tests/demo and tests/interop run the demos",
    ("docs/faults.md", "make faults "): "takes minutes up to hours; tests/faults/matrix runs what it calls",
    ("docs/agent/docker.md", "docker run "): _DOCKER,
    ("docs/nameserver/docker.md", "docker run "): _DOCKER,
    ("docs/howto/kubernetes.md", "$ kubectl create secret "): _KUBERNETES,
    ("docs/howto/kubernetes.md", "$ docker build -f deploy/nameserver/Dockerfile "): _KUBERNETES,
    ("docs/howto/kubernetes.md", "$ docker build -f deploy/Dockerfile "): _KUBERNETES,
    ("docs/howto/kubernetes.md", "$ kubectl exec "): _KUBERNETES,
    (
        "docs/pipeline.md",
        "apt-get install ",
    ): "needs root, and 400 MB; make release-check installs each extra",
    ("docs/pipeline/cluster.md", "pip install "): "takes 400 MB; make release-check installs the wheel",
}
"""Blocks that no test runs, by page and begin, and why not; what else can be checked of them is."""


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
    return next(
        (
            why
            for (page, begin), why in ONLY_READ.items()
            if block.page == page and block.text.startswith(begin)
        ),
        "",
    )


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
