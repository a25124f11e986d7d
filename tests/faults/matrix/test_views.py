"""A follower is awaited until it was told of the newest change, and of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sharedroutes.registry import ChangeKind
from tests.faults.checker.history import Item, Record, Replica, TableContent, Writer
from tests.faults.matrix.views import FollowerView

BEFORE: Final = TableContent((), {"broker-a": ("orders",)})
AFTER: Final = TableContent((Replica("broker-a", 0, "127.0.0.1:1"),), BEFORE.topics)


def test_a_follower_knows_what_it_was_told(tmp_path: Path) -> None:
    view = FollowerView(tmp_path / "follower.jsonl")
    assert not view.knows(BEFORE, "0-0")
    with Writer(tmp_path, "follower") as history:
        history.write(Item(kind="reset", id="5-0", reason="start", table=BEFORE))
        assert view.knows(BEFORE, "5-0")
        assert not view.knows(BEFORE, "6-0")
        assert not view.knows(AFTER, "5-0")
        up = Record(kind=ChangeKind.UP, broker="broker-a", epoch=1, address="127.0.0.1:1")
        history.write(Item(kind="change", id="6-0", record=up))
        assert view.knows(AFTER, "6-0")
