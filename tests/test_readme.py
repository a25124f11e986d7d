"""README is short, its links lead somewhere, and its figures stand in the pages too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from benchmarks.__main__ import BENCHMARKS
from sharedroutes.cli.places import COMMANDS

ROOT: Final = Path(__file__).resolve().parents[1]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES: Final = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
FIGURES: Final = re.findall(
    r"^\| [^|]+ \| ([^|]+) \| `python -m benchmarks (\w+)` \| [^|]* ?\|$", README, re.MULTILINE
)


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in headings}


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", README))
def test_a_link_leads_somewhere(target: str) -> None:
    path, _, anchor = target.partition("#")
    assert (ROOT / path).exists()
    assert not anchor or anchor in anchors((ROOT / path).read_text(encoding="utf-8"))


def test_there_are_figures() -> None:
    assert len(FIGURES) == README.count("`python -m benchmarks ") > 4


@pytest.mark.parametrize(("figure", "benchmark"), FIGURES)
def test_a_figure_stands_in_the_pages_and_has_its_benchmark(figure: str, benchmark: str) -> None:
    assert benchmark in BENCHMARKS
    for number in re.findall(r"\d[\d.]* (?:ms|s|MB|bytes|%)", figure):
        assert number in PAGES


def test_the_commands_that_it_names_exist() -> None:
    assert set(re.findall(r"`sharedroutes ([a-z-]+)", README)) <= COMMANDS.keys()
