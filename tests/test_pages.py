"""Every page under docs/ answers a question in few lines, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.markdown import DOCS, anchors, check_links

PAGES: Final = sorted(DOCS.rglob("*.md"))
LONGEST_LINES: Final = 300
WRITTEN: Final = [page for page in PAGES if page != DOCS / "cli.md"]
"""All but the one that is as long as there are commands."""


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_a_page_is_short(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= LONGEST_LINES


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    check_links(page.read_text(encoding="utf-8"), page.parent)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_link_says_in_words_where_it_leads(page: Path) -> None:
    assert re.findall(r"\[[\w/-]+\.md\]\(", page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_source_is_a_version_that_stays_as_it_is(page: Path) -> None:
    moving = r"https://github\.com/[^)\s]+/(?:blob|tree)/(?:main|master|develop|trunk)/|/doc/current/"
    assert re.findall(moving, page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_no_two_headings_have_the_same_anchor(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^#+ ", outside, re.MULTILINE)) == len(anchors(outside))


@pytest.mark.parametrize("folder", [path for path in DOCS.iterdir() if any(path.glob("*.md"))], ids=name_of)
def test_a_guide_leads_to_each_of_its_pages(folder: Path) -> None:
    entrance = folder.with_suffix(".md")
    if not entrance.is_file():  # howto/, reference/, explanation/: the site has lists of them
        entrance = DOCS / "index.md"
    text = entrance.read_text(encoding="utf-8")
    missing = [page.name for page in folder.glob("*.md") if f"({folder.name}/{page.name}" not in text]
    assert missing == []
