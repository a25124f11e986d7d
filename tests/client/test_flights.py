"""Looks at the table on behalf of callers: one a topic at a time, and how those who wait learn of its end."""

from __future__ import annotations

import pytest

from sharedroutes.client.flights import Flight, Flights
from sharedroutes.registry import StoreUnavailable


@pytest.fixture
def flights() -> Flights:
    return Flights()


def fly(flights: Flights, number: int, *topics: str) -> None:
    """Be the one whose request of this number asks for all these topics."""
    own, others = flights.board(topics)
    assert (own, others) == (list(topics), [])
    flights.take_off(number, own)


def wait_for(flights: Flights, *topics: str) -> list[Flight]:
    """Be one who need not ask for any of these topics."""
    own, others = flights.board(topics)
    assert own == []
    return others


def test_topics_that_are_asked_for_together_are_waited_for_once(flights: Flights) -> None:
    fly(flights, 1, "t", "u")
    assert len(wait_for(flights, "t", "u")) == 1


def test_the_answer_to_one_request_does_not_end_the_flight_of_another(flights: Flights) -> None:
    fly(flights, 1, "t")
    fly(flights, 2, "u")
    (flight,) = wait_for(flights, "u")
    flights.land(1, ["t"])
    flights.land(3, ["t", "u"])
    flights.land(3, ["u"], StoreUnavailable("down"))
    assert not flight.done()
    flights.land(2, ["u"])
    assert flight.result(timeout=0) is True


def test_what_never_took_off_or_has_landed_may_land(flights: Flights) -> None:
    flights.land(1, ["t"])
    fly(flights, 2, "t")
    (flight,) = wait_for(flights, "t")
    flights.land(2, ["t"])
    flights.land(2, ["t"], StoreUnavailable("too late"))
    assert flight.result(timeout=0) is True
