"""A broker that lives is not registered at another address, and keeps its write permission after a drain."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sharedroutes.registry import ChangeKind
from tests.faults.checker.endings import DRAINED
from tests.faults.checker.history import OPERATOR, STORE, Event, Fault, Log, Record, Started, State
from tests.faults.checker.story import BOUNDS, BROKERS, Story, address_of, reasons

BROKER = BROKERS[0]
AGENT = f"agent-{BROKER}-first"


def around(story: Story, who: str, name: str = "pause-x") -> list[Event]:
    """Return a fault that concerns somebody now."""
    begin = Fault(who="scheduler", name=name, target=who, phase="begin", disturbs=(who,))
    at_us = 1_000 * story.now_ms
    return [replace(begin, at_us=at_us - 1), replace(begin, at_us=at_us + 5_000, phase="end")]


@pytest.mark.parametrize(("address", "wrong"), [("127.0.0.1:1", 1), (address_of(BROKER), 0)])
def test_who_lives_is_not_registered_elsewhere(address: str, wrong: int) -> None:
    story = Story()
    story.begin()
    story.calm()
    up = Record(kind=ChangeKind.UP, broker=BROKER, epoch=story.now_ms, address=address)
    story.change(up)
    assert len(reasons(story.events, "g", "was registered at")) == wrong


@pytest.mark.parametrize(("who", "wrong"), [(BROKER, 0), (AGENT, 0), (STORE, 0), ("somebody else", 1)])
def test_who_stands_still_may_be_replaced(who: str, wrong: int) -> None:
    story = Story()
    story.begin()
    story.calm()
    fault = around(story, who)
    story.change(Record(kind=ChangeKind.UP, broker=BROKER, epoch=story.now_ms, address="127.0.0.1:1"))
    assert len(reasons([*story.events, *fault], "g", "was registered at")) == wrong


@pytest.mark.parametrize(("who", "wrong"), [("somebody else", 1), ("front-1", 0), (BROKER, 0)])
def test_who_lives_and_is_at_fronts_is_not_registered_elsewhere(who: str, wrong: int) -> None:
    story = Story()
    story.begin()
    story.tell(Started(who="front-1", pid=1))
    story.calm()
    fault = around(story, who)
    story.change(Record(kind=ChangeKind.UP, broker=BROKER, epoch=story.now_ms, address="127.0.0.1:1"))
    at_fronts = [of for of in story.events if not isinstance(of, State)]
    assert len(reasons([*at_fronts, *fault], "g", "was registered at")) == wrong


def drained(by: str, *, lifts: bool) -> Story:
    """Return a story in which somebody takes the write permission of a broker, and it is drained."""
    story = Story()
    story.begin()
    record = Record(kind=ChangeKind.WIPED, broker=BROKER, by=by)
    story.change(record)
    story.change(Record(kind=ChangeKind.DOWN, broker=BROKER, epoch=story.epoch(BROKER), reason=DRAINED))
    if lifts:
        story.change(replace(record, kind=ChangeKind.LIFTED))
    return story


@pytest.mark.parametrize(
    ("by", "lifts", "wrong"), [("agent", True, 0), ("agent", False, 1), (OPERATOR, False, 0)]
)
def test_an_agent_gives_back_what_it_took_for_a_drain(by: str, wrong: int, *, lifts: bool) -> None:
    story = drained(by, lifts=lifts)
    story.calm()
    assert len(reasons(story.events, "g", "keeps its write permission")) == wrong


@pytest.mark.parametrize(
    ("after_ms", "by", "wrong"), [(2, "agent", 1), (BOUNDS.arrival_ms, "agent", 0), (2, OPERATOR, 0)]
)
def test_an_agent_gives_back_what_it_took_when_the_broker_is_out(after_ms: int, by: str, wrong: int) -> None:
    story = Story()
    story.begin()
    story.change(Record(kind=ChangeKind.WIPED, broker=BROKER, by="agent"))
    story.change(Record(kind=ChangeKind.LIFTED, broker=BROKER, by=by))
    story.now_ms += after_ms
    story.change(Record(kind=ChangeKind.DOWN, broker=BROKER, epoch=story.epoch(BROKER), reason=DRAINED))
    story.calm()
    assert len(reasons(story.events, "g", "before it is out")) == wrong


@pytest.mark.parametrize(("who", "wrong"), [(AGENT, 0), (STORE, 0), ("somebody else", 1)])
def test_an_agent_that_is_kept_from_it_gives_nothing_back(who: str, wrong: int) -> None:
    story = drained("agent", lifts=False)
    fault = around(story, who)
    story.calm()
    assert len(reasons([*story.events, *fault], "g", "keeps its write permission")) == wrong


@pytest.mark.parametrize(("after_ms", "wrong"), [(-10, 1), (2, 0), (BOUNDS.back_ms, 1)])
def test_whoever_sweeps_says_that_the_clock_of_the_store_jumped(after_ms: int, wrong: int) -> None:
    story = Story()
    story.begin()
    jump = around(story, STORE, "store-clock-behind")
    at_us = 1_000 * (story.now_ms + after_ms)
    text = "the clock of the store's server jumped by +3600.0 s"
    log = Log(at_us=at_us, who="driver", process="agent", level="ERROR", text=text)
    story.calm()
    assert len(reasons([*story.events, *jump, log], "j", "nobody says")) == wrong
    assert len(reasons([*story.events, *jump, log], "j", "logged at ERROR")) == (after_ms < 0)
