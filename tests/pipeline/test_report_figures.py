"""The plots show what they are given, and nothing else decides how they look."""

from __future__ import annotations

import base64
from typing import Final
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from sharedroutes.pipeline.report.figures import (
    Alive,
    Mark,
    Span,
    availability_map,
    broker_timeline,
    detection_curves,
    ladders,
    shares_alive,
)

SPAN: Final = Span(0, 96_000)
"""One column a second."""


def is_svg(url: str) -> bool:
    head, _, content = url.partition(",")
    assert head == "data:image/svg+xml;base64"
    return ET.fromstring(base64.b64decode(content)).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - ours


def test_the_share_of_each_column_is_the_time_alive_in_it() -> None:
    sessions = [Alive("a", 0, 3_250, "expired", 10_000), Alive("a", 10_000, 96_000, "open", 96_000)]
    (shares,) = shares_alive(sessions, {"a": 0}, SPAN)
    np.testing.assert_allclose(shares[:5], [1, 1, 1, 0.25, 0])
    assert shares[9] == 0
    assert (shares[10:] == 1).all()


def test_of_a_time_of_which_nothing_is_known_no_share_is_shown() -> None:
    sessions = [Alive("a", 1_500, 3_000, "unknown", 3_000), Alive("a", 10_250, 96_000, "open", 96_000)]
    (shares,) = shares_alive(sessions, {"a": 0}, SPAN)
    np.testing.assert_allclose(shares[:4], [np.nan, 1, 1, np.nan])
    np.testing.assert_allclose(shares[9:12], [np.nan, 1, 1])


def test_sessions_that_touch_fill_a_column_and_no_more() -> None:
    sessions = [Alive("a", 0, 500, "replaced", 500), Alive("a", 500, 96_000, "open", 96_000)]
    (shares,) = shares_alive(sessions, {"a": 0}, SPAN)
    np.testing.assert_allclose(shares, np.ones(96))


@pytest.mark.parametrize(
    "sessions", [[], [Alive("a", 0, 9, "open", 9)], [Alive("a", 0, 9, "a new kind of end", 12)]]
)
def test_brokers_are_drawn_whatever_there_is(sessions: list[Alive]) -> None:
    marks = [Mark("a", 5, "killed"), Mark("unknown", 5, "killed"), Mark("", 7, "store down")]
    assert is_svg(broker_timeline(sessions, marks, SPAN))
    assert is_svg(availability_map(sessions, SPAN))
    assert is_svg(availability_map(sessions, Span(5, 5)))


@pytest.mark.parametrize(
    "delays_s", [{}, {"a": []}, {"a": [None]}, {"a": [0.0]}, {"a": [0.1, 2.0, None], "b": [150.0]}]
)
def test_detection_is_drawn_whatever_there_is(delays_s: dict[str, list[float | None]]) -> None:
    assert is_svg(detection_curves(delays_s))


def test_an_end_that_did_not_become_known_counts_among_all_of_them() -> None:
    url = detection_curves({"told": [0.1, 2.0, None, None], "silent": [None] * 4, "nobody looked": []})
    drawn = base64.b64decode(url.partition(",")[2]).decode()
    assert "<!-- told: 2 of 4; p50 0.1 s, p95 2 s, p99 2 s -->" in drawn
    assert "<!-- silent: none of 4 -->" in drawn
    assert "nobody looked" not in drawn


@pytest.mark.parametrize(
    "steps", [{}, {"a": [(0.0, 0.0)]}, {"a": [(550.0, 2_000.0)], "b": [(1.0, 1.0), (9.0, 2.0)]}]
)
def test_ladders_are_drawn_whatever_there_is(steps: dict[str, list[tuple[float, float]]]) -> None:
    assert is_svg(ladders(steps))


def test_the_same_values_give_the_same_picture() -> None:
    sessions = [Alive("a", 0, 90_000, "open", 90_000)]
    assert broker_timeline(sessions, [], SPAN) == broker_timeline(sessions, [], SPAN)
