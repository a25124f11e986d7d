"""Which state of a broker's file counts while it is rewritten, broken or gone."""

from __future__ import annotations

import logging
from typing import TypeAlias

from sharedroutes.broker_agent.planner.events import Say
from sharedroutes.broker_agent.rocketmq.topics import TopicTable
from sharedroutes.broker_agent.topic_sources.file_state import GRACE_S, FileKeeper
from sharedroutes.broker_agent.topic_sources.files import MappingFile, TopicsFile
from tests.broker_agent.data_files import REAL, as_written, detail, mapping_json, topics_json

NEW, OLD = topics_json("a", "b", counter=7), topics_json("a", counter=6)
MISSING = FileNotFoundError()


TopicsKeeper: TypeAlias = FileKeeper[TopicTable]


def topics_keeper() -> TopicsKeeper:
    """Return a keeper that has read nothing."""
    return FileKeeper("topics.json", TopicsFile())


def held(keeper: TopicsKeeper) -> set[str] | None:
    """Return the topics that count, or None."""
    return None if keeper.table is None else set(keeper.table.topics)


def said(found: list[Say]) -> str:
    """Return what was said."""
    return "\n".join(item.text for item in found)


def keeper_of(content: bytes) -> TopicsKeeper:
    """Return a keeper that has read a good file."""
    keeper = topics_keeper()
    assert keeper.offer(content, 0.0) == []
    assert keeper.table is not None
    return keeper


def test_a_good_file_counts_at_once_and_once() -> None:
    keeper = keeper_of(NEW)
    first = keeper.table
    assert held(keeper) == {"a", "b"}
    assert keeper.offer(NEW, 1.0) == []
    assert keeper.table is first
    assert keeper.offer(OLD, 2.0) == []
    assert held(keeper) == {"a"}


def test_a_file_that_is_being_rewritten_is_passed_over_in_silence() -> None:
    keeper = keeper_of(OLD)
    for content in (MISSING, b"", NEW[:40], NEW[:-1]):
        assert keeper.offer(content, 1.0) == []
        assert not keeper.wants_backup(1.0)
        assert held(keeper) == {"a"}
    assert keeper.offer(NEW, 1.0) == []
    assert held(keeper) == {"a", "b"}


def test_a_file_that_stays_broken_is_reported_once_and_the_last_good_table_kept() -> None:
    keeper = keeper_of(NEW)
    keeper.offer(as_written({"orders": {"perm": 9, "order": 1}}), 1.0)
    assert keeper.wants_backup(1.0 + GRACE_S)
    found = keeper.offer_backup(OLD)
    assert held(keeper) == {"a", "b"}
    assert said(found) == (
        "topics.json has 2 problems; keeping the 2 topics read before, version 7:\n"
        "  $.topicConfigTable.orders.perm: 9 is not within 0..7\n"
        "  $.topicConfigTable.orders.order: expected true or false, got 1"
    )
    assert keeper.offer(as_written({"orders": {"perm": 9, "order": 1}}), 9.0) == []
    assert not keeper.wants_backup(9.0)


def test_a_topic_that_makes_no_sense_is_reported_once_and_the_others_count() -> None:
    keeper = keeper_of(NEW)
    odd = as_written({"a": {}, "wide": {"readQueueNums": -1}, "new": {}})
    assert said(keeper.offer(odd, 1.0)) == (
        "topics.json has a problem; that stays as it was or is left out, and the rest counts:\n"
        "  $.topicConfigTable.wide.readQueueNums: -1 is not within 0..65536"
    )
    assert held(keeper) == {"a", "new"}
    assert keeper.trouble == "topics.json: $.topicConfigTable.wide.readQueueNums: -1 is not within 0..65536"
    assert not keeper.wants_backup(1.0 + GRACE_S)
    assert keeper.offer(odd.replace(b'"new"', b'"newer"'), 2.0) == []
    assert said(keeper.offer(NEW, 3.0)) == "topics.json: all of it can be used again"
    assert keeper.trouble == ""


def test_many_problems_are_counted_and_the_first_ones_shown() -> None:
    keeper = keeper_of(NEW)
    (report,) = keeper.offer(as_written({"a": {}} | {f"odd-{n}": {"perm": 9} for n in range(25)}), 1.0)
    assert report.text.startswith("topics.json has 25 problems; ")
    assert report.text.endswith("\n  and 15 more")
    assert len(report.text.splitlines()) == 12


def test_a_file_that_stays_broken_is_trouble_until_it_is_good_again() -> None:
    keeper = keeper_of(NEW)
    keeper.offer(b"{", 1.0)
    assert keeper.trouble == ""
    keeper.offer_backup(MISSING)
    assert keeper.trouble.startswith("topics.json: $: is no JSON: ")
    keeper.offer(NEW, 2.0)
    assert keeper.trouble == ""


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
    keeper = topics_keeper()
    keeper.offer(MISSING, 0.0)
    assert not keeper.wants_backup(0.0)
    assert keeper.wants_backup(GRACE_S)
    found = keeper.offer_backup(OLD)
    assert held(keeper) == {"a"}
    assert "the file is missing; a broker writes it with its first topic" in said(found)
    assert "using the 1 topics of its .bak, version 6" in said(found)


def test_a_backup_that_is_newer_than_what_was_read_counts() -> None:
    keeper = keeper_of(OLD)
    keeper.offer(b"{", 0.0)
    keeper.offer_backup(NEW)
    assert held(keeper) == {"a", "b"}


def test_without_any_file_that_is_good_nothing_counts() -> None:
    keeper = topics_keeper()
    keeper.offer(PermissionError(13, "Permission denied"), 0.0)
    found = keeper.offer_backup(b"{")
    assert held(keeper) is None
    assert "the file cannot be read: Permission denied" in said(found)
    assert "its .bak cannot be used either; the broker is registered as soon as" in said(found)


def test_a_file_that_is_good_again_counts_and_is_said_to_be() -> None:
    keeper = keeper_of(NEW)
    keeper.offer(b"", 0.0)
    keeper.offer_backup(MISSING)
    found = keeper.offer(NEW, 5.0)
    assert held(keeper) == {"a", "b"}
    assert said(found) == "topics.json can be used again"


def test_topics_that_did_not_change_stay_the_same_objects() -> None:
    keeper = keeper_of(OLD)
    before = keeper.table
    keeper.offer(NEW, 0.0)
    assert before is not None
    assert keeper.table is not None
    assert keeper.table.topics["a"] is before.topics["a"]


def test_what_is_in_memory_of_another_kind_counts_as_bytes_do() -> None:
    keeper = keeper_of(NEW)
    first = keeper.table
    keeper.offer(memoryview(NEW), 1.0)
    assert keeper.table is first
    keeper.offer(memoryview(OLD), 1.0)
    assert held(keeper) == {"a"}


def test_what_a_real_broker_left_is_used_in_the_same_way() -> None:
    keeper = keeper_of((REAL / "topics.json.bak.before-shutdown").read_bytes())
    keeper.offer((REAL / "topics.json").read_bytes(), 1.0)
    table = keeper.table
    assert "static-orders" in (held(keeper) or ())
    assert keeper.offer(b"", 2.0) == []
    found = keeper.offer_backup((REAL / "topics.json.bak").read_bytes())
    assert keeper.table is table
    assert [item.level for item in found] == [logging.ERROR]


def test_queue_mappings_are_kept_in_the_same_way() -> None:
    keeper = FileKeeper("topicQueueMapping.json", MappingFile())
    keeper.offer(mapping_json({"a": detail([0, 1])}), 0.0)
    keeper.offer(b"{", 1.0)
    found = keeper.offer_backup(mapping_json({}, counter=0))
    assert keeper.table is not None
    assert set(keeper.table.mappings) == {"a"}
    assert "keeping the 1 queue mappings read before, version 1" in said(found)
