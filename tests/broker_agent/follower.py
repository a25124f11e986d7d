"""Follows an asynchronous generator in the background, and remembers what it yielded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import Generic, TypeAlias, TypeVar

from sharedroutes.broker_agent.planner.events import TopicsLoaded
from sharedroutes.broker_agent.topic_sources.source import EffectiveTopics, TopicSource
from sharedroutes.registry import TopicConfig
from tests.support import await_until

T = TypeVar("T")
Found: TypeAlias = TopicsLoaded


class Told(Generic[T]):
    """Everything that was yielded so far, and logged meanwhile."""

    def __init__(self) -> None:
        self.all: list[T] = []
        self.records: list[logging.LogRecord] = []
        self.ticks = 0
        """Of 10 ms in which the event loop was free."""

    def said(self) -> list[str]:
        """Return what was logged."""
        return [one.getMessage() for one in self.records]

    async def until(self, reached: Callable[[list[T]], object], description: str) -> None:
        """Wait until a condition holds for what was yielded."""
        await await_until(lambda: reached(self.all), timeout_s=30.0, description=f"{description}: {self.all}")

    async def count(self, count: int) -> T:
        """Wait until that many were yielded; return the last of them."""
        await self.until(lambda all_: len(all_) >= count, f"the first {count}")
        return self.all[count - 1]


@contextmanager
def logged(records: list[logging.LogRecord]) -> Iterator[None]:
    """Let `records` have all that the agents log for as long as the block lasts."""

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler, log = Kept(), logging.getLogger("sharedroutes.broker_agent")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


async def loaded(source: TopicSource, made: EffectiveTopics | None = None) -> AsyncGenerator[Found, None]:
    """Yield every other table that a broker would register, made as the agent makes it."""
    made = made or EffectiveTopics(6)
    async with aclosing(source.found()) as looks:
        async for topics in looks:
            if (one := await made.read(topics)) is not None:
                yield one


@asynccontextmanager
async def following(found: AsyncGenerator[T, None]) -> AsyncIterator[Told[T]]:
    """Follow in the background for as long as the block lasts."""
    told: Told[T] = Told()
    async with followed_by(found, told):
        yield told


@asynccontextmanager
async def followed_by(found: AsyncGenerator[T, None], told: Told[T]) -> AsyncIterator[None]:
    """Let `told` have what is yielded for as long as the block lasts."""

    async def follow() -> None:
        async with aclosing(found):
            async for one in found:
                told.all.append(one)

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            told.ticks += 1

    with logged(told.records):
        tasks = [asyncio.create_task(follow()), asyncio.create_task(tick())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def tables(told: list[Found]) -> list[Mapping[str, TopicConfig]]:
    """Return the topics of all the tables that were told."""
    return [one.table.topics for one in told]


def last_is(*names: str) -> Callable[[list[Found]], bool]:
    """Return whether the last table holds these topics."""
    return lambda told: bool(tables(told)) and set(tables(told)[-1]) == set(names)
