"""The page as a document: what it says, what it escapes, and that it stays small."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharedroutes.daemon.status_page import html
from sharedroutes.daemon.status_page.model import Fault, Page, Section, Table
from sharedroutes.daemon.status_page.page import Look, page_of
from sharedroutes.registry.plans.overview import Names
from tests.status_page.views import NOW_MS, overview_of, process
from tests.support import examples

SMALL: Final = overview_of(["broker-a", "broker-b"], ["orders", "mails"])
MOST_BYTES: Final = 200_000
HOSTILE: Final = (
    "<script>alert(1)</script>",
    "'\" onmouseover=alert(1) x='",
    "</title></style></script><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&#60;",
    "\u202egnp.exe\u2066",
    "a\x00b\x1bc\ud800",
    "javascript:alert(1)",
    "x" * 4_000,
)
VOID: Final = {"meta", "link", "input"}


class Read(HTMLParser):
    """A document as a browser reads it: its elements, with what they say."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"{tag} is not what was open"

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & {*self.open}:
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


def read(look: Look, part: str = "", **said: Any) -> Read:
    found = Read(html.whole(page_of(process(**said), look, part)).decode())
    assert found.open == []
    return found


def section(page: Page, anchor: str) -> Section:
    (found,) = [one for one in page.sections if one.anchor == anchor]
    return found


def texts(table: Table) -> list[tuple[str, ...]]:
    return [tuple(cell.text for cell in row) for row in table.rows]


def test_it_shows_brokers_leases_topics_the_feed_and_what_changed() -> None:
    page = page_of(process(), Look(SMALL))
    assert texts(section(page, "brokers").table)[0] == (
        *("broker-a", "broker-a", "0, master", "10.0.0.1:10911", "9 s left", "alive"),
    )
    assert texts(section(page, "topics").table)[0] == ("orders", "broker-a, broker-b", "8", "8", "served")
    assert texts(section(page, "changes").table) == [
        ("0 s ago", "up", "broker-a:0", "at 10.0.0.1:10911", "10.0.0.1:10911"),
        ("5 s ago", "topics", "broker-a:0", "2 added: orders, mails", ""),
        ("9 s ago", "down", "broker-a:0", "10.0.0.1:10911", ""),
    ]
    assert ("Changes that are kept", "3") in texts(section(page, "feed").table)
    assert texts(section(page, "faults").table) == [("broker-a", "1 client cannot reach it: 10.0.0.1:10911")]


def test_leases_run_down_and_changes_grow_old_while_the_store_is_silent() -> None:
    page = page_of(process(), Look(SMALL, age_s=4.0, error="it is away"))
    assert texts(section(page, "brokers").table)[0][4] == "5 s left"
    assert texts(section(page, "changes").table)[0][0] == "4 s ago"
    assert texts(section(page, "faults").table)[0] == ("store", "it is away; below is what it said 4 s ago")
    assert texts(section(page_of(process(), Look(SMALL, age_s=10.0)), "brokers").table)[0][4] == "due"


def test_a_store_that_never_answered_leaves_what_the_process_knows() -> None:
    page = page_of(process(unready=("it is starting",)), Look(error="it is away"))
    assert [one.anchor for one in page.sections] == ["faults"]
    assert texts(section(page, "faults").table) == [("not ready", "it is starting"), ("store", "it is away")]
    assert (page.tiles[0].value, page.tiles[0].level) == ("not ready", "bad")


def test_the_worst_faults_come_first_and_not_too_many_of_them() -> None:
    faults = [Fault("warn", f"w{number}", "") for number in range(60)] + [Fault("bad", "b", "")]
    found = texts(section(page_of(process(faults=faults), Look()), "faults").table)
    assert found[0] == ("b", "")
    assert found[-1] == ("more", "11 more are not shown")
    assert len(found) == 51


def test_brokers_that_are_away_are_told_by_name() -> None:
    alive = {name: data for name, data in SMALL.table.alive.items() if name != "broker-b"}
    page = page_of(process(), Look(replace(SMALL, away=1, table=replace(SMALL.table, alive=alive))))
    assert ("away", "1 broker has no live replica: broker-b") in texts(section(page, "faults").table)
    assert texts(section(page, "brokers").table)[1][2:] == ("0, master", "", "ended", "away")
    gone = page_of(process(), Look(replace(SMALL, table=replace(SMALL.table, alive={}))))
    assert {row[-1] for row in texts(section(gone, "topics").table)} == {"no live broker"}


def test_topics_of_wiped_brokers_take_no_messages() -> None:
    wiped = {name: replace(data, wiped=True) for name, data in SMALL.table.alive.items()}
    page = page_of(process(), Look(replace(SMALL, table=replace(SMALL.table, alive=wiped))))
    assert texts(section(page, "topics").table)[0][2:] == ("0", "8", "takes no messages")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_names_addresses_and_texts_stay_text(hostile: str) -> None:
    look = Look(overview_of([hostile], [hostile], hostile), error=hostile)
    said = {"place": hostile, "store": hostile, "namespace": hostile, "unready": (hostile,)}
    found, usual = read(look, hostile, **said), read(Look(SMALL, error="e"), "p", **dict.fromkeys(said, "x"))
    assert {tag for tag, _ in found.elements} <= {tag for tag, _ in usual.elements}
    names = {name for _, attrs in usual.elements for name in attrs}
    assert {name for _, attrs in found.elements for name in attrs} <= names | {"title"}
    assert not any(name.startswith("on") for _, attrs in found.elements for name in attrs)
    assert {attrs["href"] for attrs in found.all("a")} == {attrs["href"] for attrs in usual.all("a")}
    assert hostile.encode(errors="replace").decode()[:100] in "".join(found.text)


@settings(max_examples=examples(200), deadline=None)
@given(st.text(max_size=400), st.text(max_size=400))
def test_no_text_opens_an_element(name: str, part: str) -> None:
    found = read(Look(overview_of([name], [name], name)), part)
    assert len(found.all("script")) == len(found.all("style")) == 1


def test_a_large_registry_makes_a_small_page() -> None:
    long = "n" * 100
    found = overview_of(
        [f"{long}-{number}" for number in range(500)], [f"{long}-{number}" for number in range(10_000)]
    )
    page = page_of(process(), Look(found))
    assert len(html.whole(page)) < MOST_BYTES
    assert section(page, "topics").note == "The first 50 of 10,000; a filter finds the others."
    assert section(page, "brokers").note == "The first 50 of 500; a filter finds the others."
    assert len(section(page, "topics").table.rows) == 50


def test_a_filter_is_shown_again_with_a_way_back() -> None:
    found = read(Look(replace(SMALL, topics=Names((), 0, 2))), "or<d")
    (field,) = found.all("input")
    assert field["value"] == "or<d"
    assert "?" in {attrs["href"] for attrs in found.all("a")}
    assert "No topic." in "".join(found.text)
    assert "?" not in {attrs["href"] for attrs in read(Look(SMALL)).all("a")}


def test_everything_stands_in_the_document_for_who_has_no_javascript_and_no_eyes() -> None:
    found = read(Look(SMALL))
    assert {"http-equiv": "refresh", "content": "10"} in found.all("meta")
    assert [tag for tag, _ in found.elements if re.fullmatch("h[1-6]", tag)] == ["h1"] + ["h2"] * 5
    tables = found.all("table")
    assert len(found.all("caption")) == len(tables) == 5
    assert {attrs.get("scope") for attrs in found.all("th")} == {"col", "row"}
    titles = {attrs["id"] for attrs in found.all("h2")}
    assert {
        attrs["aria-labelledby"] for attrs in found.all("section") if "aria-labelledby" in attrs
    } == titles
    assert found.all("label") == [{"for": "q"}]
    anchors = {attrs["href"] for attrs in found.all("a") if (attrs["href"] or "").startswith("#")}
    assert {anchor.removeprefix("#") for anchor in anchors if anchor} <= {
        a["id"] for a in found.all("section")
    }


def test_it_brings_all_that_it_needs_and_allows_nothing_else() -> None:
    document = html.whole(page_of(process(), Look(SMALL))).decode()
    found = Read(document)
    assert not any("src" in attrs or "style" in attrs for _, attrs in found.elements)
    assert [attrs["href"] for attrs in found.all("link")] == ["data:,"]
    assert "http" not in re.sub(r"http-equiv", "", document)
    assert "unsafe" not in html.policy()
    assert html.policy().startswith("default-src 'none';")


def test_times_that_are_no_times_are_said() -> None:
    odd = tuple(replace(change, change_id="99999999999999999999-0") for change in SMALL.changes)
    page = page_of(process(), Look(replace(SMALL, changes=odd)))
    assert texts(section(page, "changes").table)[0][0] == "at no time"
    exact = section(page_of(process(), Look(SMALL)), "changes").table.rows[0][0].more
    assert exact == "2026-11-23 09:43:20 UTC"
    assert NOW_MS == 1_795_427_000_000
