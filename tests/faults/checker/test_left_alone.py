"""What a broker that lives must not lose: by a moment of standing still, or by the end of an agent."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sharedroutes.registry import ChangeKind
from sharedroutes.registry.model import EXPIRED
from tests.faults.checker.history import (
    OPERATOR,
    Change,
    Event,
    Expected,
    Fault,
    Late,
    Lease,
    Record,
    Replica,
    Route,
    Sent,
    Started,
    State,
)
from tests.faults.checker.story import BOUNDS, BROKERS, CLIENTS, TOPIC, Story, address_of, calm, reasons

BROKER = BROKERS[0]
STANDBY = "agent-broker-a-first"


def down(story: Story, reason: str) -> Change:
    """Return that the lease of the broker has ended, now."""
    record = Record(kind=ChangeKind.DOWN, broker=BROKER, epoch=story.epoch(BROKER), reason=reason)
    return Change(at_us=1_000 * story.now_ms, who="auditor", id="9-9", record=record)


@pytest.mark.parametrize(
    ("name", "reason", "wrong"),
    [
        ("pause-broker-briefly", "does not answer", 1),
        ("pause-broker-briefly", EXPIRED, 0),
        ("pause-broker", "does not answer", 0),
    ],
)
def test_a_broker_that_stands_still_for_a_moment_stays(name: str, reason: str, wrong: int) -> None:
    story = calm()
    end = down(story, reason)
    begin = Fault(at_us=end.at_us - 1_000_000, who="scheduler", name=name, target=BROKER, phase="begin")
    begin = replace(begin, disturbs=(BROKER,))
    over = replace(begin, at_us=end.at_us + 1_000, phase="end")
    text = "stood still for a moment"
    assert len(reasons([*story.events, begin, end, over], "d", text)) == wrong
    starved = Late(at_us=end.at_us - 1, who="driver", late_ms=BOUNDS.lease_ms // 2 + 500)
    assert reasons([*story.events, begin, end, over, starved], "d", text) == []


@pytest.mark.parametrize(
    ("state", "reason", "wrong"), [("standby", EXPIRED, 1), ("left", EXPIRED, 0), ("standby", "closed", 0)]
)
def test_a_standby_does_not_let_the_lease_end(state: str, reason: str, wrong: int) -> None:
    story = calm()
    end = down(story, reason)
    said = State(who=STANDBY, broker=BROKER, id=0, state="standby")
    said = replace(said, at_us=end.at_us - 1_000 * BOUNDS.lease_ms, state=state)
    text = "stands by for"
    assert len(reasons([*story.events, said, end], "d", text)) == wrong
    assert reasons([*story.events, replace(said, at_us=said.at_us + 1), end], "d", text) == []
    starved = Late(at_us=end.at_us - 1, who="driver", late_ms=BOUNDS.lease_ms // 2, process=STANDBY)
    assert reasons([*story.events, said, end, starved], "d", text) == []


@pytest.mark.parametrize(
    ("after_ms", "broker", "wrong"), [(100, BROKER, 1), (-500, BROKER, 0), (100, BROKERS[1], 0)]
)
def test_nobody_sends_to_a_broker_whose_write_permission_was_taken(
    after_ms: int, broker: str, wrong: int
) -> None:
    story = calm()
    wiped_us = 1_000 * story.now_ms
    sent_us = wiped_us + 1_000 * (BOUNDS.stale_ms + after_ms)
    wiped = Change(at_us=wiped_us, who="auditor", id="9-8")
    wiped = replace(wiped, record=Record(kind=ChangeKind.WIPED, broker=BROKER, by=OPERATOR))
    lifted = replace(wiped, at_us=sent_us + 1_000 * BOUNDS.looks_ms + 1, id="9-9")
    lifted = replace(lifted, record=Record(kind=ChangeKind.LIFTED, broker=BROKER, by=OPERATOR))
    sent = Sent(
        at_us=sent_us, who=CLIENTS[0], message="m", topic=TOPIC, broker=broker, address="", attempt=1, ok=True
    )
    sent = replace(sent, address=address_of(broker))
    assert len(reasons([*story.events, wiped, sent, lifted], "g", "has taken")) == wrong
    assert reasons([*story.events, wiped, sent, replace(lifted, at_us=sent_us + 1)], "g", "has taken") == []
    late = Late(at_us=sent_us - 1, who="driver", late_ms=200, process=CLIENTS[0])
    assert reasons([*story.events, wiped, sent, lifted, late], "g", "has taken") == []


@pytest.mark.parametrize("who", ["front-1", BROKER])
@pytest.mark.parametrize(
    ("begun_ms", "seen_ms", "wrong"),
    [
        (None, BOUNDS.lease_ms + BOUNDS.stale_ms - 500, 0),
        (None, BOUNDS.lease_ms + BOUNDS.stale_ms + 500, 1),
        (BOUNDS.back_ms + 1_000, BOUNDS.lease_ms + BOUNDS.stale_ms + 500, 1),
        (BOUNDS.back_ms - 1_000, BOUNDS.lease_ms + BOUNDS.stale_ms + 500, 0),
        (BOUNDS.back_ms - 1_000, BOUNDS.fronts_ms + BOUNDS.stale_ms + 500, 1),
    ],
)
def test_a_broker_that_hangs_is_left_its_lease_where_a_front_or_it_has_just_begun(
    begun_ms: int | None, seen_ms: int, wrong: int, who: str
) -> None:
    story = calm()
    gone_us = 1_000 * story.now_ms
    begin = Fault(at_us=gone_us, who="scheduler", name="pause-broker", target=BROKER, phase="begin")
    begin = replace(begin, disturbs=(BROKER,))
    looks = [event for event in story.events if isinstance(event, Lease) and event.broker == BROKER]
    truth = next(event for event in story.events if isinstance(event, Expected))
    without = tuple(of for of in truth.table.leases if of.broker != BROKER)
    dead = replace(truth, at_us=gone_us, table=replace(truth.table, leases=without))
    seen = replace(looks[-1], at_us=gone_us + 1_000 * seen_ms)
    more: list[Event] = [begin, dead, seen, replace(begin, at_us=seen.at_us + 9_000_000, phase="end")]
    if begun_ms is not None:
        more.append(Started(at_us=gone_us - 1_000 * begun_ms, who=who, pid=9))
    assert len(reasons([*story.events, *more], "d", "keeps its lease")) == wrong


@pytest.mark.parametrize(
    ("after_ms", "other_fails", "anew", "topic", "wrong"),
    [
        (500, False, False, TOPIC, 1),
        (BOUNDS.alone_ms + 500, False, False, TOPIC, 0),
        (500, True, False, TOPIC, 0),
        (500, True, False, "without the other", 1),
        (500, False, True, TOPIC, 0),
    ],
)
def test_who_has_failed_is_left_alone_for_a_while(
    after_ms: int, topic: str, *, other_fails: bool, anew: bool, wrong: int
) -> None:
    story = calm()
    failed = Sent(who=CLIENTS[0], message="m", topic=TOPIC, broker=BROKER, address="", attempt=2, ok=False)
    story.tell(replace(failed, address=address_of(BROKER)))
    if other_fails:
        story.tell(replace(failed, broker=BROKERS[1], address=address_of(BROKERS[1])))
    if anew:
        story.own(BROKER)
    story.now_ms += after_ms
    holders = tuple(Replica(name, 0, address_of(name)) for name in (BROKER, BROKERS[2]))
    story.tell(Route(who=CLIENTS[0], topic="without the other", brokers=holders))
    story.tell(replace(failed, topic=topic, address=address_of(BROKER), attempt=1))
    assert len(reasons(story.events, "e", "sends first")) == wrong


def test_what_a_client_knew_when_it_chose_counts_and_not_what_it_knows_when_that_failed() -> None:
    story = calm()
    failed = Sent(who=CLIENTS[0], message="m", topic=TOPIC, broker=BROKER, address="", attempt=2, ok=False)
    for name in (BROKER, BROKERS[1]):
        story.tell(replace(failed, broker=name, address=address_of(name)))
    story.now_ms += 500
    chosen_us = 1_000 * story.now_ms
    story.now_ms += 100
    left = (Replica(BROKERS[1], 0, address_of(BROKERS[1])),)
    story.tell(Route(who=CLIENTS[0], topic=TOPIC, brokers=left))
    story.now_ms += 400
    story.tell(replace(failed, address=address_of(BROKER), attempt=1, began_us=chosen_us))
    assert reasons(story.events, "e", "sends first") == []
