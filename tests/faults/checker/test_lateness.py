"""A bound counts only the time in which the machine ran those who have to keep it."""

from __future__ import annotations

from operator import attrgetter
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sharedroutes.client import NoRoute
from tests.faults.checker.alterations import ALTERATIONS
from tests.faults.checker.history import (
    Event,
    Expected,
    Fault,
    Late,
    Lease,
    Lost,
    Replica,
    Run,
    Sent,
    TableContent,
)
from tests.faults.checker.lateness import Lateness
from tests.faults.checker.report import check
from tests.faults.checker.story import BOUNDS, BROKERS, CLIENTS, TOPIC, Story, address_of, reasons
from tests.faults.checker.test_rules import ALL_STEPS, told

WHO: Final = CLIENTS[0]
BROKER: Final = BROKERS[0]
TABLE: Final = TableContent((Replica(BROKER, 0, address_of(BROKER)),), {BROKER: (TOPIC,)})
WAITED_US: Final = 1_000 * BOUNDS.attempt_ms


def late(at_ms: int, late_ms: int, process: str = "") -> Late:
    """Return that a process did not run for so long, until then."""
    return Late(at_us=1_000 * at_ms, who="watchdog", late_ms=late_ms, process=process)


def test_a_bound_waits_for_those_whom_it_concerns_and_for_what_serves_all() -> None:
    found = Lateness([late(11_000, 500), late(12_000, 500, "one"), late(13_000, 500, "two")])
    assert found.limit_us(10_000_000, 5_000, ()) == 15_500_000
    assert found.limit_us(10_000_000, 5_000, ["one"]) == 16_000_000
    assert found.limit_us(10_000_000, 5_000, found.processes) == 16_500_000
    assert found.within_us(10_000_000, 20_000_000, ["two"]) == 1_000_000


def test_who_waited_in_the_same_moment_waited_once() -> None:
    found = Lateness([late(11_000, 500, "one"), late(11_100, 400, "two")])
    assert found.within_us(10_000_000, 20_000_000, ["one", "two"]) == 600_000


def test_while_nobody_runs_no_bound_is_over() -> None:
    hours = [late(10_000 + 100 * number, 100) for number in range(36_000)]
    assert Lateness(hours).limit_us(10_000_000, 1_000, ()) >= hours[-1].at_us
    assert Lateness(hours).within_us(20_000_000, 21_000_000, ()) == 1_000_000


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 500)), max_size=20),
    st.integers(0, 10_000),
    st.integers(1, 3_000),
)
def test_a_limit_is_as_much_later_as_the_machine_was_late_until_then(
    stalls: list[tuple[int, int]], since_ms: int, bound_ms: int
) -> None:
    found = Lateness(late(at_ms, late_ms) for at_ms, late_ms in stalls)
    since_us = 1_000 * since_ms
    limit_us = found.limit_us(since_us, bound_ms, ())
    ran_us = limit_us - since_us - found.within_us(since_us, limit_us, ())
    assert limit_us >= since_us + 1_000 * bound_ms
    assert ran_us <= 1_000 * bound_ms
    assert limit_us <= since_us + 1_000 * (bound_ms + sum(late_ms for _, late_ms in stalls))


def story() -> Story:
    """Return a registry that works."""
    begun = Story()
    begun.begin()
    return begun


def timed_out(at_us: int, attempt: int = 1) -> Sent:
    """Return an attempt that has waited in vain until then."""
    return Sent(
        at_us=at_us,
        who=WHO,
        message="late",
        topic=TOPIC,
        broker=BROKER,
        address=address_of(BROKER),
        attempt=attempt,
        ok=False,
        error="TimeoutError('timed out')",
        began_us=at_us - WAITED_US,
    )


def about_messages(works: Story, *more: Event) -> list[str]:
    """Return what is wrong about messages."""
    return reasons([*works.events, *more], "e")


FAILED: Final = f"1 first attempts of {WHO} failed after the start; 0 are allowed"


@pytest.mark.parametrize("process", ["", WHO, BROKER])
def test_an_attempt_that_the_machine_gave_no_time_says_nothing(process: str) -> None:
    works = story()
    at_ms = works.now_ms
    sent = timed_out(1_000 * at_ms)
    assert about_messages(works, sent) == [FAILED]
    assert about_messages(works, sent, late(at_ms - 100, BOUNDS.attempt_ms // 2, process)) == []
    assert about_messages(works, sent, late(at_ms - 100, BOUNDS.attempt_ms // 2 - 1, process)) == [FAILED]
    assert about_messages(works, sent, late(at_ms - 100, BOUNDS.attempt_ms, "somebody else")) == [FAILED]
    assert about_messages(works, sent, late(at_ms - 5_000, BOUNDS.attempt_ms, process)) == [FAILED]


def test_an_attempt_that_was_refused_had_the_time_that_it_needed() -> None:
    works = story()
    refused = replace(timed_out(1_000 * works.now_ms), began_us=1_000 * works.now_ms - 5_000)
    assert about_messages(works, refused, late(works.now_ms, 50, BROKER)) == [FAILED]


def test_a_message_is_not_lost_by_attempts_that_had_no_time() -> None:
    works = story()
    at_us = 1_000 * works.now_ms
    lost = Lost(at_us=at_us, who=WHO, message="late", topic=TOPIC, error="AttemptsFailed()")
    last = timed_out(at_us, attempt=3)
    assert about_messages(works, last, lost) == [f"{WHO} lost late: AttemptsFailed()"]
    assert about_messages(works, last, lost, late(works.now_ms, BOUNDS.attempt_ms, BROKER)) == []


def test_an_attempt_that_is_under_way_when_a_fault_begins_fails_by_it() -> None:
    works = story()
    at_us = 1_000 * works.now_ms
    begin = Fault(at_us=at_us - 1, who="scheduler", name="kill-broker", target=BROKER, phase="begin")
    end = replace(begin, at_us=at_us + 1, phase="end")
    assert about_messages(works, replace(timed_out(at_us), began_us=at_us - 10_000), begin, end) == []
    assert about_messages(works, replace(timed_out(at_us - 2), began_us=at_us - 10_000), begin, end) == [
        FAILED
    ]


def test_nothing_is_promised_before_everything_works() -> None:
    works = story()
    works_us = next(event.at_us for event in works.events if isinstance(event, Expected))
    first = next(event.at_us for event in works.events if not isinstance(event, Run))
    early = replace(timed_out(works_us + 1), began_us=first)
    assert about_messages(works, early) == []
    assert FAILED in about_messages(works, replace(early, began_us=works_us))


OF_TIME: Final = {
    "the end of a lease is told late",
    "a dead broker has a lease",
    "a killed broker has its lease until that ends",
    "a view shows a new owner late",
    "a follower is told late",
    "a follower is told of each change by reading",
    "a client holds back what lives",
    "a living broker is withdrawn",
    "the lease of a living broker ends by itself",
    "a drained broker is registered",
    "a dead broker is registered",
    "a broker is missing in a view",
    "a view is never confirmed",
    "a live broker has no lease",
    "somebody says nothing any more",
    "a broker that is well is not used again",
    "an owner does not notice that it was fenced",
    "a dead broker is listed",
}
"""What may be so for a while: how long, a machine decides that runs nobody."""


@pytest.mark.parametrize("name", ALTERATIONS)
def test_a_machine_that_runs_nobody_excuses_what_comes_late_and_nothing_else(name: str) -> None:
    rule, alter = ALTERATIONS[name]
    events = alter(told(ALL_STEPS).events, Random(1))
    assert events is not None
    begin_ms, end_ms = events[0].at_us // 1_000, events[-1].at_us // 1_000
    nobody_runs = [late(at_ms, 100) for at_ms in range(begin_ms + 100, end_ms, 100)]
    assert rule in check(events).caught_by
    found = check(sorted([*events, *nobody_runs], key=attrgetter("at_us")))
    assert (rule in found.caught_by) == (name not in OF_TIME)


@pytest.mark.parametrize(("back_ms", "wrong"), [(BOUNDS.stale_ms + 200, 1), (BOUNDS.stale_ms - 200, 0)])
def test_who_finds_no_route_may_not_know_yet_that_somebody_is_back(back_ms: int, wrong: int) -> None:
    works = story()
    lives = Expected(at_us=1_000 * works.now_ms, who="scheduler", table=TABLE)
    works.now_ms += back_ms
    error = f"{NoRoute.__name__}: no live broker"
    lost = Lost(at_us=1_000 * works.now_ms, who=WHO, message="none", topic=TOPIC, error=error)
    looks = [
        Lease(at_us=at_us, who="auditor", broker=BROKER, id=0, epoch=7, address=address_of(BROKER))
        for at_us in (lives.at_us, lost.at_us)
    ]
    gone = [Lease(at_us=lives.at_us - 1, who="auditor", broker=name, id=0) for name in BROKERS]
    found = about_messages(works, *gone, lives, *looks, lost)
    assert len([reason for reason in found if "lost none" in reason]) == wrong
    late_ms = Late(at_us=lost.at_us - 1, who="driver", late_ms=500, process=WHO)
    assert not any(
        "lost none" in reason for reason in about_messages(works, *gone, lives, *looks, lost, late_ms)
    )


@pytest.mark.parametrize(("what", "wrong"), [("", 1), ("the lease", 0), ("the topic", 0)])
def test_who_finds_no_route_may_have_heard_of_an_end_meanwhile(what: str, wrong: int) -> None:
    works = story()
    lives = Expected(at_us=1_000 * works.now_ms, who="scheduler", table=TABLE)
    works.now_ms += BOUNDS.stale_ms + 200
    lost_us = 1_000 * works.now_ms
    error = f"{NoRoute.__name__}: no live broker"
    lost = Lost(at_us=lost_us, who=WHO, message="none", topic=TOPIC, error=error)
    lease = Lease(at_us=lives.at_us, who="auditor", broker=BROKER, id=0, epoch=7, address=address_of(BROKER))
    gone = [Lease(at_us=lives.at_us - 1, who="auditor", broker=name, id=0) for name in BROKERS]
    events: list[Event] = [*gone, lives, lease, replace(lease, at_us=lost_us), lost]
    if what == "the lease":
        events.append(replace(gone[0], at_us=lost_us - 100_000, broker=BROKER))
    elif what == "the topic":
        events.append(replace(lives, at_us=lost_us - 100_000, table=TableContent(TABLE.leases, {})))
        events.append(replace(lives, at_us=lost_us - 1))
    found = about_messages(works, *sorted(events, key=attrgetter("at_us")))
    assert len([reason for reason in found if "lost none" in reason]) == wrong
