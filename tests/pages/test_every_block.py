"""Every block of code in the pages is run by a test, or stands in a short list with a reason."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from tests.pages.blocks import (
    FILES,
    JAVA,
    ONLY_READ,
    PAGES,
    PYTHON,
    ROOMS,
    ROOT,
    SHELL,
    Block,
    blocks,
    blocks_of,
    reason,
    room_of,
)

CODE: Final = {*SHELL, *PYTHON, *FILES, *JAVA}
BLOCKS: Final = [block for page in PAGES for block in blocks(page)]
READ: Final = {block.place: block for block in BLOCKS if reason(block)}
TARGETS: Final = set(
    re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)
EXTRAS: Final = set(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
)


def test_every_block_is_run_or_listed_with_a_reason() -> None:
    code = [block for block in BLOCKS if block.language in CODE]
    assert {block.language for block in BLOCKS} == {*CODE, "text"}
    assert [block.place for block in code if room_of(block) is None and not reason(block)] == []


def test_the_list_of_what_is_not_run_is_as_short_as_can_be() -> None:
    assert len(READ) == len(ONLY_READ)


@pytest.mark.parametrize("test", sorted({room.test for room in ROOMS}))
def test_a_test_takes_its_blocks_from_the_pages(test: str) -> None:
    assert "blocks_of(__file__)" in (ROOT / test).read_text(encoding="utf-8")
    assert blocks_of(str(ROOT / test))


def commands(block: Block) -> list[list[str]]:
    """Return the words of each command of a block."""
    lines = re.sub(r"^\$ ", "", block.text.replace("\\\n", " "), flags=re.MULTILINE).splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def is_target(words: list[str]) -> bool:
    return words[1] in TARGETS


def is_built_or_run(words: list[str]) -> bool:
    """Whether the folder that is built has the Dockerfile, or an image of that name is built in the pages."""
    if words[1] == "build":
        return (ROOT / words[words.index("-f") + 1]).is_file() and words[-1] == "."
    return any(word.partition(":")[0] in ("sharedroutes-agent", "sharedroutes-nameserver") for word in words)


def is_for_kubernetes(words: list[str]) -> bool:
    """Whether the folder is there, or what is named is in the manifests; kubectl itself makes a Secret."""
    manifests = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "deploy/kubernetes").rglob("*.yaml")
    )
    if words[1] == "apply":
        return (ROOT / words[words.index("-k") + 1] / "kustomization.yaml").is_file()
    if words[1] == "create" and shutil.which("kubectl"):
        made = subprocess.run(
            [*words, "--dry-run=client", "-o", "name"], capture_output=True, text=True, check=True
        )
        return made.stdout == "secret/sharedroutes\n" and "key: redis-url" in manifests
    named = next(word for word in words[2:] if "-" in word or "/" in word)
    return f"name: {re.sub(r'-0$', '', named.rpartition('/')[2])}\n" in manifests


def is_installed(words: list[str]) -> bool:
    extras = re.findall(r"\[([a-z,]+)\]$", words[2])
    return words[1] == "install" and {*extras[0].split(",")} <= EXTRAS if extras else words[0] == "apt-get"


def is_module(words: list[str]) -> bool:
    return words[1] == "-m" and importlib.util.find_spec(words[2]) is not None


CHECKS: Final[Mapping[str, Callable[[list[str]], bool]]] = {
    "apt-get": is_installed,
    "docker": is_built_or_run,
    "kubectl": is_for_kubernetes,
    "make": is_target,
    "pip": is_installed,
    "python": is_module,
}
"""What can be told of a command without running it. Those of `sharedroutes` are parsed in test_words.py."""


@pytest.mark.parametrize("block", READ.values(), ids=READ)
def test_what_a_block_names_that_is_not_run_is_there(block: Block) -> None:
    wrong = [words for words in commands(block) if not CHECKS[words[0]](words)]
    assert wrong == []
