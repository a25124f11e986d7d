"""Words for people."""

from __future__ import annotations

from sharedroutes.registry.wording import some


def test_the_first_names_are_told_and_how_many_more_there_are() -> None:
    names = [f"b{number}" for number in range(1_003)]
    assert some(names[:2], 3) == "b0, b1"
    assert some(names, 3) == "b0, b1, b2 and 1,000 more"
    assert some(names[:4], None, between=" ") == "b0 b1 b2 b3"
    assert some(names, 2, cut=lambda text: text[:3]) == "b0, and 1,001 more"
    assert some([], 3) == ""
