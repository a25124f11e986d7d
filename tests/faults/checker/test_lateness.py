"""A bound counts only the time in which the machine ran those who have to keep it."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.faults.checker.history import Event, Expected, Fault, Late, Lost, Run, Sent
from tests.faults.checker.lateness import Lateness
from tests.faults.checker.report import check
from tests.faults.checker.story import BOUNDS, BROKERS, CLIENTS, TOPIC, Story, address_of

WHO: Final = CLIENTS[0]
BROKER: Final = BROKERS[0]
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
    told = Story()
    told.begin()
    return told


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


def reasons(told: Story, *more: Event) -> list[str]:
    """Return what is wrong about messages."""
    events = sorted([*told.events, *more], key=attrgetter("at_us"))
    return [violation.reason for violation in check(events).verdicts["e"].violations]


FAILED: Final = f"1 first attempts of {WHO} failed after the start; 0 are allowed"


@pytest.mark.parametrize("process", ["", WHO, BROKER])
def test_an_attempt_that_the_machine_gave_no_time_says_nothing(process: str) -> None:
    told = story()
    at_ms = told.now_ms
    sent = timed_out(1_000 * at_ms)
    assert reasons(told, sent) == [FAILED]
    assert reasons(told, sent, late(at_ms - 100, BOUNDS.attempt_ms // 2, process)) == []
    assert reasons(told, sent, late(at_ms - 100, BOUNDS.attempt_ms // 2 - 1, process)) == [FAILED]
    assert reasons(told, sent, late(at_ms - 100, BOUNDS.attempt_ms, "somebody else")) == [FAILED]
    assert reasons(told, sent, late(at_ms - 5_000, BOUNDS.attempt_ms, process)) == [FAILED]


def test_an_attempt_that_was_refused_had_the_time_that_it_needed() -> None:
    told = story()
    refused = replace(timed_out(1_000 * told.now_ms), began_us=1_000 * told.now_ms - 5_000)
    assert reasons(told, refused, late(told.now_ms, 50, BROKER)) == [FAILED]


def test_a_message_is_not_lost_by_attempts_that_had_no_time() -> None:
    told = story()
    at_us = 1_000 * told.now_ms
    lost = Lost(at_us=at_us, who=WHO, message="late", topic=TOPIC, error="AttemptsFailed()")
    last = timed_out(at_us, attempt=3)
    assert reasons(told, last, lost) == [f"{WHO} lost late: AttemptsFailed()"]
    assert reasons(told, last, lost, late(told.now_ms, BOUNDS.attempt_ms, BROKER)) == []


def test_an_attempt_that_is_under_way_when_a_fault_begins_fails_by_it() -> None:
    told = story()
    at_us = 1_000 * told.now_ms
    begin = Fault(at_us=at_us - 1, who="scheduler", name="kill-broker", target=BROKER, phase="begin")
    end = replace(begin, at_us=at_us + 1, phase="end")
    assert reasons(told, replace(timed_out(at_us), began_us=at_us - 10_000), begin, end) == []
    assert reasons(told, replace(timed_out(at_us - 2), began_us=at_us - 10_000), begin, end) == [FAILED]


def test_nothing_is_promised_before_everything_works() -> None:
    told = story()
    works_us = next(event.at_us for event in told.events if isinstance(event, Expected))
    first = next(event.at_us for event in told.events if not isinstance(event, Run))
    early = replace(timed_out(works_us + 1), began_us=first)
    assert reasons(told, early) == []
    assert reasons(told, replace(early, began_us=works_us)) == [FAILED]
