"""Which events are logged, at which level, in which words and with which fields."""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import get_args

import pytest

from sharedroutes.client.observers import Event, LogObserver
from sharedroutes.client.observers.events import (
    AttemptEnded,
    BrokerIsolated,
    BrokerReturned,
    BrokersSuspected,
    FeedLost,
    LookupDone,
    LossHeld,
    LossReleased,
    RoutesChanged,
    ServerChanged,
    SnapshotSaved,
    SnapshotUnusable,
    SourceChanged,
)
from tests.client.observed import ALL_EVENTS

INFO, WARNING = logging.INFO, logging.WARNING
NO_ANSWER = "the store does not answer, serving the last known routes: down"


@pytest.fixture(autouse=True)
def _everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


@pytest.mark.parametrize(
    ("event", "level", "message"),
    [
        (SourceChanged("live", "memory", "down"), WARNING, NO_ANSWER),
        (SourceChanged("none", "none", "down"), WARNING, NO_ANSWER),
        (SourceChanged("snapshot", "snapshot", "down"), WARNING, NO_ANSWER),
        (SourceChanged("memory", "live", ""), INFO, "the store answers again"),
        (SourceChanged("none", "live", "down"), INFO, "the store answers again"),
        (SourceChanged("none", "snapshot", ""), INFO, "routes come from snapshot until the store answers"),
        (ServerChanged("h:1", "replica"), INFO, "the store is read at h:1, a replica"),
        (ServerChanged("h:1", "primary"), WARNING, "the store is read at h:1, a primary"),
        (FeedLost("1-0"), WARNING, "the store lost changes after 1-0: all is read again"),
        (
            LossHeld(("a", "b"), ()),
            WARNING,
            "the store lacks what is known, which stays in use until that is sure: brokers a, b; topics none",
        ),
        (LossReleased("returned"), INFO, "all that was held back has come back"),
        (LossReleased("time"), WARNING, "what was lacking is believed to be lost now (time)"),
        (BrokerIsolated("a", "latency", 2.04), WARNING, "broker a is left alone for 2.0 s (latency)"),
        (BrokerReturned("a"), INFO, "broker a is used again"),
        (BrokersSuspected(("a", "b")), WARNING, "other clients cannot reach brokers a, b"),
        (BrokersSuspected(()), INFO, "no broker is suspected by other clients any more"),
        (
            SnapshotUnusable("/r.json", "is empty", "read"),
            WARNING,
            "the snapshot /r.json is not used: is empty",
        ),
        (
            SnapshotUnusable("/r.json", "disk full", "write"),
            WARNING,
            "the snapshot /r.json cannot be written: disk full",
        ),
    ],
)
def test_a_change_of_state_is_one_line(
    caplog: pytest.LogCaptureFixture, event: Event, level: int, message: str
) -> None:
    LogObserver().on_event(event)
    (record,) = caplog.records
    assert (record.name, record.levelno, record.getMessage()) == ("sharedroutes.client", level, message)


@pytest.mark.parametrize(
    "event",
    [
        RoutesChanged(("t",)),
        AttemptEnded("t", "a", 0.1, "failed"),
        LookupDone(1, 0, 0.1),
        SnapshotSaved(1),
        SourceChanged("none", "live", ""),
        SourceChanged("snapshot", "live", ""),
    ],
)
def test_what_goes_as_it_should_is_no_line(caplog: pytest.LogCaptureFixture, event: Event) -> None:
    LogObserver().on_event(event)
    assert caplog.records == []


def test_there_is_an_example_of_every_event() -> None:
    assert {type(event) for event in ALL_EVENTS} == set(get_args(Event))


@pytest.mark.parametrize("event", ALL_EVENTS, ids=lambda event: type(event).__name__)
def test_a_record_has_the_fields_of_its_event(caplog: pytest.LogCaptureFixture, event: Event) -> None:
    LogObserver().on_event(event)
    for record in caplog.records:
        told = {name: record.__dict__[name] for name in ("event", *(one.name for one in fields(event)))}
        assert told == {
            "event": type(event).__name__,
            **{one.name: getattr(event, one.name) for one in fields(event)},
        }


def test_a_message_names_a_few_and_the_record_names_all(caplog: pytest.LogCaptureFixture) -> None:
    topics = tuple(f"t{number}" for number in range(10_000))
    LogObserver().on_event(LossHeld(topics[:5], topics))
    (record,) = caplog.records
    message = record.getMessage()
    assert message.endswith("brokers t0, t1, t2, t3, t4; topics t0, t1, t2, t3, t4 and 9,995 more")
    assert record.__dict__["topics"] == topics
