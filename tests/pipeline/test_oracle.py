"""The loops that random answers are compared with, by what was worked out by hand."""

from __future__ import annotations

from typing import Final

from tests.pipeline.answering import Row, down, kv, topics, up
from tests.pipeline.oracle import Topics, eras_of, low_times, sessions_of, silences_of

FEWER: Final[list[Row]] = [
    *(topics(0, broker, added=["three"]) for broker in "abc"),
    topics(0, "a", added=["one"]),
    *(up(10, broker) for broker in "abc"),
    down(100, "a"),
    down(200, "b"),
    down(300, "c"),
    up(400, "c", epoch=2),
    up(500, "b", epoch=2),
    up(600, "a", epoch=2),
    kv(700, "x"),
]


def test_fewer_than_n_counts_only_while_somebody_is_away() -> None:
    eras = eras_of([{**row, "change_id": str(place)} for place, row in enumerate(FEWER)])
    found = low_times(Topics(eras), silences_of(eras, sessions_of(eras)), 2)
    assert list(found) == [
        ("one", 100, 600, True, 1, 0, ["a"], ["clean"], []),
        # Two of three from 100 on, one from 200 on, none from 300 on, one from 400 on, two from 500 on.
        ("three", 200, 500, True, 3, 0, ["b"], ["clean"], ["a clean"]),
    ]
