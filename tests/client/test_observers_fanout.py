"""Who hears of an event, whatever one of the listeners does."""

from __future__ import annotations

import logging

import pytest

from sharedroutes.client.observers import Event, tell_all, tell_nobody
from sharedroutes.client.observers.events import BrokerReturned, FeedLost

EVENT = BrokerReturned("a")


class Listener:
    def __init__(self) -> None:
        self.heard: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.heard.append(event)


class Troubled:
    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)

    def on_event(self, _event: Event) -> None:
        raise self.errors.pop(0)


def test_every_observer_hears_of_every_event_in_order() -> None:
    first, second = Listener(), Listener()
    tell = tell_all(iter((first, second)))
    tell(EVENT)
    tell(FeedLost("1-0"))
    assert first.heard == second.heard == [EVENT, FeedLost("1-0")]


def test_without_observers_there_is_nothing_to_call() -> None:
    assert tell_all(()) is tell_nobody
    tell_nobody(EVENT)


def test_what_an_observer_raises_is_logged_and_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    last = Listener()
    tell_all((Troubled(ValueError("no")), last))(EVENT)
    assert last.heard == [EVENT]
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("sharedroutes.client", logging.ERROR)
    assert record.getMessage() == "observer Troubled failed at BrokerReturned, said once"
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError


def test_an_observer_that_fails_all_the_time_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    tell = tell_all((Troubled(*[ValueError()] * 9, KeyError()), Troubled(*[ValueError()] * 10)))
    for _ in range(10):
        tell(EVENT)
    kinds = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert kinds == [ValueError, ValueError, KeyError]


def test_an_interrupt_is_not_the_observers() -> None:
    with pytest.raises(KeyboardInterrupt):
        tell_all((Troubled(KeyboardInterrupt()),))(EVENT)
