"""What a terminal has shown becomes a picture that moves, and loads nothing."""

from __future__ import annotations

import re
from html import unescape
from io import BytesIO
from typing import Final
from xml.parsers import expat

import pyte
import pytest

from tests.markdown import DOCS
from tools.animation import Frame, animated

RECORDING: Final = DOCS / "watch.svg"


def frames(*shown: str) -> list[Frame]:
    """Return a frame a second, each of what a terminal shows that was sent this."""
    screen = pyte.Screen(20, 2)
    stream = pyte.Stream(screen)
    made = []
    for at_s, text in enumerate(shown):
        screen.reset()
        stream.feed(text)
        made.append(Frame.of(screen, float(at_s), "caption"))
    return made


def parts(svg: str) -> dict[str, str]:
    """Return the texts of a picture, each with the class of when it is to be seen; raises ExpatError."""
    expat.ParserCreate().ParseFile(BytesIO(svg.encode()))
    groups = re.findall(r'<g(?: class="([^"]*)")?>(.*?)</g>', svg)
    return {unescape(re.sub("<[^>]*>", "", inside)): classes for classes, inside in groups}


def test_what_stays_is_drawn_once_and_is_always_there() -> None:
    found = parts(animated(frames("title\r\none", "title\r\ntwo"), "t", "m"))
    assert found["title"] == found["caption"] == ""
    assert found["one"] != found["two"]


def test_what_comes_and_goes_is_to_be_seen_at_its_time() -> None:
    svg = animated(frames("one", "two", "one"), "t", "m")
    found = parts(svg)
    assert list(found) == ["one", "two", "caption"]
    rules = dict(re.findall(r"@keyframes (k\d+)\{(.*)\}\n", svg))
    one, two = (rules[found[text].split()[1]] for text in ("one", "two"))
    assert one == (
        "0.00%{visibility:visible}25.00%{visibility:hidden}50.00%{visibility:visible}100.00%{visibility:hidden}"
    )
    assert two == "0.00%{visibility:hidden}25.00%{visibility:visible}50.00%{visibility:hidden}"


def test_who_wants_no_motion_sees_the_end() -> None:
    svg = animated(frames("one", "two"), "t", "m")
    still = dict(re.findall(r"^\.(k\d+)\{visibility:(\w+)", svg, re.MULTILINE))
    assert [still[parts(svg)[text].split()[1]] for text in ("one", "two")] == ["hidden", "visible"]
    assert "@media(prefers-reduced-motion:reduce){.m{animation:none!important}}" in svg


@pytest.mark.parametrize(
    ("sent", "style"),
    [
        ("\x1b[31mred", "fill:#ff6b6b"),
        ("\x1b[38;2;1;2;3mtrue", "fill:#010203"),
        ("\x1b[31;7mred", "fill:#14171c"),
    ],
)
def test_colours_are_those_of_the_terminal(sent: str, style: str) -> None:
    assert f' style="{style}">' in animated(frames(sent), "t", "m")


def test_marks_of_xml_are_text() -> None:
    assert "a <b> & c" in parts(animated(frames("a <b> & c"), "t", "m"))


def test_the_recording_tells_the_scene_is_small_and_loads_nothing() -> None:
    svg = RECORDING.read_text(encoding="utf-8")
    assert len(svg.encode()) < 300_000
    text = "\n".join(parts(svg))
    for shown in (
        "dead: broker gone",
        "no live broker has it",
        "3 live, 0 dead",
        "2 live, 1 dead",
        "kill -9",
    ):
        assert shown in text
    assert re.findall(r"https?://[^\"]+", svg) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<script|url\(|@import|href=", svg)
