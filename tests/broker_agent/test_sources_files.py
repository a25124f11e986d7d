"""Topics from real files, while they are rewritten as RocketMQ does it, broken, gone and large."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.broker_agent.rocketmq.topics import MappingTable, TopicTable, parse, parse_mappings
from sharedroutes.broker_agent.topic_sources import files
from sharedroutes.broker_agent.topic_sources.files import FileTable, FileTopics
from sharedroutes.broker_agent.topic_sources.source import EffectiveTopics
from sharedroutes.registry import QueueMapping
from tests.broker_agent.data_files import (
    REAL,
    detail,
    killed_in_the_middle,
    mapping_json,
    put,
    remove,
    rewrite,
    rewrite_by_rename,
    topics_json,
)
from tests.broker_agent.follower import Found, Told, following, last_is, loaded, tables
from tests.support import await_until, run_python

OFTEN_S: Final = 0.05
MAPPED: Final = QueueMapping(2, 7, {0: 0, 1: 1})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a broker keeps its topics; the folder exists, the file does not."""
    path = tmp_path / "config" / "topics.json"
    path.parent.mkdir()
    return path


@pytest.fixture
def mapping_path(path: Path) -> Path:
    return path.with_name("topicQueueMapping.json")


def followed(path: Path) -> AbstractAsyncContextManager[Told[Found]]:
    return following(loaded(FileTopics(path, recheck_s=OFTEN_S)))


def mapping_is(name: str, mapping: QueueMapping | None) -> Callable[[list[Found]], bool]:
    return lambda told: bool(tables(told)) and tables(told)[-1][name].queue_mapping == mapping


@asynccontextmanager
async def holding(path: Path, *names: str, counter: int = 1) -> AsyncIterator[Told[Found]]:
    """Follow a file that holds these topics, from when they have been told."""
    put(path, topics_json(*names, counter=counter))
    async with followed(path) as told:
        await told.until(last_is(*names), "the first table")
        yield told


async def test_the_files_of_a_real_broker_are_read_together(path: Path, mapping_path: Path) -> None:
    put(path, (REAL / "topics.json").read_bytes())
    put(mapping_path, (REAL / "topicQueueMapping.json").read_bytes())
    async with followed(path) as told:
        await told.until(tables, "a table")
    (table,) = tables(told.all)
    assert len(table) == 20
    mapping = QueueMapping(6, 1795202977232, {number: number for number in range(6)})
    assert {name: topic.queue_mapping for name, topic in table.items() if topic.queue_mapping} == {
        "static-orders": mapping
    }


@pytest.mark.parametrize("write", [rewrite, rewrite_by_rename])
async def test_every_rewrite_is_seen_and_none_is_reported(
    path: Path, write: Callable[[Path, bytes], None]
) -> None:
    async with holding(path, "a") as told:
        for number in range(2, 6):
            names = [f"t{each}" for each in range(number)]
            write(path, topics_json(*names, counter=number))
            await told.until(last_is(*names), f"table {number}")
        assert told.said() == []


async def test_a_missing_file_is_not_reported_if_the_broker_tells_its_topics_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = FileTopics(path, recheck_s=OFTEN_S)
    offer = FileTable.offer

    def offer_slowly(file: FileTable[Any], content: Any, now_s: float) -> None:
        offer(file, content, now_s)
        topics.absence_is_usual = True

    monkeypatch.setattr(files, "GRACE_S", 0.0)
    monkeypatch.setattr(FileTable, "offer", offer_slowly)
    async with following(loaded(topics)) as told:
        await await_until(lambda: topics.absence_is_usual, description="the file is looked for")
        put(path, topics_json("orders"))
        await told.until(last_is("orders"), "what the file says")
    assert told.said() == []


async def test_of_a_burst_of_rewrites_few_are_told_and_the_last_one_always(path: Path) -> None:
    rewrites = 500

    def burst() -> None:
        for number in range(rewrites):
            rewrite(path, topics_json("a", f"t{number}", counter=number + 2))

    async with holding(path, "a") as told:
        await asyncio.to_thread(burst)
        await told.until(last_is("a", f"t{rewrites - 1}"), "the last table")
        assert len(tables(told.all)) < rewrites / 3
        assert told.said() == []


async def test_topics_that_did_not_change_stay_the_same_objects(path: Path) -> None:
    async with holding(path, "a") as told:
        rewrite(path, topics_json("a", "b", counter=2))
        await told.until(last_is("a", "b"), "the other table")
    first, last = tables(told.all)
    assert last["a"] is first["a"]


@pytest.mark.parametrize("broken", [b"", b"{", topics_json("a", "b")[:90], b'{"topicConfigTable": {}}'])
async def test_what_is_broken_is_reported_once_and_the_table_kept(path: Path, broken: bytes) -> None:
    async with holding(path, "a") as told:
        put(path, broken)
        await told.until(lambda _: told.said(), "a report")
        assert len(tables(told.all)) == 1
        rewrite(path, topics_json("a", "b", counter=2))
        await told.until(last_is("a", "b"), "the mended table")
    report, mended = told.said()
    assert report.startswith(f"{path} has a problem; keeping the 1 topics read before, version 1:\n  $")
    assert mended == f"{path} can be used again"


async def test_a_broker_killed_while_it_wrote_leaves_a_backup_that_is_used(path: Path) -> None:
    put(path, topics_json("a", counter=3))
    killed_in_the_middle(path, topics_json("a", "b", counter=4))
    async with followed(path) as told:
        await told.until(last_is("a"), "the table of the .bak")
        rewrite(path, topics_json("a", "b", counter=4))
        await told.until(last_is("a", "b"), "what the broker writes when it is back")
    assert "using the 1 topics of its .bak, version 3" in told.said()[0]


@pytest.mark.long
async def test_a_hundred_thousand_topics_are_read_while_the_loop_goes_on(path: Path) -> None:
    names = [f"orders-of-the-region-{number}" for number in range(100_000)]
    put(path, topics_json(*names))
    async with followed(path) as told:
        await told.until(tables, "the table")
        assert told.ticks >= 5
        rewrite(path, topics_json(*names, "one-more", counter=2))
        await told.until(lambda found: len(tables(found)) == 2, "the other table")
    first, last = tables(told.all)
    assert set(last) - set(first) == {"one-more"}
    assert all(last[name] is topic for name, topic in first.items())


@pytest.mark.long
async def test_another_permission_of_a_hundred_thousand_topics_is_taken_while_the_loop_goes_on(
    path: Path,
) -> None:
    put(path, topics_json(*(f"orders-of-the-region-{number}" for number in range(100_000))))
    effective = EffectiveTopics(6)
    async with following(loaded(FileTopics(path, recheck_s=OFTEN_S), effective)) as told:
        await told.until(tables, "the table")
        before = told.ticks
        found = await effective.permit(4)
        assert told.ticks - before >= 5
    assert found is not None
    assert {topic.perm for topic in found.table.topics.values()} == {4}


async def test_a_permission_whose_table_nobody_waited_for_counts_from_the_next_look_on(path: Path) -> None:
    put(path, topics_json(*(f"orders-of-the-region-{number}" for number in range(20_000))))
    effective = EffectiveTopics(6)
    async with following(loaded(FileTopics(path, recheck_s=OFTEN_S), effective)) as told:
        await told.until(tables, "the table")
        asking = asyncio.create_task(effective.permit(4))
        await asyncio.sleep(0)
        asking.cancel()
        await told.until(lambda found: set(perms(found)) == {4}, "the other permission")


async def test_a_file_that_goes_while_a_large_one_is_still_parsed_for_nobody_does_not_stop_the_loop(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parses, goes_on = threading.Event(), threading.Event()

    def slow(content: bytes | memoryview, previous: TopicTable | None) -> TopicTable:
        parses.set()
        goes_on.wait()
        return parse(content, previous)

    monkeypatch.setattr(files, "TOPICS", files.TOPICS._replace(parse=slow))
    put(path, topics_json(*(f"orders-{number}" for number in range(2_000))))
    source = FileTopics(path, recheck_s=OFTEN_S)
    try:
        async with following(loaded(source)):
            await await_until(parses.is_set, description="it is parsed")
        remove(path)
        async with following(loaded(source)) as told:
            await await_until(lambda: told.ticks >= 20, description="the loop goes on")
            goes_on.set()
            await told.until(tables, "what was parsed")
    finally:
        goes_on.set()


async def test_a_reload_while_the_backup_is_parsed_loses_neither_the_report_nor_the_topics(
    path: Path, mapping_path: Path, monkeypatch: pytest.MonkeyPatch, logs: pytest.LogCaptureFixture
) -> None:
    parses, goes_on = threading.Event(), threading.Event()

    def slow(content: bytes | memoryview, previous: MappingTable | None) -> MappingTable:
        if bytes(content) == b"{":  # the .bak
            parses.set()
            goes_on.wait()
        return parse_mappings(content, previous)

    monkeypatch.setattr(files, "MAPPINGS", files.MAPPINGS._replace(parse=slow))
    put(path, topics_json("a"))
    put(mapping_path, b"")
    put(mapping_path.with_name(mapping_path.name + ".bak"), b"{")
    source = FileTopics(path, recheck_s=OFTEN_S)
    try:
        async with following(loaded(source)):
            await await_until(parses.is_set, description="the .bak is parsed")
        goes_on.set()
        async with following(loaded(source)) as told:
            await told.until(last_is("a"), "the topics, without their mappings")
    finally:
        goes_on.set()
    (report,) = [message for message in logs.messages if "its .bak cannot be used either" in message]
    assert report.startswith(f"{mapping_path} has a problem")


_KEPT: Final = """
import gc, sys, tracemalloc
from sharedroutes.broker_agent.rocketmq import topics
content = open(sys.argv[1], "rb").read()
topics.parse(content)  # what is made once
tracemalloc.start()
table = topics.parse(content)
gc.collect()
print(tracemalloc.get_traced_memory()[0], tracemalloc.get_traced_memory()[1])
"""


def test_ten_thousand_topics_take_three_megabytes_and_little_more_while_they_are_read(path: Path) -> None:
    put(path, topics_json(*(f"orders-of-the-region-{number}" for number in range(10_000))))
    kept_bytes, peak_bytes = map(int, run_python(_KEPT, str(path)).stdout.split())
    assert kept_bytes < 3_000_000
    assert peak_bytes < 4_000_000


async def test_a_mapping_that_comes_changes_and_goes_is_followed(path: Path, mapping_path: Path) -> None:
    async with holding(path, "a", "b") as told:
        assert mapping_is("a", None)(told.all)
        put(mapping_path, mapping_json({"a": detail([0, 1])}))
        await told.until(mapping_is("a", MAPPED), "the mapping")
        rewrite(mapping_path, mapping_json({"b": detail([0, 1])}, counter=2))
        await told.until(mapping_is("b", MAPPED), "the other mapping")
        assert mapping_is("a", None)(told.all)
        assert told.said() == []


async def test_a_broken_mapping_file_is_reported_and_the_mapping_kept(path: Path, mapping_path: Path) -> None:
    put(mapping_path, mapping_json({"a": detail([0, 1])}))
    async with holding(path, "a") as told:
        killed_in_the_middle(mapping_path, mapping_json({}, counter=2))
        await told.until(lambda _: told.said(), "a report")
        rewrite(path, topics_json("a", "b", counter=2))
        await told.until(last_is("a", "b"), "the other table")
        assert mapping_is("a", MAPPED)(told.all)
    assert told.said()[0].startswith(f"{mapping_path} has a problem; keeping the 1 queue mappings")


async def test_no_topic_is_told_before_it_is_known_which_are_static(path: Path, mapping_path: Path) -> None:
    put(path, topics_json("a"))
    put(mapping_path, mapping_json({"a": detail([0, 1])}))
    killed_in_the_middle(mapping_path, mapping_json({}, counter=2))
    async with followed(path) as told:
        await told.until(tables, "a table")
    assert mapping_is("a", MAPPED)(told.all)
    assert len(tables(told.all)) == 1


async def test_a_mapping_that_is_left_in_its_backup_alone_is_used(path: Path, mapping_path: Path) -> None:
    put(path, topics_json("a"))
    put(mapping_path.with_name(mapping_path.name + ".bak"), mapping_json({"a": detail([0, 1])}))
    async with followed(path) as told:
        await told.until(tables, "a table")
    assert mapping_is("a", MAPPED)(told.all)


async def test_mappings_that_nobody_can_read_do_not_keep_the_topics_back(
    path: Path, mapping_path: Path
) -> None:
    put(mapping_path, b"")
    async with holding(path, "a") as told:
        assert mapping_is("a", None)(told.all)
        (report,) = told.said()
        assert (
            "static topics are registered without their queue mapping until one of them can be read" in report
        )
        put(mapping_path, mapping_json({"a": detail([0, 1])}))
        await told.until(mapping_is("a", MAPPED), "the mapping")


async def test_another_permission_makes_another_table_at_once(path: Path) -> None:
    put(path, topics_json("a"))
    effective = EffectiveTopics(6)
    assert await effective.permit(6) is None
    assert await effective.permit(2) is None  # there is no table yet
    async with following(loaded(FileTopics(path, recheck_s=OFTEN_S), effective)) as told:
        await told.until(tables, "the first table")
        assert perms(told.all) == [2]
        assert perms([await effective.permit(4)]) == [4]
        assert await effective.permit(4) is None
        rewrite(path, topics_json("a", "b", counter=2))
        await told.until(last_is("a", "b"), "the other table")
        assert perms(told.all) == [4, 4]
        assert perms([await effective.permit(6)]) == [6, 6]


def perms(told: list[Any]) -> list[int]:
    """Return the permissions of the topics in the last table."""
    return [topic.perm for topic in tables(told)[-1].values()]
