"""Following a file on a real file system, while it is rewritten, removed and put back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.broker_agent import watch
from tests.broker_agent.data_files import put, remove, rewrite, rewrite_by_rename
from tests.support import await_until

SELDOM_S: Final = 30.0
"""So rarely that only notifications can be what a test sees."""

OFTEN_S: Final = 0.02


class Seen:
    """What a follower of a file has yielded so far."""

    def __init__(self) -> None:
        self.looks = 0
        self.contents: list[bytes | OSError] = []

    async def until(self, content: bytes | type[OSError]) -> None:
        """Wait until the last thing that was seen is `content`."""

        def reached() -> bool:
            last = self.contents[-1] if self.contents else None
            return isinstance(last, content) if isinstance(content, type) else last == content

        await await_until(reached, description=f"{content!r} is seen")


@asynccontextmanager
async def following(path: Path, recheck_s: float) -> AsyncIterator[Seen]:
    seen = Seen()

    async def follow() -> None:
        async for content in watch.contents(path, recheck_s=recheck_s):
            seen.looks += 1
            if content is not None:
                seen.contents.append(content)

    task = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


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
        await seen.until(b"1")
        count = len(seen.contents)

        def noticed() -> bool:
            path.touch()
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
            await seen.until(content)


async def test_a_file_that_is_removed_and_put_back_is_seen_by_notification(path: Path) -> None:
    async with notified(path) as seen:
        remove(path)
        await seen.until(FileNotFoundError)
        put(path, b"2")
        await seen.until(b"2")


async def test_a_file_that_does_not_exist_yet_is_seen_when_it_does(path: Path) -> None:
    async with following(path, OFTEN_S) as seen:
        await seen.until(FileNotFoundError)
        put(path, b"1")
        await seen.until(b"1")


async def test_a_file_that_does_not_change_is_read_twice_and_then_only_looked_at(path: Path) -> None:
    put(path, b"1")
    async with following(path, OFTEN_S) as seen:
        await await_until(lambda: seen.looks >= 6, description="six looks")
        assert seen.contents == [b"1", b"1"]


async def test_a_folder_that_does_not_exist_yet_is_seen_when_it_does(tmp_path: Path) -> None:
    path = tmp_path / "store" / "config" / "topics.json"
    async with following(path, OFTEN_S) as seen:
        await seen.until(FileNotFoundError)
        put(path, b"1")
        await seen.until(b"1")


async def test_a_folder_that_is_replaced_is_followed_on(path: Path) -> None:
    put(path, b"1")
    async with following(path, OFTEN_S) as seen:
        await seen.until(b"1")
        path.parent.rename(path.parent.with_name("old"))
        await seen.until(FileNotFoundError)
        for content in (b"2", b"3"):
            put(path, content)
            await seen.until(content)


async def test_without_notifications_the_file_is_looked_at_and_that_is_said_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_more_watches(*_: object, **__: object) -> None:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr(watch, "awatch", no_more_watches)
    put(path, b"1")
    async with following(path, OFTEN_S) as seen:
        for content in (b"2", b"3"):
            put(path, content)
            await seen.until(content)
    assert [record.message for record in caplog.records] == [
        f"{path.parent}: no notifications, looking every 0.02 s: OS file watch limit reached"
    ]


async def test_something_that_is_no_file_is_no_reason_to_end(path: Path) -> None:
    put(path / "inside", b"")
    remove(path / "inside")
    async with following(path, OFTEN_S) as seen:
        await seen.until(IsADirectoryError)
        remove(path)
        put(path, b"1")
        await seen.until(b"1")
