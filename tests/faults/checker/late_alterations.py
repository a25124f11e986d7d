"""What comes too late, or is taken although somebody has it: alterations of a right history."""

from __future__ import annotations

from operator import attrgetter
from random import Random
from typing import Final

from msgspec.structs import replace

from sharedroutes.registry import EXPIRED, ChangeKind
from tests.faults.checker.endings import DRAINED
from tests.faults.checker.history import Behind, Change, Event, Expected, Fault, Item, Lease, Route, State
from tests.faults.checker.past import Past
from tests.faults.checker.story import BOUNDS, CLIENTS

Events = list[Event]

_DEAF: Final = 8
_ARRIVAL_US: Final = 1_000 * BOUNDS.arrival_ms


def _by_time(events: Events) -> Events:
    return sorted(events, key=attrgetter("at_us"))


def _changes_of_crashes(events: Events, kind: ChangeKind) -> list[Change]:
    """Return the ends of leases, or the new owners, in crashes of hosts."""
    crashes = [window for window in Past(events).faults if window.fault.name == "kill-host"]
    return [
        event
        for event in events
        if isinstance(event, Change)
        and event.record is not None
        and event.record.kind == kind
        and any(window.begin_us <= event.at_us <= window.end_us for window in crashes)
    ]


def view_is_late(events: Events, rng: Random) -> Events | None:
    """Let a client learn of a new owner too late."""
    if not (ups := _changes_of_crashes(events, ChangeKind.UP)):
        return None
    change, who = rng.choice(ups), rng.choice(CLIENTS)
    assert change.record is not None
    name, until_us = change.record.broker, change.at_us + _ARRIVAL_US + 1_000
    return [
        replace(event, brokers=tuple(of for of in event.brokers or () if of.broker != name))
        if isinstance(event, Route) and event.who == who and change.at_us <= event.at_us <= until_us
        else event
        for event in events
    ]


def silent(events: Events, rng: Random) -> Events | None:
    """Let the run wait in vain for a client, after a fault."""
    past = Past(events)
    ends = [window.end_us for window in past.faults]
    late = [(end, past.limit_us(end, BOUNDS.converge_ms, *past.everybody) + 1) for end in ends]
    if not (possible := [(since, at) for since, at in late if at <= past.end_us]):
        return None
    since_us, at_us = rng.choice(possible)
    return _by_time(
        [*events, Behind(at_us=at_us, who="driver", whose=rng.choice(CLIENTS), since_us=since_us)]
    )


def follower_is_late(events: Events, rng: Random) -> Events | None:
    """Let a follower be told too late of the end of a lease."""
    downs = [
        change
        for change in _changes_of_crashes(events, ChangeKind.DOWN)
        if change.record is not None and change.record.reason == EXPIRED
    ]
    if not downs:
        return None
    change = rng.choice(downs)
    late_us = change.at_us + _ARRIVAL_US + 1_000
    return _by_time(
        [
            replace(event, at_us=late_us) if isinstance(event, Item) and event.id == change.id else event
            for event in events
        ]
    )


def shortened(events: Events, rng: Random) -> Events:
    """Let a lease end before fronts vouch for the broker no more."""
    look = rng.choice([event for event in events if isinstance(event, Lease) and event.left_ms])
    return [
        replace(event, vouched_ms=look.left_ms + BOUNDS.lease_ms) if event is look else event
        for event in events
    ]


def held_alive(events: Events, rng: Random) -> Events | None:
    """Let a client hold a broker back that everybody else sees."""
    past = Past(events)
    since_us = 1_000 * (BOUNDS.back_ms + BOUNDS.arrival_ms)
    found = [
        route
        for route in past.of(Route)
        if route.who in CLIENTS and route.brokers and route.at_us > events[0].at_us + since_us
        if not past.faults_in(route.at_us - since_us, route.at_us)
        if any(
            tenure.from_us <= route.at_us - since_us and tenure.seen_us >= route.at_us
            for replica in route.brokers
            for tenure in past.tenures[replica[:2]]
            if tenure.replica == replica
        )
    ]
    if not found:
        return None
    route = rng.choice(found)
    held = replace(route, held=tuple(replica.broker for replica in route.brokers or ()))
    return [held if event is route else event for event in events]


def only_read(events: Events, rng: Random) -> Events | None:
    """Let a follower find all changes of its own by reading, as if no doorbell told of any."""
    changes = [event for event in events if isinstance(event, Change)]
    late = {change.id: change.at_us + 1_000 * BOUNDS.heard_ms + 1_000 for change in changes}
    told = [
        replace(event, at_us=late.get(event.id, event.at_us)) if isinstance(event, Item) else event
        for event in events
    ]
    apart = {change.at_us // 1_000_000 for change in changes}
    return _by_time(told) if len(apart) > _DEAF else None


def shown_again(events: Events, rng: Random) -> Events | None:
    """Let a client name a broker again that it had dropped when its lease ended."""
    if not (downs := _changes_of_crashes(events, ChangeKind.DOWN)):
        return None
    change, who = rng.choice(downs), rng.choice(CLIENTS)
    assert change.record is not None
    said = [event for event in events if isinstance(event, Route) and event.who == who]
    before = next(route for route in reversed(said) if route.at_us < change.at_us)
    dropped = next(route for route in said if route.at_us > change.at_us)
    return _by_time([*events, replace(before, at_us=dropped.at_us + 1)])


def killed_broker_lives_on(events: Events, rng: Random) -> Events | None:
    """Let the lease of a broker that was killed go on until it ends by itself."""
    crashes = [window for window in Past(events).faults if window.fault.name == "kill-host"]
    if not crashes:
        return None
    fault, begin_us, end_us = rng.choice(crashes)
    found: Events = [
        replace(event, name="kill-broker")
        if isinstance(event, Fault) and begin_us <= event.at_us <= end_us
        else event
        for event in events
    ]
    dead = next(event for event in events if isinstance(event, Expected) and event.at_us > begin_us)
    last = [event for event in events if isinstance(event, Lease) and event.at_us < begin_us]
    look = next(look for look in reversed(last) if look.broker == fault.target)
    return _by_time([*found, replace(look, at_us=dead.at_us + 1_000 * BOUNDS.gone_ms + 1_000)])


def end_is_told_late(events: Events, rng: Random) -> Events | None:
    """Let the end of a lease be told later than a sweeper needs that sleeps until then."""
    if not (downs := _changes_of_crashes(events, ChangeKind.DOWN)):
        return None
    change = rng.choice(downs)
    assert change.record is not None
    assert change.record.ended is not None
    late = replace(change.record, ended=change.record.ended - BOUNDS.swept_ms)
    return [
        replace(event, record=late) if isinstance(event, Change | Item) and event.id == change.id else event
        for event in events
    ]


def back_though_drained(events: Events, rng: Random) -> Events | None:
    """Let a broker that is away have been drained, and be registered at once by somebody else."""
    return _back(events, rng, DRAINED)


def back_though_dead(events: Events, rng: Random) -> Events | None:
    """Let a broker that is away have been found dead, and be registered at once by somebody."""
    stopped = [
        replace(event, disturbs=(event.target,))
        if isinstance(event, Fault) and event.name == "kill-host"
        else event
        for event in events
    ]
    return _back(stopped, rng, "does not answer")


def _back(events: Events, rng: Random, reason: str) -> Events | None:
    if not (downs := _changes_of_crashes(events, ChangeKind.DOWN)):
        return None
    change = rng.choice(downs)
    assert change.record is not None
    out = replace(change.record, reason=reason)
    again = replace(change.record, kind=ChangeKind.UP, reason="", epoch=change.record.epoch + 1)
    told = [
        replace(event, record=out) if isinstance(event, Change | Item) and event.id == change.id else event
        for event in events
    ]
    return _by_time([*told, replace(change, at_us=change.at_us + 1, id=f"{change.id}1", record=again)])


def taken_back(events: Events, rng: Random) -> Events | None:
    """Let an agent that was fenced own the broker at once again, although another one renews its lease."""
    past = Past(events)
    fenced = [state for state in past.of(State) if state.state == "fenced"]
    fenced = [state for state in fenced if state.who.endswith("first")]
    if not fenced:
        return None
    state = rng.choice(fenced)
    looks = [look for look in past.looks[state.broker, 0] if look.at_us <= state.at_us and look.epoch]
    renewed = replace(looks[-1], at_us=state.at_us + 1, left_ms=BOUNDS.lease_ms)
    epoch = (renewed.epoch or 0) + 1
    taken = replace(renewed, at_us=state.at_us + 3, epoch=epoch)
    owner = replace(state, at_us=state.at_us + 2, state="owner", epoch=epoch)
    return _by_time([*events, renewed, owner, taken])
