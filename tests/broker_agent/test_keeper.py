"""Which state of topics.json counts while it is rewritten, broken or gone."""

from __future__ import annotations

import logging

from sharedroutes.broker_agent.events import Say, TopicsLoaded
from sharedroutes.broker_agent.keeper import GRACE_S, TopicsKeeper
from tests.broker_agent.data_files import REAL, as_written, topics_json

NEW, OLD = topics_json("a", "b", counter=7), topics_json("a", counter=6)
MISSING = FileNotFoundError()


def loaded(found: list[TopicsLoaded | Say]) -> set[str] | None:
    """Return the topics of the table that was found, or None."""
    tables = [item.file.topics for item in found if isinstance(item, TopicsLoaded)]
    assert len(tables) <= 1
    return set(tables[0]) if tables else None


def said(found: list[TopicsLoaded | Say]) -> str:
    """Return what was said."""
    return "\n".join(item.text for item in found if isinstance(item, Say))


def keeper_of(content: bytes) -> TopicsKeeper:
    """Return a keeper that has read a good file."""
    keeper = TopicsKeeper("topics.json")
    assert loaded(keeper.offer(content, 0.0)) is not None
    return keeper


def test_a_good_file_counts_at_once_and_once() -> None:
    keeper = TopicsKeeper("topics.json")
    assert loaded(keeper.offer(NEW, 0.0)) == {"a", "b"}
    assert keeper.offer(NEW, 1.0) == []
    assert loaded(keeper.offer(OLD, 2.0)) == {"a"}


def test_a_file_that_is_being_rewritten_is_passed_over_in_silence() -> None:
    keeper = keeper_of(OLD)
    for content in (MISSING, b"", NEW[:40], NEW[:-1]):
        assert keeper.offer(content, 1.0) == []
        assert not keeper.wants_backup(1.0)
    assert loaded(keeper.offer(NEW, 1.0)) == {"a", "b"}


def test_a_file_that_stays_broken_is_reported_once_and_the_last_good_table_kept() -> None:
    keeper = keeper_of(NEW)
    keeper.offer(as_written({"orders": {"perm": 9, "order": 1}}), 1.0)
    assert keeper.wants_backup(1.0 + GRACE_S)
    found = keeper.offer_backup(OLD)
    assert loaded(found) is None
    assert said(found) == (
        "topics.json has 2 problems; keeping the 2 topics read before, version 7:\n"
        "  $.topicConfigTable.orders.perm: 9 is not within 0..7\n"
        "  $.topicConfigTable.orders.order: expected true or false, got 1"
    )
    assert keeper.offer(as_written({"orders": {"perm": 9, "order": 1}}), 9.0) == []
    assert not keeper.wants_backup(9.0)


def test_another_broken_content_is_reported_anew() -> None:
    keeper = keeper_of(NEW)
    for content, since_s in ((b"", 1.0), (b"{", 10.0)):
        keeper.offer(content, since_s)
        assert not keeper.wants_backup(since_s)
        assert keeper.wants_backup(since_s + GRACE_S)
        assert "topics.json has a problem" in said(keeper.offer_backup(MISSING))


def test_a_file_that_breaks_in_ever_new_ways_is_reported_in_time() -> None:
    keeper = keeper_of(NEW)
    for step in range(4):
        keeper.offer(b"{" * (step + 1), step * GRACE_S / 3)
    assert keeper.wants_backup(GRACE_S)


def test_without_a_table_the_backup_counts_after_the_grace() -> None:
    keeper = TopicsKeeper("topics.json")
    keeper.offer(MISSING, 0.0)
    assert not keeper.wants_backup(0.0)
    assert keeper.wants_backup(GRACE_S)
    found = keeper.offer_backup(OLD)
    assert loaded(found) == {"a"}
    assert "the file is missing; a broker writes it with its first topic" in said(found)
    assert "using the 1 topics of its .bak, version 6" in said(found)


def test_a_backup_that_is_newer_than_what_was_read_counts() -> None:
    keeper = keeper_of(OLD)
    keeper.offer(b"{", 0.0)
    assert loaded(keeper.offer_backup(NEW)) == {"a", "b"}


def test_without_any_file_that_is_good_nothing_counts() -> None:
    keeper = TopicsKeeper("topics.json")
    keeper.offer(PermissionError(13, "Permission denied"), 0.0)
    found = keeper.offer_backup(b"{")
    assert loaded(found) is None
    assert "the file cannot be read: Permission denied" in said(found)
    assert "its .bak cannot be used either" in said(found)


def test_a_file_that_is_good_again_counts_and_is_said_to_be() -> None:
    keeper = keeper_of(NEW)
    keeper.offer(b"", 0.0)
    keeper.offer_backup(MISSING)
    found = keeper.offer(NEW, 5.0)
    assert loaded(found) == {"a", "b"}
    assert said(found) == "topics.json can be used again"


def test_topics_that_did_not_change_stay_the_same_objects() -> None:
    keeper = TopicsKeeper("topics.json")
    before, after = keeper.offer(OLD, 0.0)[0], keeper.offer(NEW, 0.0)[0]
    assert isinstance(before, TopicsLoaded)
    assert isinstance(after, TopicsLoaded)
    assert after.file.topics["a"] is before.file.topics["a"]


def test_another_permission_of_the_broker_makes_another_table() -> None:
    keeper = keeper_of(NEW)
    keeper.permit(6)
    assert keeper.offer(NEW, 1.0) == []
    keeper.permit(4)
    (found,) = keeper.offer(NEW, 2.0)
    assert isinstance(found, TopicsLoaded)
    assert {config.perm for config in found.file.topics.values()} == {4}


def test_what_a_real_broker_left_is_used_in_the_same_way() -> None:
    keeper = keeper_of((REAL / "topics.json.bak.before-shutdown").read_bytes())
    assert loaded(keeper.offer((REAL / "topics.json").read_bytes(), 1.0)) >= {"static-orders"}  # type: ignore[operator]
    problem = keeper.offer(b"", 2.0)
    assert problem == []
    found = keeper.offer_backup((REAL / "topics.json.bak").read_bytes())
    assert loaded(found) is None
    assert [item.level for item in found if isinstance(item, Say)] == [logging.ERROR]
