"""The timeline and the lines that a person sees."""

from __future__ import annotations

import io
from typing import Final

from rich.console import Console

from demo.scenario import BROKERS
from demo.show import SLOT_S, Show, cells
from demo.timeline import store_cells
from tests.demo.records import try_of

FULL: Final = 8


def test_a_column_is_as_high_as_the_messages_that_were_acknowledged_in_it() -> None:
    tries = [try_of(n, "broker-a", 100.1) for n in range(8)]
    tries += [try_of(n, "broker-a", 100.1 + 2 * SLOT_S) for n in range(4)]
    tries += [try_of(9, "broker-b", 100.2, failed=True)]
    strips = cells(tries, 100.0, FULL, 0, 3)
    assert strips == {"broker-a": "█·▅·", "broker-b": "x···", "broker-c": "····"}


def test_more_than_expected_is_as_high_as_it_gets() -> None:
    tries = [try_of(n, "broker-a", 100.1) for n in range(FULL * 3)]
    assert cells(tries, 100.0, FULL, 0, 0)["broker-a"] == "█"


def test_the_timeline_moves_on() -> None:
    tries = [try_of(0, "broker-a", 100.1), *(try_of(n, "broker-a", 100.6) for n in range(8))]
    assert cells(tries, 100.0, FULL, 1, 2)["broker-a"] == "█·"


def test_the_line_of_the_store_shows_when_it_ran() -> None:
    changes = [(0.0, True), (2 * SLOT_S, False), (3.5 * SLOT_S, True)]
    assert store_cells(changes, 0, 4, SLOT_S) == "█··██"
    assert store_cells(changes, 2, 3, SLOT_S) == "·█"


def test_where_there_is_no_terminal_the_timeline_is_printed_once_at_the_end() -> None:
    text = io.StringIO()
    show = Show(Console(file=text, width=20))
    with show.on():
        show.say("a long line that a narrow reader [gets] in one piece")
        show.seen("gone from the client's routes", 0.25, 5.0)
        show.seen("gone from the client's routes", None, 5.0)
        show.store(up=False)
    lines = text.getvalue().splitlines()
    assert [line.partition(" s  ")[2].strip() for line in lines[:3]] == [
        "a long line that a narrow reader [gets] in one piece",
        "gone from the client's routes after 0.25 s (at most 5)",
        "NOT SEEN within 5 s: gone from the client's routes",
    ]
    assert [line.split()[0] for line in lines[3:8]] == [*BROKERS, "Redis", "routes"]


def test_on_a_terminal_the_timeline_is_drawn() -> None:
    text = io.StringIO()
    with Show(Console(file=text, width=60, force_terminal=True)).on():
        pass
    assert all(name in text.getvalue() for name in ("broker-a", "broker-b", "broker-c", "Redis", "routes"))


def test_the_timeline_ends_with_its_legend_in_80_columns() -> None:
    text = io.StringIO()
    with Show(Console(file=text, width=80)).on():
        pass
    lines = text.getvalue().splitlines()
    assert lines[-1] == "▁▂▃▄▅▆▇█ acknowledged in 0.5 s  x failed only  · nothing sent, or Redis down"
    assert max(map(len, lines)) <= 80
