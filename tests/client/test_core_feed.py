"""A listener of a client's feed is given every change once, and is told when some may be missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sharedroutes.registry import Change, CorruptData
from sharedroutes.registry.codec import encode_change
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.model import ChangeKind
from tests.client.heard import PLACE, Core

CHANGES = Keys("sharedroutes").changes
NEXT = "1700000000000-2"
UP = Change(kind=ChangeKind.UP, broker_name="a", epoch=1, change_id=NEXT)
KV = Change(kind=ChangeKind.KV, namespace="n", key="k", change_id=NEXT)


class Fed:
    """A listener that remembers, and asks the client, which must not be locked then."""

    def __init__(self, core: Core) -> None:
        self.told: list[Sequence[Change] | None] = []
        self._core = core
        core.known.feed = self.hear

    def hear(self, changes: Sequence[Change] | None) -> None:
        self._core.place()
        self._core.health(0.0)
        self.told.append(changes)


def test_a_place_in_the_stream_is_told_as_a_beginning() -> None:
    core = Core()
    fed = Fed(core)
    core.follower.found_place(PLACE, 0.0)
    assert fed.told == [None]


@pytest.mark.parametrize("change", [UP, KV])
def test_changes_are_told_of_a_page_and_of_a_doorbell_once_they_are_taken_in(change: Change) -> None:
    core = Core().begin()
    fed = Fed(core)
    core.hear(change)
    core.hear()
    assert fed.told == [(change,)]
    record = encode_change(change)
    core.follower.heard(f"{PLACE} {NEXT} ".encode() + record, 1.0)
    core.follower.heard(f"{PLACE} {NEXT} ".encode() + record, 1.0)
    assert fed.told == [(change,), (change,)]
    assert core.place() == NEXT


def test_what_is_lost_and_what_cannot_be_read_is_told_as_missed() -> None:
    core = Core().begin()
    fed = Fed(core)
    core.hear(lost=True)
    assert fed.told == [None]
    core.begin()
    core.follower.failed(CorruptData(CHANGES, "is a string"), 0.0)
    assert fed.told == [None, None, None]


def test_what_a_doorbell_says_while_there_is_no_stream_is_told() -> None:
    core = Core().begin()
    core.follower.failed(CorruptData(CHANGES, "is a string"), 0.0)
    fed = Fed(core)
    core.follower.heard(b"- - " + encode_change(UP), 0.0)
    assert fed.told == [(replace(UP, change_id="0-0"),)]
