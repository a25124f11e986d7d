"""What ends a lease, and what begins it again, against what operators, agents and clocks did."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from tests.faults.checker.alterations import ALTERATIONS
from tests.faults.checker.history import (
    STORE,
    Change,
    Event,
    Expected,
    Fault,
    Late,
    Started,
    State,
    TableContent,
)
from tests.faults.checker.story import BOUNDS, BROKERS, Story, reasons

DRAINED = "a drained broker is registered"
DEAD = "a dead broker is registered"
EXPIRED = "the lease of a living broker ends by itself"


def altered(name: str) -> list[Event]:
    """Return a history in which something goes wrong."""
    story = Story()
    story.begin()
    story.crash(BROKERS[0])
    story.end()
    events = ALTERATIONS[name].alter(story.events, Random(1))
    assert events is not None
    return events


@pytest.mark.parametrize(("later_us", "wrong"), [(1_000, 0), (1_000 * BOUNDS.arrival_ms + 1_000, 1)])
def test_a_drained_broker_may_be_back_if_that_is_said_soon_even_if_it_is_taken_again(
    later_us: int, wrong: int
) -> None:
    events = altered(DRAINED)
    up = next(event for event in events if isinstance(event, Change) and event.id.endswith("01"))
    truths = [event for event in events if isinstance(event, Expected)]
    back = replace(truths[0], at_us=up.at_us + later_us)
    again = replace(back, at_us=back.at_us + 1_000, table=TableContent())
    assert len(reasons([*events, back, again], "d", "was drained")) == wrong


def test_a_lease_may_end_by_itself_while_the_machine_runs_nobody_for_half_of_it() -> None:
    events = altered(EXPIRED)
    assert len(reasons(events, "d", "its lease has ended")) == 1
    (down,) = (event for event in events if isinstance(event, Change) and event.id == f"{event.at_us}-0")
    late = Late(at_us=down.at_us - 1_000, who="watchdog", late_ms=BOUNDS.lease_ms // 2)
    assert reasons([*events, late], "d", "its lease has ended") == []


@pytest.mark.parametrize("name", ["kill-agent", "clock-behind"])
def test_the_clock_of_an_agent_is_no_reason_for_a_lease_to_end_and_a_kill_is(name: str) -> None:
    events = altered(EXPIRED)
    (down,) = (event for event in events if isinstance(event, Change) and event.id == f"{event.at_us}-0")
    assert down.record is not None
    states = [event for event in events if isinstance(event, State) and event.broker == down.record.broker]
    owner = states[-1]
    begin = Fault(at_us=owner.at_us - 2, who="scheduler", name=name, target=owner.who, phase="begin")
    disturbs, restarts = ((owner.who,), ()) if name == "kill-agent" else ((), (owner.who,))
    begin = replace(begin, disturbs=disturbs, restarts=restarts)
    start = Started(at_us=owner.at_us - 1, who=owner.who, pid=2)
    again = replace(start, at_us=down.at_us + 1_000)
    end = replace(begin, at_us=down.at_us + 2_000, phase="end")
    found = reasons([*events, begin, start, again, end], "d", "its lease has ended")
    assert len(found) == (name == "clock-behind")


def test_an_agent_that_was_cut_off_a_moment_before_may_have_the_same_lease_again_later() -> None:
    events = altered(EXPIRED)
    (down,) = (event for event in events if isinstance(event, Change) and event.id == f"{event.at_us}-0")
    assert down.record is not None
    of = down.record
    owner = next(
        event
        for event in reversed(events)
        if isinstance(event, State) and (event.broker, event.id, event.epoch) == (of.broker, of.id, of.epoch)
    )
    begin = Fault(at_us=owner.at_us + 1, who="scheduler", name="cut-owners", target="", phase="begin")
    begin = replace(begin, disturbs=(owner.who,))
    end = replace(begin, at_us=down.at_us - 1_000, phase="end")
    again = replace(owner, at_us=down.at_us + 1_000_000)
    assert reasons([*events, begin, end, again], "d", "its lease has ended") == []


@pytest.mark.parametrize(("name", "found"), [("kill-agent", 1), ("slow", 0), ("kill-store", 0)])
def test_a_sweep_is_late_only_where_nothing_concerns_the_sweeper(name: str, found: int) -> None:
    disturbs = (STORE,) if name == "kill-store" else ()
    events = [
        replace(event, name=name, disturbs=disturbs) if isinstance(event, Fault) else event
        for event in altered("the end of a lease is told late")
    ]
    assert len(reasons(events, "c", "ms late; ")) == found


@pytest.mark.parametrize(("name", "text"), [(DRAINED, "was drained"), (DEAD, "was found dead")])
def test_who_is_out_may_not_be_registered(name: str, text: str) -> None:
    assert len(reasons(altered(name), "d", f"{text}, and somebody registered it again")) == 1


@pytest.mark.parametrize(("name", "others", "wrong"), [("kill-x", 0, 1), ("cut", 0, 0), ("kill-x", 1, 0)])
def test_who_is_found_dead_stays_out_where_it_is_stopped_and_nothing_else_is_wrong(
    name: str, others: int, wrong: int
) -> None:
    events = [replace(of, name=name) if isinstance(of, Fault) else of for of in altered(DEAD)]
    faults = [replace(of, name="cut", target="x") for of in events if isinstance(of, Fault)]
    assert len(reasons([*events, *faults * others], "d", "was found dead")) == wrong


@pytest.mark.parametrize(
    ("name", "by", "later_us", "wrong"),
    [
        ("pause-x", "agent at vm", 0, 0),
        ("pause-x", "agent at vm", 1_000_000, 1),
        ("pause-x", "front vm-1", 0, 1),
        ("kill-x", "agent at vm", 0, 1),
    ],
)
def test_an_agent_that_stands_by_may_find_a_moment_later_that_a_broker_hangs(
    name: str, by: str, later_us: int, wrong: int
) -> None:
    events = [replace(of, name=name) if isinstance(of, Fault) else of for of in altered(DEAD)]
    (up,) = (of for of in events if isinstance(of, Change) and of.id.endswith("01"))
    assert up.record is not None
    others = [of for of in events if of is not up]
    again = replace(up, at_us=up.at_us + later_us, record=replace(up.record, by=by))
    assert len(reasons([*others, again], "d", "was found dead")) == wrong
