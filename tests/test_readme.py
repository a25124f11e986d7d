"""README is short, its links lead somewhere, and its figures stand in the pages that they lead to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from benchmarks.__main__ import BENCHMARKS
from sharedroutes.cli.main import COMMANDS
from tests.markdown import anchors, rows

ROOT: Final = Path(__file__).resolve().parents[1]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
ROWS: Final = rows(README, "Figures")
_FIGURE: Final = re.compile(
    r"(?<![\w.,])(?:p\d+ |worst )?\d[\d,]*(?:\.\d+)? (?:ms|s|MB|bytes|%|a second)(?!\w)"
)


def figures(text: str) -> set[str]:
    """Return the numbers of a text that have a unit, with it and with the quantile before it."""
    return set(_FIGURE.findall(" ".join(text.split())))


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", README))
def test_a_link_leads_somewhere(target: str) -> None:
    path, _, anchor = target.partition("#")
    assert (ROOT / path).exists()
    assert not anchor or anchor in anchors((ROOT / path).read_text(encoding="utf-8"))


def test_a_figure_is_a_whole_number_with_its_unit() -> None:
    assert figures("p50 11 ms, p99 14 ms; 40.3 to\n40.9 MB, 48,400 a second, 0.3 % of a core, 5 minutes") == {
        "p50 11 ms",
        "p99 14 ms",
        "40.9 MB",
        "48,400 a second",
        "0.3 %",
    }


@pytest.mark.parametrize(("what", "measured", "by", "others"), ROWS)
def test_a_row_leads_to_the_page_that_has_its_figures(what: str, measured: str, by: str, others: str) -> None:
    link = re.fullmatch(r"\[.+\]\((docs/[\w/]+\.md)#[\w-]+\)", what)
    assert link is not None
    assert figures(measured)
    assert not re.search(r"\d", _FIGURE.sub("", measured))
    page = (ROOT / link[1]).read_text(encoding="utf-8")
    assert figures(f"{measured}; {others}") <= figures(page)
    assert re.search(measurement(by), page)


def measurement(command: str) -> str:
    """Return the pattern of how a page says the command of a row."""
    named = re.fullmatch(r"`(?:python -m benchmarks (\w+)|pytest --faults (tests/\S+\.py))`", command)
    assert named is not None, command
    if named[1]:
        assert named[1] in BENCHMARKS
        return rf"`python -m benchmarks (?:\w+ )*{named[1]}\b"
    assert (ROOT / named[2]).is_file()
    return re.escape(named[2])


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
