"""The same seed breaks the same things in the same order, and everything in turn."""

from __future__ import annotations

from itertools import islice
from typing import Final

from tests.faults.matrix.kinds.all import KINDS
from tests.faults.matrix.schedule import rounds

ALL: Final = list(KINDS.values())


def drawn(seed: int, deployment: str = "aof", count: int = 3 * len(ALL)) -> list[tuple[float, list[str]]]:
    """Return the names of the faults of each round, and a number that its generator draws."""
    found = islice(rounds(seed, deployment, ALL), count)
    return [(rng.random(), [kind.name for kind in chosen]) for rng, chosen in found]


def test_a_seed_is_a_schedule() -> None:
    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)
    assert drawn(7) != drawn(7, "cluster")


def test_every_kind_has_its_turn_before_one_comes_again() -> None:
    names = [chosen[0] for _, chosen in drawn(7)]
    for turn in range(3):
        assert sorted(names[turn * len(ALL) : (turn + 1) * len(ALL)]) == sorted(KINDS)


def pairs(seed: int, count: int = 3 * len(ALL)) -> list[list[str]]:
    return [chosen for _, chosen in drawn(seed, count=count) if len(chosen) > 1]


def test_two_faults_together_are_of_different_areas() -> None:
    assert pairs(7)
    assert not any(KINDS[first].areas & KINDS[second].areas for first, second in pairs(7))


def test_the_follower_reaches_the_store_while_something_else_is_in_the_place_of_the_stream() -> None:
    together = {of for pair in pairs(7, 900 * len(ALL)) if "corrupt-stream" in pair for of in pair}
    assert {"kill-broker", "kill-client", "topics-half"} < together
    apart = {"kill-follower", "pause-follower", "cut", "half-open", "deaf", "pause-store", "kill-store"}
    assert apart < KINDS.keys()
    assert not apart & together


def test_nothing_keeps_the_stream_from_telling_fronts_that_a_topic_is_deleted_for_good() -> None:
    together = {of for pair in pairs(7, 900 * len(ALL)) if "delete-for-good" in pair for of in pair}
    assert {"cut", "topics-half"} < together
    assert not {"kill-store", "trim-stream", "delete-stream", "corrupt-listing"} & together


def test_every_kind_says_what_it_does() -> None:
    assert all(kind.meaning.endswith(".") for kind in KINDS.values())
