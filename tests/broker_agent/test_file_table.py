"""Which state of a broker's file counts while it is rewritten, broken or gone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from sharedroutes.broker_agent.rocketmq.topics import TopicTable
from sharedroutes.broker_agent.topic_sources.files import GRACE_S, MAPPINGS, TOPICS, FileTable
from tests.broker_agent.data_files import REAL, as_written, detail, mapping_json, topics_json

NEW, OLD = topics_json("a", "b", counter=7), topics_json("a", counter=6)
MISSING = FileNotFoundError()


TopicsFile: TypeAlias = FileTable[TopicTable]
Said: TypeAlias = Callable[[], str]


def nothing_read() -> TopicsFile:
    """Return a file of which nothing was read."""
    return FileTable(Path("topics.json"), TOPICS)


def held(file: TopicsFile) -> set[str] | None:
    """Return the topics that count, or None."""
    return None if file.table is None else set(file.table.topics)


@pytest.fixture
def said(logs: pytest.LogCaptureFixture) -> Said:
    """Return what returns all that was logged since it was asked last."""

    def taken() -> str:
        text = "\n".join(logs.messages)
        logs.clear()
        return text

    return taken


def file_of(content: bytes) -> TopicsFile:
    """Return a file whose content was good."""
    file = nothing_read()
    file.offer(content, 0.0)
    assert file.table is not None
    return file


def test_a_good_file_counts_at_once_and_once(said: Said) -> None:
    file = file_of(NEW)
    first = file.table
    assert held(file) == {"a", "b"}
    file.offer(NEW, 1.0)
    assert said() == ""
    assert file.table is first
    file.offer(OLD, 2.0)
    assert said() == ""
    assert held(file) == {"a"}


def test_a_file_that_is_being_rewritten_is_passed_over_in_silence(said: Said) -> None:
    file = file_of(OLD)
    for content in (MISSING, b"", NEW[:40], NEW[:-1]):
        file.offer(content, 1.0)
        assert said() == ""
        assert not file.wants_backup(1.0)
        assert held(file) == {"a"}
    file.offer(NEW, 1.0)
    assert said() == ""
    assert held(file) == {"a", "b"}


def test_a_file_that_stays_broken_is_reported_once_and_the_last_good_table_kept(said: Said) -> None:
    file = file_of(NEW)
    file.offer(as_written({"orders": {"perm": 9, "order": 1}}), 1.0)
    assert file.wants_backup(1.0 + GRACE_S)
    file.offer_backup(OLD)
    assert held(file) == {"a", "b"}
    assert said() == (
        "topics.json has 2 problems; keeping the 2 topics read before, version 7:\n"
        "  $.topicConfigTable.orders.perm: 9 is not within 0..7\n"
        "  $.topicConfigTable.orders.order: expected true or false, got 1"
    )
    file.offer(as_written({"orders": {"perm": 9, "order": 1}}), 9.0)
    assert said() == ""
    assert not file.wants_backup(9.0)


def test_a_topic_that_makes_no_sense_is_reported_once_and_the_others_count(said: Said) -> None:
    file = file_of(NEW)
    odd = as_written({"a": {}, "wide": {"readQueueNums": -1}, "new": {}})
    file.offer(odd, 1.0)
    assert said() == (
        "topics.json has a problem; that stays as it was or is left out, and the rest counts:\n"
        "  $.topicConfigTable.wide.readQueueNums: -1 is not within 0..65536"
    )
    assert held(file) == {"a", "new"}
    assert file.trouble == "topics.json: $.topicConfigTable.wide.readQueueNums: -1 is not within 0..65536"
    assert not file.wants_backup(1.0 + GRACE_S)
    file.offer(odd.replace(b'"new"', b'"newer"'), 2.0)
    assert said() == ""
    file.offer(NEW, 3.0)
    assert said() == "topics.json: all of it can be used again"
    assert file.trouble == ""


def test_many_problems_are_counted_and_the_first_ones_shown(said: Said) -> None:
    file = file_of(NEW)
    file.offer(as_written({"a": {}} | {f"odd-{n}": {"perm": 9} for n in range(25)}), 1.0)
    report = said()
    assert report.startswith("topics.json has 25 problems; ")
    assert report.endswith("\n  and 15 more")
    assert len(report.splitlines()) == 12


def test_a_file_that_stays_broken_is_trouble_until_it_is_good_again() -> None:
    file = file_of(NEW)
    file.offer(b"{", 1.0)
    assert file.trouble == ""
    file.offer_backup(MISSING)
    assert file.trouble.startswith("topics.json: $: is no JSON: ")
    file.offer(NEW, 2.0)
    assert file.trouble == ""


def test_another_broken_content_is_reported_anew(said: Said) -> None:
    file = file_of(NEW)
    for content, since_s in ((b"", 1.0), (b"{", 10.0)):
        file.offer(content, since_s)
        assert not file.wants_backup(since_s)
        assert file.wants_backup(since_s + GRACE_S)
        file.offer_backup(MISSING)
        assert "topics.json has a problem" in said()


def test_a_file_that_breaks_in_ever_new_ways_is_reported_in_time() -> None:
    file = file_of(NEW)
    for step in range(4):
        file.offer(b"{" * (step + 1), step * GRACE_S / 3)
    assert file.wants_backup(GRACE_S)


def test_without_a_table_the_backup_counts_after_the_grace(said: Said) -> None:
    file = nothing_read()
    file.offer(MISSING, 0.0)
    assert not file.wants_backup(0.0)
    assert file.wants_backup(GRACE_S)
    file.offer_backup(OLD)
    assert held(file) == {"a"}
    report = said()
    assert "the file is missing; a broker writes it with its first topic" in report
    assert "using the 1 topics of its .bak, version 6" in report


def test_a_backup_that_is_newer_than_what_was_read_counts() -> None:
    file = file_of(OLD)
    file.offer(b"{", 0.0)
    file.offer_backup(NEW)
    assert held(file) == {"a", "b"}


def test_without_any_file_that_is_good_nothing_counts(said: Said) -> None:
    file = nothing_read()
    file.offer(PermissionError(13, "Permission denied"), 0.0)
    file.offer_backup(b"{")
    assert held(file) is None
    report = said()
    assert "the file cannot be read: Permission denied" in report
    assert "its .bak cannot be used either; the broker is registered as soon as" in report


def test_a_file_that_is_good_again_counts_and_is_said_to_be(said: Said) -> None:
    file = file_of(NEW)
    file.offer(b"", 0.0)
    file.offer_backup(MISSING)
    said()
    file.offer(NEW, 5.0)
    assert held(file) == {"a", "b"}
    assert said() == "topics.json can be used again"


def test_what_is_in_memory_of_another_kind_counts_as_bytes_do() -> None:
    file = file_of(NEW)
    first = file.table
    file.offer(memoryview(NEW), 1.0)
    assert file.table is first
    file.offer(memoryview(OLD), 1.0)
    assert held(file) == {"a"}


def test_what_a_real_broker_left_is_used_in_the_same_way(said: Said, logs: pytest.LogCaptureFixture) -> None:
    file = file_of((REAL / "topics.json.bak.before-shutdown").read_bytes())
    file.offer((REAL / "topics.json").read_bytes(), 1.0)
    table = file.table
    assert "static-orders" in (held(file) or ())
    file.offer(b"", 2.0)
    assert said() == ""
    file.offer_backup((REAL / "topics.json.bak").read_bytes())
    assert file.table is table
    assert [record.levelno for record in logs.records] == [logging.ERROR]


def test_queue_mappings_are_kept_in_the_same_way(said: Said) -> None:
    file = FileTable(Path("topicQueueMapping.json"), MAPPINGS)
    file.offer(mapping_json({"a": detail([0, 1])}), 0.0)
    file.offer(b"{", 1.0)
    file.offer_backup(mapping_json({}, counter=0))
    assert file.table is not None
    assert set(file.table.mappings) == {"a"}
    assert "keeping the 1 queue mappings read before, version 1" in said()
