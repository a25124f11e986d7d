"""When a client reads and writes its snapshot, and what it does if it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharedroutes.client import snapshot
from sharedroutes.registry import ChangePage
from tests.client.fake_table import FakeTable
from tests.client.heard import Core

PLACE = "1700000000000-1"
TOO_LONG = "x" * 300
"""More than a file system takes for a name."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "routes.json"


def core_with(path: Path | None, table: FakeTable | None = None, **settings: Any) -> Core:
    core = Core(table, snapshot_path=path, jitter_s=0.0, refresh_s=30.0, **settings)
    core.follower.load_snapshot()
    return core


def learn(core: Core, now: float = 0.0, position: str = "0-0") -> None:
    """Let the client know topic t and all that is due."""
    core.follower.found_place(position, now)
    for request in (core.question(["t"], now).request, core.known.cache.due(now)):
        if request is not None:
            core.answer(request, now)


@pytest.fixture
def table() -> FakeTable:
    table = FakeTable()
    table.register("a", "t")
    return table


def test_the_next_client_begins_with_the_routes_of_the_last(path: Path, table: FakeTable) -> None:
    first = core_with(path, table)
    learn(first)
    assert first.save_due(0.0)
    first.follower.take_snapshot(0.0)()
    second = core_with(path, table)
    assert second.route("t") == table.route("t")
    assert second.health(0.0).source == "snapshot"


def test_the_next_client_goes_on_where_the_last_stopped(path: Path, table: FakeTable) -> None:
    table.register("b", "t")
    first = core_with(path, table)
    learn(first, position=PLACE)
    first.follower.take_snapshot(0.0)()
    second = core_with(path, table)
    assert second.known.stream.id == PLACE
    assert second.tail_due(0.0)
    second.hear(table.unregister("a"), now=0.0)
    assert second.route("t") == table.route("t")


def test_the_next_client_holds_back_what_a_store_lost_meanwhile(path: Path, table: FakeTable) -> None:
    table.register("b", "t")
    first = core_with(path, table)
    learn(first, position=PLACE)
    first.follower.take_snapshot(0.0)()
    before = first.route("t")
    table.expire("a")
    second = core_with(path, table)
    second.follower.found_page(ChangePage((), "0-0", lost=True, complete=True), 0.0)
    learn(second)
    assert second.route("t") == before
    assert second.health(0.0).held == ("a",)


def test_the_file_is_written_when_there_is_something_new_and_not_at_every_moment(
    path: Path, table: FakeTable
) -> None:
    core = core_with(path, table)
    assert not core.save_due(0.0)
    learn(core)
    core.follower.take_snapshot(0.0)()
    assert not core.save_due(10.0)
    table.register("a", "t")
    core.follower.found_place("0-0", 0.0)
    core.answer(core.known.cache.due(50.0), 0.5)
    assert not core.save_due(0.5)
    assert core.save_due(1.0)


def test_a_broker_that_gave_up_is_something_new(path: Path, table: FakeTable) -> None:
    core = core_with(path, table)
    learn(core)
    core.follower.take_snapshot(0.0)()
    core.hear(table.unregister("a"), now=0.5)
    assert core.save_due(1.0)


def test_nothing_is_written_while_losses_are_held_back(path: Path, table: FakeTable) -> None:
    core = core_with(path, table)
    learn(core)
    table.lose_everything()
    core.answer(core.known.cache.due(1.0), 1.0)
    assert core.health(1.0).held == ("a",)
    assert not core.save_due(2.0)


def test_a_file_that_cannot_be_read_is_said_and_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for unreadable in (tmp_path, tmp_path / TOO_LONG):
        assert core_with(unreadable).health(0.0).source == "none"
        assert f"the snapshot {unreadable} is not used" in caplog.text


def test_a_file_that_could_not_be_written_is_written_after_the_next_refresh(
    path: Path, table: FakeTable
) -> None:
    folder = path.parent / "folder"
    core = core_with(folder / "routes.json", table)
    learn(core)
    core.follower.take_snapshot(0.0)()
    folder.mkdir()
    learn(core, now=30.0)
    assert core.save_due(30.0)
    core.follower.take_snapshot(30.0)()
    known = snapshot.decode("sharedroutes", (folder / "routes.json").read_bytes())
    assert list(known.rows) == ["t"]
