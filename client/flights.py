"""Lookups of topics for callers: one at a time for each topic, and callers that need it wait for that one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from math import inf
from time import monotonic
from typing import Any, TypeVar

from ..registry.errors import StoreTimeout

T = TypeVar("T")

Flight = Future[bool]
"""Ends when the answer is known, or with the store's error, or with False: the lookup was given up."""


class Flights:
    """The lookups under way, one a topic; its methods are called with a lock held."""

    def __init__(self) -> None:
        self._flying: dict[str, tuple[int, Flight]] = {}

    def board(self, topics: Iterable[str]) -> tuple[list[str], list[Flight]]:
        """Return the topics that the caller has to ask for, and the flights that bring the others."""
        own, others = [], {}
        for topic in topics:
            flying = self._flying.get(topic)
            if flying is None:
                own.append(topic)
            else:
                others[flying[0]] = flying[1]
        return own, list(others.values())

    def take_off(self, number: int, topics: Iterable[str]) -> None:
        """Tell others that the request of this number asks for these topics."""
        self._flying.update(dict.fromkeys(topics, (number, Flight())))

    def land(self, number: int, topics: Iterable[str], error: BaseException | None = None) -> None:
        """End the flight of a request: with its answer, or with the store's error for all who wait.

        Does nothing for a request that never took off, or has landed.
        """
        flight = None
        for topic in topics:
            if self._flying.get(topic, (0, None))[0] == number:
                _, flight = self._flying.pop(topic)
        if flight is None:
            return
        if error is None:
            flight.set_result(True)
        elif isinstance(error, Exception):
            flight.set_exception(error)
        else:  # the caller was interrupted or cancelled, which is no answer for anybody else
            flight.set_result(False)


def ask(
    look: Callable[[], None],
    failed: Callable[[BaseException], None],
    topics: Iterable[str],  # noqa: ARG001 - as ask_async
    until: float,
) -> tuple[Flight, ...]:
    """Look at the table; tell what it failed with. Returns what is to be waited for besides.

    With a deadline the look is left to a thread: a blocking call ends by the store's deadlines, and no other.
    """
    flight = Flight()

    def run() -> None:
        try:
            look()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            failed(error)
            flight.set_exception(error)
        else:
            flight.set_result(True)

    if until == inf:
        run()
    else:
        try:
            threading.Thread(target=run, name="sharedroutes-lookup", daemon=True).start()
        except BaseException as error:
            failed(error)
            raise
    return (flight,)


def all_arrived(flights: Iterable[Flight], topics: Iterable[str], until: float) -> bool:
    """Wait for flights until a time of the monotonic clock at most; return whether each brought an answer.

    Raises the store's error, and StoreTimeout when the time is up.
    """
    answered = True
    for flight in flights:
        try:
            flight.exception(None if until == inf else until - monotonic())
        except TimeoutError:
            raise _too_late(topics) from None
        answered = flight.result() and answered
    return answered


async def ask_async(
    look: Callable[[], Coroutine[Any, Any, None]],
    failed: Callable[[BaseException], None],
    topics: Iterable[str],
    until: float,
) -> tuple[Flight, ...]:
    """Look at the table until a time at most; tell what it failed with, also that it was cancelled."""

    async def run() -> None:
        try:
            await look()
        except BaseException as error:
            failed(error)
            raise

    await _by(run(), topics, until)
    return ()


async def all_arrived_async(flights: Iterable[Flight], topics: Iterable[str], until: float) -> bool:
    """Wait as `all_arrived`, in a task."""
    waiting = [asyncio.shield(asyncio.wrap_future(flight)) for flight in flights]
    answered = await _by(asyncio.gather(*waiting, return_exceptions=True), topics, until)
    for answer in answered:
        if isinstance(answer, BaseException):
            raise answer
    return all(answered)


async def _by(work: Awaitable[T], topics: Iterable[str], until: float) -> T:
    try:
        async with asyncio.timeout(None if until == inf else until - monotonic()) as limit:
            return await work
    except TimeoutError as error:
        if limit.expired():
            raise _too_late(topics) from error
        raise


def _too_late(topics: Iterable[str]) -> StoreTimeout:
    """Return the error of a caller who cannot wait for the store any longer."""
    return StoreTimeout(f"the deadline came before the store told of {', '.join(map(repr, topics))}")
