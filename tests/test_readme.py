"""README is short, its links lead somewhere, and its figures stand in the pages too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from benchmarks.__main__ import BENCHMARKS
from sharedroutes.cli.main import COMMANDS
from tests.markdown import anchors

ROOT: Final = Path(__file__).resolve().parents[1]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES: Final = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
FIGURES: Final = re.findall(
    r"^\| [^|]+ \| ([^|]+) \| `python -m benchmarks (\w+)` \| [^|]* ?\|$", README, re.MULTILINE
)


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


def test_every_figure_says_by_which_command_it_was_measured() -> None:
    rows = re.search(r"^\| what \| measured \| by .*?\n\n", README, re.MULTILINE | re.DOTALL)
    assert rows is not None
    others = [line for line in rows[0].splitlines()[2:] if line and "`python -m benchmarks " not in line]
    assert others
    for line in others:
        test = re.search(r"`pytest --faults (tests/\S+\.py)`", line)
        assert test is not None, line
        assert (ROOT / test[1]).is_file()
        figure = line.split("|")[2]
        assert all(number in PAGES for number in re.findall(r"\d[\d.]* (?:ms|s|MB|bytes|%)", figure))


@pytest.mark.parametrize(
    "word",
    [
        "sharedroutes.testing",
        "4.9.7",
        "ACL or TLS",
        "hangs",
        "docs/upgrading.md",
        "docs/agent.md",
        "docs/client.md",
    ],
)
def test_it_tells_of_what_a_new_user_looks_for(word: str) -> None:
    assert word in README


def test_the_commands_that_it_names_exist() -> None:
    assert set(re.findall(r"`sharedroutes ([a-z-]+)", README)) <= COMMANDS.keys()
