"""Single events that make a right history a wrong one, each with the rule that has to notice."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from operator import attrgetter
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from sharedroutes.client import NoRoute
from sharedroutes.registry import EXPIRED, ChangeKind
from tests.faults.checker import late_alterations
from tests.faults.checker.history import (
    LISTED,
    OPERATOR,
    Change,
    Event,
    Expected,
    Item,
    Keys,
    Lease,
    Log,
    Lost,
    Received,
    Record,
    Replica,
    Route,
    Sent,
    State,
    Table,
    TableContent,
    Usage,
)
from tests.faults.checker.past import Past
from tests.faults.checker.story import BOUNDS, BROKERS, CLIENTS, TOPIC, address_of
from tests.faults.checker.views import calms

E = TypeVar("E", bound=Event)

Events: TypeAlias = list[Event]
_Alter: TypeAlias = Callable[[Events, Random], Events | None]

_STALE_US: Final = 1_000 * BOUNDS.stale_ms
_HALF: Final = 0.5


class Alteration(NamedTuple):
    """Something that goes wrong."""

    rule: str
    alter: _Alter
    """Returns None for a history in which it cannot happen."""


def _all(events: Events, kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def _with(events: Events, *more: Event) -> Events:
    return sorted([*events, *more], key=attrgetter("at_us"))


def _without(events: Events, gone: Event) -> Events:
    return [event for event in events if event is not gone]


def _altered(events: Events, rng: Random, candidates: list[E], **to: Any) -> Events | None:
    """Return the events with other values in one of the candidates."""
    if not candidates:
        return None
    event = rng.choice(candidates)
    return _with(_without(events, event), replace(event, **to))


def _converged(events: Events, kind: type[E]) -> list[E]:
    """Return the events of a kind in calms, from when on all views have to be true."""
    past = Past(events)
    late = [(past.limit_us(calm.begin_us, BOUNDS.converge_ms), calm.end_us) for calm in calms(past)]
    return [
        event for event in _all(events, kind) if any(since < event.at_us < until for since, until in late)
    ]


# --- (a), (b), (g) ------------------------------------------------------------------------------------------


def _ends(events: Events) -> list[tuple[Replica, int, int]]:
    """Return the replicas whose lease ended, when, and until when they had no other one."""
    past = Past(events)
    return [
        (tenure.replica, tenure.until_us, after.from_us)
        for tenures in past.tenures.values()
        for tenure, after in pairwise(tenures)
        if after.from_us > tenure.until_us + _STALE_US + 1
        and past.calm_since_us(CLIENTS[0], after.from_us) == past.calm_since_us(CLIENTS[0], 0)
    ]


def _used_too_late(events: Events, rng: Random) -> Events | None:
    if not (ends := _ends(events)):
        return None
    replica, ended_us, _ = rng.choice(ends)
    who, at_us, stale = rng.choice(CLIENTS), ended_us + _STALE_US + 1, rng.random() < _HALF
    if rng.random() < _HALF:
        return _with(events, Route(at_us=at_us, who=who, topic=TOPIC, brokers=(replica,), stale=stale))
    return _with(events, replace(_try(at_us, who, replica), stale=stale))


def _listed_too_late(events: Events, rng: Random) -> Events | None:
    if not (ends := _ends(events)):
        return None
    replica, ended_us, _ = rng.choice(ends)
    at_us = ended_us + _STALE_US + 1
    return _with(events, Route(at_us=at_us, who="front-1", topic=LISTED, brokers=(replica,)))


def _looked_up_too_late(events: Events, rng: Random) -> Events | None:
    if not (ends := _ends(events)):
        return None
    replica, ended_us, _ = rng.choice(ends)
    return _with(
        events, Route(at_us=ended_us + 1, who="auditor", topic=TOPIC, brokers=(replica,), fresh=True)
    )


def _never_leased(events: Events, rng: Random) -> Events:
    stranger = Replica(rng.choice(BROKERS), 0, "127.0.0.1:1")
    return _with(events, _try(rng.choice(_converged(events, Lease)).at_us, rng.choice(CLIENTS), stranger))


def _try(at_us: int, who: str, at: Replica, attempt: int = 2) -> Sent:
    return Sent(
        at_us=at_us,
        who=who,
        message="m",
        topic=TOPIC,
        broker=at.broker,
        address=at.address,
        attempt=attempt,
        ok=False,
    )


def _older_lease(events: Events, rng: Random) -> Events:
    look = rng.choice([look for look in _all(events, Lease) if look.epoch])
    return _with(events, replace(look, at_us=look.at_us + 1, epoch=(look.epoch or 0) - 1))


def _ups(events: Events, kind: type[E]) -> list[tuple[E, Record]]:
    """Return the items, or the changes, by which somebody became the owner."""
    found = []
    for event in _all(events, kind):
        record = getattr(event, "record", None)
        if record is not None and record.kind == ChangeKind.UP:
            found.append((event, record))
    return found


def _older_told(events: Events, rng: Random) -> Events:
    item, record = rng.choice(_ups(events, Item))
    older = replace(record, epoch=record.epoch - 1)
    return _with(events, replace(item, at_us=item.at_us + 1, id=f"{item.id}1", record=older))


def _older_written(events: Events, rng: Random) -> Events:
    change, record = rng.choice(_ups(events, Change))
    older = replace(record, kind=ChangeKind.TOPICS, epoch=record.epoch - 1)
    return _with(events, replace(change, at_us=change.at_us + 1, id=f"{change.id}1", record=older))


def _written_by_nobody(events: Events, rng: Random) -> Events | None:
    """Let a change come without an epoch, after no loss."""
    past = Past(events)
    times = [
        (change, record)
        for change, record in _ups(events, Change)
        if not past.may_have_lost(change.at_us - 1_000 * (BOUNDS.lease_ms + BOUNDS.told_ms), change.at_us)
    ]
    if not times:
        return None
    change, record = rng.choice(times)
    unsigned = replace(record, kind=ChangeKind.TOPICS, epoch=0)
    return _with(events, replace(change, at_us=change.at_us + 1, id=f"{change.id}1", record=unsigned))


def _begun_by_nobody(events: Events, rng: Random) -> Events:
    change, record = rng.choice(_ups(events, Change))
    unsigned = replace(record, epoch=0)
    return _with(events, replace(change, at_us=change.at_us + 1, id=f"{change.id}1", record=unsigned))


def _fenced_unaware(events: Events, rng: Random) -> Events | None:
    states = [state for state in _all(events, State) if state.state == "fenced"]
    return _without(events, rng.choice(states)) if states else None


def _lifted_by_nobody(events: Events, rng: Random) -> Events:
    """Let somebody give the write permission back that an operator took."""
    change, record = rng.choice(_ups(events, Change))
    wiped = Record(kind=ChangeKind.WIPED, broker=record.broker, by=OPERATOR)
    lifted = replace(wiped, kind=ChangeKind.LIFTED, by="")
    return _with(
        events,
        replace(change, at_us=change.at_us + 1, id=f"{change.id}1", record=wiped),
        replace(change, at_us=change.at_us + 2, id=f"{change.id}2", record=lifted),
    )


# --- (c) ----------------------------------------------------------------------------------------------------


def _neighbours(events: Events) -> list[tuple[Item, Item]]:
    """Return changes that were told one after the other."""
    return [(one, two) for one, two in pairwise(_all(events, Item)) if two.kind == one.kind == "change"]


def _not_told(events: Events, rng: Random) -> Events:
    return _without(events, rng.choice(_neighbours(events))[0])


def _told_of_nothing(events: Events, rng: Random) -> Events | None:
    """Let a follower be told what did not stand in the stream."""
    past = Past(events)
    found = [
        change
        for change in _all(events, Change)
        if not past.may_have_lost(change.at_us - 2 * _STALE_US, change.at_us + 2 * _STALE_US)
    ]
    return _without(events, rng.choice(found)) if found else None


def _told_twice(events: Events, rng: Random) -> Events:
    item, _ = rng.choice(_neighbours(events))
    return _with(events, replace(item, at_us=item.at_us + 1))


def _told_backwards(events: Events, rng: Random) -> Events:
    one, two = rng.choice(_neighbours(events))
    rest = _without(_without(events, one), two)
    return _with(rest, replace(one, at_us=two.at_us), replace(two, at_us=one.at_us))


def _told_otherwise(events: Events, rng: Random) -> Events:
    item, record = rng.choice(_ups(events, Item))
    return _with(_without(events, item), replace(item, record=replace(record, address="127.0.0.1:1")))


def _reset_not_told(events: Events, rng: Random) -> Events | None:
    resets = [item for item in _all(events, Item) if item.reason == "lost"]
    return _without(events, rng.choice(resets)) if resets else None


def _other_table(events: Events, rng: Random) -> Events | None:
    tables = [table for table in _all(events, Table) if table.source == "store"]
    return _altered(events, rng, tables, table=TableContent())


# --- (d), (e), (f) ------------------------------------------------------------------------------------------


def _broker_missing(events: Events, rng: Random) -> Events | None:
    routes = [route for route in _converged(events, Route) if not route.fresh and route.brokers]
    return _altered(events, rng, routes, brokers=(Replica(BROKERS[0], 0, address_of(BROKERS[0])),))


def _never_confirmed(events: Events, rng: Random) -> Events | None:
    routes = [route for route in _converged(events, Route) if not route.fresh]
    return _altered(events, rng, routes, stale=True)


def _lease_missing(events: Events, rng: Random) -> Events | None:
    return _altered(events, rng, _converged(events, Lease), epoch=None)


def _end_not_told(events: Events, rng: Random) -> Events | None:
    told = [change for change in _all(events, Change) if change.record and change.record.reason == EXPIRED]
    if not told:
        return None
    change = rng.choice(told)
    (item,) = [item for item in _all(events, Item) if item.id == change.id and item.kind == "change"]
    return _without(_without(events, change), item)


def _dead_with_lease(events: Events, rng: Random) -> Events | None:
    """Let a lease go on that ended with its broker."""
    if not (ends := _ends(events)):
        return None
    replica, ended_us, back_us = rng.choice(ends)
    return [
        replace(event, epoch=_epoch_before(events, replica, ended_us), address=replica.address)
        if isinstance(event, Lease) and event.broker == replica.broker and ended_us <= event.at_us <= back_us
        else event
        for event in events
    ]


def _epoch_before(events: Events, replica: Replica, at_us: int) -> int | None:
    looks = [look for look in _all(events, Lease) if look.broker == replica.broker and look.at_us < at_us]
    return looks[-1].epoch


def _living_withdrawn(events: Events, rng: Random) -> Events:
    look = rng.choice([look for look in _converged(events, Lease) if look.epoch])
    record = Record(kind=ChangeKind.DOWN, broker=look.broker, epoch=look.epoch or 0, reason="closed")
    return _with(events, Change(at_us=look.at_us, who="auditor", id=f"{look.at_us}-0", record=record))


def _living_expired(events: Events, rng: Random) -> Events:
    look = rng.choice([look for look in _converged(events, Lease) if look.epoch])
    record = Record(kind=ChangeKind.DOWN, broker=look.broker, epoch=look.epoch or 0, reason=EXPIRED)
    return _with(events, Change(at_us=look.at_us, who="auditor", id=f"{look.at_us}-0", record=record))


def _follower_deaf(events: Events, rng: Random) -> Events | None:
    truths = _all(events, Expected)
    if len(truths) < 3:
        return None
    until_us = truths[1].at_us
    return [event for event in events if not isinstance(event, Item) or event.at_us < until_us]


def _not_received(events: Events, rng: Random) -> Events:
    return _without(events, rng.choice(_all(events, Received)))


def _lost(events: Events, rng: Random) -> Events:
    sent = rng.choice(_all(events, Sent))
    lost = Lost(at_us=sent.at_us, who=sent.who, message=sent.message, topic=TOPIC, error="AttemptsFailed")
    return _with(events, lost)


def _failed_often(events: Events, rng: Random) -> Events:
    sent = rng.choice([sent for sent in _all(events, Sent) if sent.attempt == 1])
    at, more = Replica(sent.broker, 0, sent.address), BOUNDS.first_failures + 1
    return _with(events, *(_try(sent.at_us, sent.who, at, attempt=1) for _ in range(more)))


def _not_used_again(events: Events, rng: Random) -> Events | None:
    """Let a client send nothing to a broker in a calm: what failed before it began anew does not count."""
    longest_us = 1_000 * (BOUNDS.slow_start_ms + BOUNDS.arrival_ms)
    past = Past(events)
    found = [
        calm
        for calm in calms(past)
        if calm.end_us - calm.begin_us > longest_us and not past.may_have_lost(0, calm.end_us)
    ]
    if not found:
        return None
    calm, who, broker = rng.choice(found), rng.choice(CLIENTS), rng.choice(BROKERS)
    return [
        event
        for event in events
        if not isinstance(event, Sent)
        or (event.who, event.broker) != (who, broker)
        or not calm.begin_us < event.at_us < calm.end_us
    ]


def _without_route(events: Events, rng: Random) -> Events | None:
    known_us = _all(events, Expected)[0].at_us + _STALE_US
    routes = [route for route in _all(events, Route) if not route.fresh and route.at_us > known_us]
    return _altered(events, rng, routes, brokers=None)


def _without_route_to_send(events: Events, rng: Random) -> Events:
    lost, at_us = NoRoute.__name__, _all(events, Sent)[-1].at_us
    return _with(
        events, Lost(at_us=at_us, who=rng.choice(CLIENTS), message="m", topic=TOPIC, error=f"{lost}: m")
    )


# --- (h), (i), (j) ------------------------------------------------------------------------------------------


def _with_key(name: str, type_name: str, ttl_ms: int | None) -> _Alter:
    def alter(events: Events, rng: Random) -> Events:
        (keys,) = _all(events, Keys)
        changed = replace(keys, keys=(*keys.keys, (name, type_name, ttl_ms)))
        return _with(_without(events, keys), changed)

    return alter


def _not_verified(events: Events, rng: Random) -> Events | None:
    return _altered(events, rng, _all(events, Keys), verify=("broker-a has no lease",))


def _grown(count: str, by: int) -> _Alter:
    def alter(events: Events, rng: Random) -> Events | None:
        after = [usage for usage in _all(events, Usage) if usage.phase == "after"]
        return _altered(events, rng, after, **{count: getattr(after[0], count) + by})

    return alter


def _logged(level: str, text: str) -> _Alter:
    def alter(events: Events, rng: Random) -> Events:
        at_us = rng.choice(events[1:]).at_us
        return _with(events, Log(at_us=at_us, who="driver", process="agent", level=level, text=text))

    return alter


_TRACEBACK: Final = "a fault\nTraceback (most recent call last):\n  ..."

ALTERATIONS: Final = {
    "an address is used too late": Alteration("a", _used_too_late),
    "a dead broker is listed": Alteration("a", _listed_too_late),
    "a lookup names an address whose lease has ended": Alteration("a", _looked_up_too_late),
    "an address is used that had no lease": Alteration("a", _never_leased),
    "a client goes back to an address that it had dropped": Alteration("a", late_alterations.shown_again),
    "a lease goes back to an older epoch": Alteration("b", _older_lease),
    "a follower is told of an older epoch": Alteration("b", _older_told),
    "a change is not told": Alteration("c", _not_told),
    "a change is told that is not in the stream": Alteration("c", _told_of_nothing),
    "a change is told twice": Alteration("c", _told_twice),
    "changes are told backwards": Alteration("c", _told_backwards),
    "a change is told otherwise": Alteration("c", _told_otherwise),
    "a reset is not told": Alteration("c", _reset_not_told),
    "the store has another table": Alteration("c", _other_table),
    "the end of a lease is not told": Alteration("c", _end_not_told),
    "the end of a lease is told late": Alteration("c", late_alterations.end_is_told_late),
    "a dead broker has a lease": Alteration("d", _dead_with_lease),
    "a killed broker has its lease until that ends": Alteration("d", late_alterations.killed_broker_lives_on),
    "a view shows a new owner late": Alteration("d", late_alterations.view_is_late),
    "a follower is told late": Alteration("d", late_alterations.follower_is_late),
    "a follower is told of each change by reading": Alteration("d", late_alterations.only_read),
    "a client holds back what lives": Alteration("d", late_alterations.held_alive),
    "a lease is shorter than fronts vouch for": Alteration("d", late_alterations.shortened),
    "a living broker is withdrawn": Alteration("d", _living_withdrawn),
    "the lease of a living broker ends by itself": Alteration("d", _living_expired),
    "a drained broker is registered": Alteration("d", late_alterations.back_though_drained),
    "a dead broker is registered": Alteration("d", late_alterations.back_though_dead),
    "a broker is missing in a view": Alteration("d", _broker_missing),
    "a view is never confirmed": Alteration("d", _never_confirmed),
    "somebody says nothing any more": Alteration("d", late_alterations.silent),
    "a live broker has no lease": Alteration("d", _lease_missing),
    "a follower hears nothing any more": Alteration("c", _follower_deaf),
    "a message that was taken is not there": Alteration("e", _not_received),
    "a message is lost": Alteration("e", _lost),
    "first attempts fail often": Alteration("e", _failed_often),
    "a broker that is well is not used again": Alteration("e", _not_used_again),
    "a client has no route any more": Alteration("f", _without_route),
    "a client finds no route to send": Alteration("f", _without_route_to_send),
    "an older owner writes": Alteration("g", _older_written),
    "somebody without an epoch writes": Alteration("g", _written_by_nobody),
    "a lease begins without an epoch": Alteration("g", _begun_by_nobody),
    "an owner does not notice that it was fenced": Alteration("g", _fenced_unaware),
    "who was fenced takes the broker back": Alteration("g", late_alterations.taken_back),
    "somebody gives back what an operator took": Alteration("g", _lifted_by_nobody),
    "a key is of no kind": Alteration("h", _with_key("{sharedroutes}:notes", "string", None)),
    "a key is outside of the registry": Alteration("h", _with_key("notes", "string", None)),
    "a key has another type": Alteration("h", _with_key("{sharedroutes}:topics", "list", None)),
    "a lease has no TTL": Alteration("h", _with_key("{sharedroutes}:lease:broker-a:1", "string", None)),
    "a table has a TTL": Alteration("h", _with_key("{sharedroutes}:topics", "set", 1_000)),
    "verify finds something": Alteration("h", _not_verified),
    "memory grew": Alteration("i", _grown("rss_kb", BOUNDS.rss_kb + 1)),
    "a thread is left": Alteration("i", _grown("threads", 1)),
    "a descriptor is left": Alteration("i", _grown("descriptors", 1)),
    "a connection is left": Alteration("i", _grown("connections", 1)),
    "an error is logged": Alteration("j", _logged("ERROR", "a fault")),
    "an error of another fault is logged": Alteration("j", _logged("ERROR", "topics.json has a problem")),
    "a traceback is logged": Alteration("j", _logged("WARNING", _TRACEBACK)),
    "a process ends by itself": Alteration("j", _logged("CRITICAL", "it ended by itself with 1")),
}
"""By what goes wrong."""
