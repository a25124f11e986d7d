"""Looks at the table on behalf of callers: one a topic at a time, and how those who wait learn of its end."""

from __future__ import annotations

import random

import pytest

from sharedroutes.client import ClientConfig
from sharedroutes.client.core import ClientCore
from sharedroutes.client.flights import Flight, Flights
from sharedroutes.registry import StoreUnavailable
from tests.client.fake_table import FakeTable


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


def test_who_comes_first_asks_and_who_comes_later_waits(flights: Flights) -> None:
    fly(flights, 1, "t")
    (flight,) = wait_for(flights, "t")
    assert not flight.done()
    flights.land(1, ["t"])
    assert flight.result(timeout=0) is True


def test_topics_that_are_asked_for_together_are_waited_for_once(flights: Flights) -> None:
    fly(flights, 1, "t", "u")
    assert len(wait_for(flights, "t", "u")) == 1


def test_who_needs_topics_of_several_flights_waits_for_each_of_them(flights: Flights) -> None:
    fly(flights, 1, "t")
    fly(flights, 2, "u")
    assert len(wait_for(flights, "t", "u")) == 2


def test_only_what_nobody_asks_for_is_to_be_asked_for(flights: Flights) -> None:
    fly(flights, 1, "t")
    own, others = flights.board(["u", "t", "v"])
    assert own == ["u", "v"]
    assert others == wait_for(flights, "t")


def test_a_topic_is_asked_for_anew_after_the_answer(flights: Flights) -> None:
    fly(flights, 1, "t")
    flights.land(1, ["t"])
    fly(flights, 2, "t")


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


def test_a_failure_of_the_store_is_everybodys(flights: Flights) -> None:
    fly(flights, 1, "t", "u")
    (flight,) = wait_for(flights, "t")
    error = StoreUnavailable("down")
    flights.land(1, ["t", "u"], error)
    assert flight.exception(timeout=0) is error
    fly(flights, 2, "t", "u")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), GeneratorExit()])
def test_an_interruption_of_who_asked_is_nobody_elses(flights: Flights, interruption: BaseException) -> None:
    fly(flights, 1, "t")
    (flight,) = wait_for(flights, "t")
    flights.land(1, ["t"], interruption)
    assert flight.result(timeout=0) is False
    fly(flights, 2, "t")


def test_what_never_took_off_or_has_landed_may_land(flights: Flights) -> None:
    flights.land(1, ["t"])
    fly(flights, 2, "t")
    (flight,) = wait_for(flights, "t")
    flights.land(2, ["t"])
    flights.land(2, ["t"], StoreUnavailable("too late"))
    assert flight.result(timeout=0) is True


def test_an_answer_to_the_follower_does_not_end_what_a_caller_still_waits_for(table: FakeTable) -> None:
    table.register("a", "t", "u")
    core = ClientCore(ClientConfig(topics=("t",)), random.Random(1))
    core.follower.found_place("0-0", 0.0)
    callers = core.question(["t", "u"], 0.0).request
    waiting = core.question(["u"], 0.0).flights
    followers = core.known.cache.due(0.0)
    assert callers is not None
    assert followers is not None
    core.known.offer(followers, table.answer(followers), 0.0)
    assert [flight.done() for flight in waiting] == [False]
    core.known.offer(callers, table.answer(callers), 0.0)
    assert [flight.result(timeout=0) for flight in waiting] == [True]
    assert core.route("u") == table.route("u")
