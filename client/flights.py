"""Looks at the table on behalf of callers: who needs a topic that is being looked up waits for the answer."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from math import inf
from time import monotonic

from ..registry.errors import StoreTimeout

Flight = Future[bool]
"""Ends when the answer was taken in, with the error of the store, or with False: nobody looks any more."""


class Flights:
    """One look a topic at a time; whoever calls holds a lock."""

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


def all_arrived(flights: Iterable[Flight], topics: Iterable[str], until: float) -> bool:
    """Wait for flights until a time of the monotonic clock at most; whether each brought an answer.

    Raises the store's error, and StoreTimeout when the time is up.
    """
    answered = True
    for flight in flights:
        try:
            flight.exception(None if until == inf else until - monotonic())
        except TimeoutError:
            raise too_late(topics) from None
        answered = flight.result() and answered
    return answered


def too_late(topics: Iterable[str]) -> StoreTimeout:
    """Return the error of a caller who cannot wait for the store any longer."""
    return StoreTimeout(f"the deadline came before the store told of {', '.join(map(repr, topics))}")
