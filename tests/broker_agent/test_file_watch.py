"""Following a file on a real file system, while it is rewritten, removed and put back."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from watchdog.utils import BaseThread

from sharedroutes.broker_agent import file_watch
from tests.broker_agent.data_files import put, remove, rewrite, rewrite_by_rename
from tests.broker_agent.follower import Told, followed_by
from tests.support import await_until

SELDOM_S: Final = 30.0
"""So rarely that only notifications can be what a test sees."""

OFTEN_S: Final = 0.02


class Seen(Told[file_watch.Content | None]):
    """What a follower of a file has yielded so far."""

    @property
    def looks(self) -> int:
        return len(self.all)

    @property
    def contents(self) -> list[file_watch.Content]:
        return [content for content in self.all if content is not None]

    async def last(self, content: bytes | type[OSError]) -> None:
        """Wait until the last thing that was seen is `content`."""

        def reached() -> bool:
            last = self.contents[-1] if self.contents else None
            return isinstance(last, content) if isinstance(content, type) else last == content

        await await_until(reached, description=f"{content!r} is seen")


@asynccontextmanager
async def following(path: Path, recheck_s: float) -> AsyncIterator[Seen]:
    seen = Seen()
    async with followed_by(file_watch.contents(path, recheck_s=recheck_s), seen):
        yield seen


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a broker keeps its topics; the folder exists, the file does not."""
    path = tmp_path / "config" / "topics.json"
    path.parent.mkdir()
    return path


@asynccontextmanager
async def notified(path: Path) -> AsyncIterator[Seen]:
    """Follow a file that holds b"1"; begin when its notifications come."""
    put(path, b"1")
    async with following(path, SELDOM_S) as seen:
        await seen.last(b"1")
        count = len(seen.contents)

        def noticed() -> bool:
            put(path, b"1")
            return len(seen.contents) > count

        await await_until(noticed, description="notifications come")
        yield seen


@pytest.mark.parametrize("write", [rewrite, rewrite_by_rename])
async def test_a_file_rewritten_as_brokers_do_is_seen_by_notification(
    path: Path, write: Callable[[Path, bytes], None]
) -> None:
    async with notified(path) as seen:
        for content in (b"2", b"3", b"4" * 100_000):
            write(path, content)
            await seen.last(content)


async def test_a_file_that_is_removed_and_put_back_is_seen_by_notification(path: Path) -> None:
    async with notified(path) as seen:
        remove(path)
        await seen.last(FileNotFoundError)
        put(path, b"2")
        await seen.last(b"2")


@pytest.mark.parametrize("missing", ["its folder is there", "nor its folders"])
async def test_a_file_that_does_not_exist_yet_is_seen_when_it_does(path: Path, missing: str) -> None:
    if missing == "nor its folders":
        path = path.parent / "store" / "config" / path.name
    async with following(path, OFTEN_S) as seen:
        await seen.last(FileNotFoundError)
        put(path, b"1")
        await seen.last(b"1")


async def test_a_file_that_does_not_change_is_read_twice_and_then_only_looked_at(path: Path) -> None:
    put(path, b"1")
    async with following(path, OFTEN_S) as seen:
        await await_until(lambda: seen.looks >= 6, description="six looks")
        assert seen.contents == [b"1", b"1"]


async def test_a_folder_that_is_replaced_is_followed_on(path: Path) -> None:
    put(path, b"1")
    async with following(path, OFTEN_S) as seen:
        await seen.last(b"1")
        path.parent.rename(path.parent.with_name("old"))
        await seen.last(FileNotFoundError)
        for content in (b"2", b"3"):
            put(path, content)
            await seen.last(content)


@pytest.fixture
def no_notifications(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system refuse to watch any folder."""

    def no_more_watches(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    monkeypatch.setattr(file_watch, "Observer", no_more_watches)


@pytest.mark.usefixtures("no_notifications")
async def test_without_notifications_the_file_is_looked_at_and_that_is_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(path, b"1")
    async with following(path, OFTEN_S) as seen:
        for content in (b"2", b"3"):
            put(path, content)
            await seen.last(content)
    assert [record.message for record in caplog.records] == [
        f"{path.parent}: no notifications, looking every 0.02 s: [Errno 24] inotify instance limit reached"
    ]


async def test_files_of_one_folder_are_followed_together(path: Path) -> None:
    other = path.with_name("other.json")
    put(path, b"1")
    last: list[bytes | memoryview | OSError | None] = [None, None]

    async def follow() -> None:
        async for found in file_watch.looks((path, other), recheck_s=OFTEN_S):
            last[:] = [old if new is None else new for old, new in zip(last, found, strict=True)]

    task = asyncio.create_task(follow())
    await await_until(
        lambda: last[0] == b"1" and isinstance(last[1], FileNotFoundError), description="the first look"
    )
    rewrite(path, b"2")
    put(other, b"3")
    await await_until(lambda: last == [b"2", b"3"], description="both files are seen")
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_large_file_is_read_whole(path: Path) -> None:
    content = bytes(range(256)) * 4096
    put(path, content)
    found = await file_watch.read(path)
    assert isinstance(found, memoryview)
    assert found == content
    assert found.readonly


async def test_a_burst_of_changes_gives_few_looks_and_the_last_state(path: Path) -> None:
    async with notified(path) as seen:
        looks = seen.looks
        for number in range(200):
            rewrite(path, b"%d" % number)
        rewrite(path, b"the last")
        await seen.last(b"the last")
        assert seen.looks - looks < 20  # nobody waited between the changes


async def test_a_change_of_another_file_makes_no_look(path: Path) -> None:
    async with notified(path) as seen:
        put(path, b"2")
        await seen.last(b"2")
        looks = seen.looks
        put(path.with_name("a.log"), b"1")
        await asyncio.sleep(0.1)
        assert seen.looks == looks


async def test_a_folder_behind_a_link_is_followed_by_notification(path: Path) -> None:
    link = path.parent.with_name("link")
    link.symlink_to(path.parent)
    async with notified(link / path.name) as seen:
        rewrite(path, b"2")
        await seen.last(b"2")


async def test_who_follows_the_same_folder_does_not_miss_another_that_leaves(path: Path) -> None:
    other = path.with_name("other.json")
    async with notified(path) as seen:
        async with notified(other) as seen_other:
            rewrite(path, b"2")
            rewrite(other, b"3")
            await seen.last(b"2")
            await seen_other.last(b"3")
        rewrite(path, b"4")
        await seen.last(b"4")


async def test_changes_in_a_folder_that_took_the_place_of_another_are_seen_by_all(path: Path) -> None:
    folder, other = path.parent, path.with_name("other.json")
    async with notified(path) as seen, notified(other) as seen_other:
        folder.rename(folder.with_name("old"))
        folder.mkdir()
        async with following(path, SELDOM_S) as seen_anew:
            await seen_anew.last(FileNotFoundError)
            put(other, b"2")
            put(path, b"3")
            await seen_anew.last(b"3")
            await seen.last(b"3")
            await seen_other.last(b"2")


@pytest.mark.usefixtures("no_notifications")
async def test_who_cannot_be_notified_is_no_trouble_to_who_leaves(path: Path) -> None:
    put(path, b"1")
    async with following(path, OFTEN_S) as seen:
        for _ in range(20):
            async with following(path, OFTEN_S) as leaving:
                await leaving.last(b"1")
        put(path, b"2")
        await seen.last(b"2")


async def test_the_observer_ends_with_the_last_who_follows(path: Path) -> None:
    before = set(threading.enumerate())

    def watching() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one not in before and isinstance(one, BaseThread)]

    async with notified(path):
        assert watching()
    assert watching() == []


async def test_what_a_large_file_held_goes_back_to_the_system_without_a_collection(path: Path) -> None:
    put(path, bytes(100_000))
    held: list[weakref.ref[object]] = []
    gc.disable()
    try:
        async with aclosing(file_watch.looks((path,), recheck_s=OFTEN_S)) as looks:
            async for (content,) in looks:
                if content is None:
                    break
                assert isinstance(content, memoryview)
                held.append(weakref.ref(content.obj))
                del content
        assert [ref() for ref in held] == [None, None]
    finally:
        gc.enable()


async def test_a_read_that_hangs_is_reported_and_so_is_its_end(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A FIFO to which nobody writes is like a file of a network disk that is gone."""
    caplog.set_level(logging.INFO, "sharedroutes.broker_agent")
    monkeypatch.setattr(file_watch, "STUCK_S", 0.1)
    os.mkfifo(path)
    async with following(path, SELDOM_S) as seen:
        await await_until(lambda: caplog.messages, description="the report")
        await asyncio.to_thread(path.write_bytes, b"1")
        await seen.last(b"1")
    # watchdog has a word of its own where its thread ends before it begins.
    hangs, ended = (each.getMessage() for each in caplog.records if each.name.startswith("sharedroutes"))
    assert hangs.startswith(f"{path}: reading it hangs, the file system has not answered for 0.1 s")
    assert ended.startswith(f"{path}: the file system has answered, after ")


async def test_notifications_that_cannot_begin_keep_no_file_from_being_read(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One file system that hangs is no reason for those who follow files of another."""
    goes_on = threading.Event()
    put(path, b"1")
    monkeypatch.setattr(file_watch, "BEGIN_S", 0.05)
    monkeypatch.setattr(file_watch, "END_S", 0.05)
    monkeypatch.setattr(os, "scandir", lambda _: goes_on.wait())
    try:
        async with following(path, OFTEN_S) as seen:
            await seen.last(b"1")
            put(path, b"2")
            await seen.last(b"2")
        assert "no notifications, looking every 0.02 s: not begun within 0.05 s" in caplog.text
    finally:
        monkeypatch.undo()
        goes_on.set()
    async with notified(path) as seen:
        rewrite(path, b"3")
        await seen.last(b"3")


async def test_a_folder_that_hangs_holds_a_few_threads_and_no_follower_of_another_folder(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    hanging = path.parent.with_name("hanging") / path.name
    put(hanging, b"1")
    scandir = os.scandir

    def scan(folder: Path) -> object:
        if folder == hanging.parent:
            goes_on.wait()
        return scandir(folder)

    monkeypatch.setattr(file_watch, "BEGIN_S", 0.05)
    monkeypatch.setattr(file_watch, "END_S", 0.05)
    monkeypatch.setattr(os, "scandir", scan)
    before = set(threading.enumerate())

    def held() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one not in before and one.name == "sharedroutes read"]

    try:
        async with following(hanging, OFTEN_S) as first, following(hanging, OFTEN_S) as second:
            await await_until(lambda: min(first.looks, second.looks) >= 10, description="many attempts")
            assert 1 <= len(held()) <= 5  # of each follower one that begins and one that reads, and one end
            monkeypatch.setattr(file_watch, "BEGIN_S", 5.0)
            async with notified(path) as healthy:
                rewrite(path, b"2")
                await healthy.last(b"2")
            monkeypatch.setattr(file_watch, "BEGIN_S", 0.05)
            goes_on.set()
    finally:
        goes_on.set()
    await await_until(lambda: not held(), description="no thread is left")


async def test_something_that_is_no_file_is_no_reason_to_end(path: Path) -> None:
    put(path / "inside", b"")
    remove(path / "inside")
    async with following(path, OFTEN_S) as seen:
        await seen.last(IsADirectoryError)
        remove(path)
        put(path, b"1")
        await seen.last(b"1")
