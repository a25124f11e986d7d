"""That a change arrives at whoever reaches the store, soon: long before everything is read again."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

from sharedroutes.registry import ChangeKind
from sharedroutes.registry.plans.changes import order
from tests.faults.checker.history import FAILOVER, LISTED, Change, Item, Record, Replica, Route, Written
from tests.faults.checker.past import Past, Verdict, at_us, said_between

_FIRST: Final = (0, 0)
_CLIENT: Final = "client-"
"""What the names of clients begin with; a front has other settings."""

_READ_SILENTLY: Final = 4
"""So many reads in a row may find what no doorbell told of: three, and one while there is a new one."""

_ENOUGH_WAITS: Final = 6
"""Of so many, drawn from the whole of the jitter, none is longer than a tenth of it one time in a million."""

_OF_FILES: Final = "topics-"
"""What the names of faults begin with that concern nobody's way to the store, nor the doorbell."""

_Said: TypeAlias = dict[tuple[str, str], list[Route]]
"""By who and topic."""


def check_that_changes_arrive(past: Past, verdict: Verdict) -> None:
    """Check that views show a new address, and that followers are told of every change, within a bound.

    Of `docs/design.md`, what must always hold: 6, "a change reaches every connected client in about a
    millisecond", and one whose doorbell was missed is noticed within 1 s.
    """
    said: _Said = defaultdict(list)
    fresh: dict[str, list[Route]] = defaultdict(list)
    for route in past.of(Route):
        if route.fresh:
            fresh[route.topic].append(route)
        else:
            said[route.who, route.topic].append(route)
    _check_views(past, said, verdict)
    for (_, topic), routes in said.items():
        _check_queues(past, fresh[topic], routes, verdict)
        _check_ages(past, fresh[topic], routes, verdict)
    _check_orders(past, said, verdict)
    _check_reread(past, said, verdict)
    _check_spread(past, said, verdict)
    _check_held(past, said, verdict)
    _check_followers(past, verdict)
    _check_written(past, verdict)


def _check_written(past: Past, verdict: Verdict) -> None:
    """Check that a front which has answered a change says itself what was changed.

    Of `docs/design/front.md`: who writes reads it. Nobody waits longer than 2 s for the feed.
    """
    for event in past.of(Written):
        arrival_ms = past.bounds.arrival_ms
        are_back = is_back(past, event.front, event.began_us, event.at_us) and is_back(
            past, event.who, event.began_us, event.at_us, arrival_ms
        )
        starved = 2 * past.late_us(event.began_us, event.at_us, event.front, event.who) >= 1_000 * arrival_ms
        if not are_back or starved or past.may_have_lost(event.began_us, event.at_us):
            continue
        reason = f"{event.front} took {event.queues} queues of {event.topic}, and then says {event.found}"
        verdict.check(reason if event.found != event.queues else "", event)


def _check_held(past: Past, said: _Said, verdict: Verdict) -> None:
    """Check that who reaches the store does not hold back, as lost, what has had its lease all the time."""
    for route in (route for routes in said.values() for route in routes if route.held):
        since_us = route.at_us - 1_000 * past.bounds.arrival_ms
        since_us -= past.late_us(since_us, route.at_us, route.who)
        if not is_back(past, route.who, since_us, route.at_us, past.bounds.arrival_ms):
            continue
        for replica in (one for one in route.brokers or () if one.broker in route.held):
            lives = any(
                tenure.replica == replica and tenure.from_us <= since_us and tenure.seen_us >= route.at_us
                for tenure in past.tenures.get(replica[:2], ())
            )
            reason = f"{route.who} holds {replica.broker} back, which has had its lease all the time"
            verdict.check(reason if lives else "", route)


def _check_queues(past: Past, fresh: list[Route], said: list[Route], verdict: Verdict) -> None:
    """Check that a view has as many queues of each broker as lookups find, once they have for a while."""
    since_us = fresh[0].at_us if fresh else 0
    bound_ms = _arrival_ms(past, since_us)
    for before, after in pairwise(fresh):
        limit_us = past.limit_us(since_us, bound_ms, *past.everybody)
        is_over = before.at_us <= limit_us < after.at_us and before.queues == after.queues
        if is_over and is_back(past, said[0].who, since_us, limit_us):
            for known in said_between(said, limit_us, limit_us):
                shown, found = dict(known.queues), dict(before.queues)
                wrong = {of for of in shown.keys() & found.keys() if shown[of] != found[of]}
                names = ", ".join(sorted(wrong))
                reason = f"{known.who} has {known.topic} on {names} as it was {bound_ms} ms ago"
                verdict.check(reason if wrong else "", before, known)
        if after.queues != before.queues:
            since_us = after.at_us
            bound_ms = _arrival_ms(past, since_us)


def _check_ages(past: Past, fresh: list[Route], said: list[Route], verdict: Verdict) -> None:
    """Check that a view was true when the store has confirmed it, by the age that it has.

    Of `docs/design.md`, what must always hold: 7, the last known routes are served "with their age". A
    replica may lag, and who was the primary may be asked for a moment.
    """
    for known in said:
        if known.age_ms is None or known.server:
            continue
        since_us = known.at_us - 1_000 * (known.age_ms + past.bounds.heard_ms)
        since_us -= past.late_us(since_us, known.at_us, known.who)
        seen_us = past.limit_us(known.at_us, past.bounds.heard_ms)  # a client may hear before it is seen
        if any(window.fault.name == FAILOVER for window in past.faults_in(since_us, seen_us)):
            continue
        found = [dict(route.queues) for route in said_between(fresh, since_us, seen_us)]
        wrong = [
            broker
            for broker, queues in known.queues
            if found
            # Who is held back was there when all was confirmed; others, a lookup may lack for a moment.
            and all(look.get(broker, None if broker in known.held else queues) != queues for look in found)
            and not _was_changed(past, broker, since_us, seen_us)  # for less time than between two lookups
        ]
        reason = f"{known.who} has {known.topic} on {', '.join(wrong)} as it was not {known.age_ms} ms ago"
        verdict.check(reason if wrong else "", known)


def _was_changed(past: Past, broker: str, since_us: int, until_us: int) -> bool:
    """Whether the stream tells of another table of a broker in that time."""
    changes = past.of(Change)
    first, last = (bisect_right(changes, at, key=at_us) for at in (since_us, until_us))
    records = (change.record for change in changes[first:last])
    return any(of and (of.kind, of.broker) == (ChangeKind.TOPICS, broker) for of in records)


def _arrival_ms(past: Past, since_us: int) -> int:
    """Return how long after a time a change may arrive: less where nobody can have missed the doorbell."""
    before_us, after_us = 1_000 * past.bounds.back_ms, 1_000 * past.bounds.arrival_ms
    lasting = past.faults_in(since_us - before_us, since_us + after_us)
    is_heard = all(window.fault.name.startswith(_OF_FILES) for window in lasting)
    return past.bounds.heard_ms if is_heard else past.bounds.arrival_ms


def _check_orders(past: Past, said: _Said, verdict: Verdict) -> None:
    """Check that each front says what an operator has said at one of them of the order of a topic."""
    for window in past.faults:
        order_said = window.fault.details.get("order")
        limit_us = past.limit_us(window.begin_us, past.bounds.arrival_ms, *past.everybody)
        if order_said is None or limit_us > window.end_us or past.may_have_lost(window.begin_us, limit_us):
            continue
        for (who, topic), routes in said.items():
            known = said_between(routes, limit_us, limit_us)
            if who.startswith(_CLIENT) or topic != window.fault.target or not known:
                continue
            if is_back(past, who, window.begin_us, limit_us, past.bounds.arrival_ms):
                reason = f"{who} says of the order of {topic}: {known[-1].order}"
                verdict.check("" if known[-1].order == order_said else reason, window.fault, known[-1])


def _check_reread(past: Past, said: _Said, verdict: Verdict) -> None:
    """Check that who meets an entry that cannot be read looks again: a topic that left the table is gone."""
    for change in past.of(Change):
        limit_us = past.limit_us(change.at_us, past.bounds.reread_ms, *past.everybody)
        truth = past.expected_event(change.at_us)
        if change.record is not None or truth is None or past.expected_event(limit_us) is not truth:
            continue
        held = {topic for topics in truth.table.topics.values() for topic in topics}
        for (who, topic), routes in said.items():
            reads = who.startswith(_CLIENT) and is_back(past, who, change.at_us, limit_us)
            if topic in held or not reads or routes[0].at_us > change.at_us:
                continue
            known = said_between(routes, limit_us, limit_us)[-1]
            reason = f"{who} has {topic}, {past.bounds.reread_ms} ms after an entry that cannot be read"
            verdict.check(f"{reason} told of its end" if known.brokers else "", change, known)


def _check_spread(past: Past, said: _Said, verdict: Verdict) -> None:
    """Check that clients which read everything again do not all do so at once.

    Of `docs/design.md`, what must always hold: 6, "everything used is read again, with jitter".
    """
    unread = [change for change in past.of(Change) if change.record is None]
    waits_us = [
        after.at_us - change.at_us
        for change in unread
        for (who, _), routes in said.items()
        for before, after in pairwise(routes if who.startswith(_CLIENT) else ())
        if before.brokers
        and not after.brokers
        and -past.bounds.looks_ms <= (after.at_us - change.at_us) / 1_000 <= past.bounds.reread_ms
    ]
    if len(waits_us) >= _ENOUGH_WAITS:
        reason = "all clients read everything again at once after an entry that cannot be read"
        verdict.check(reason if max(waits_us) < 100 * past.bounds.jitter_ms else "", *unread)


def _check_views(past: Past, said: _Said, verdict: Verdict) -> None:
    for change in past.of(Change):
        record = change.record
        if record is None or record.kind != ChangeKind.UP:
            continue
        limit_us = past.limit_us(change.at_us, past.bounds.arrival_ms, *past.everybody)
        if not _has_lasted(past, change, record, limit_us):
            continue
        topics = past.expected_at(limit_us).topics.get(record.broker, ())
        for (who, topic), routes in said.items():
            knows = routes[0].at_us <= change.at_us and is_back(past, who, change.at_us, limit_us)
            if (topic in topics or topic == LISTED) and knows:
                _check_view(past, change, record, said_between(routes, change.at_us, limit_us), verdict)


def _has_lasted(past: Past, change: Change, record: Record, limit_us: int) -> bool:
    """Whether the lease of a new owner was there all the time, until the bound was over.

    Who has left comes back with the same epoch, perhaps.
    """
    seen_us = change.at_us + 2_000 * past.bounds.looks_ms
    return any(
        tenure.epoch == record.epoch and tenure.from_us <= seen_us and tenure.seen_us >= limit_us
        for tenure in past.tenures.get((record.broker, record.id), ())
    )


def is_back(past: Past, who: str, since_us: int, until_us: int, bound_ms: int | None = None) -> bool:
    """Whether a process had the time to find the store again, and nothing has kept it away since."""
    starts = past.starts.get(who, [0])
    index = bisect_right(starts, until_us) - 1
    calm_since = past.calm_since_us(who, until_us)
    if calm_since is None or index < 0:
        return False
    begun_us, bound_ms = max(calm_since, starts[index]), bound_ms or past.bounds.back_ms
    return since_us >= past.limit_us(begun_us, bound_ms, who)


def _check_view(past: Past, change: Change, record: Record, known: list[Route], verdict: Verdict) -> None:
    new = Replica(record.broker, record.id, record.address)
    shows = any(new in (route.brokers or ()) for route in known)
    late = f"{past.bounds.arrival_ms} ms after it was told"
    reason = f"{known[-1].who} does not know of {new.broker} at {new.address} {late}"
    verdict.check("" if shows else reason, change, known[-1])


def _check_followers(past: Past, verdict: Verdict) -> None:
    told: dict[str, list[Item]] = defaultdict(list)
    for item in past.of(Item):
        told[item.who].append(item)
    for who, items in told.items():
        newest = [*accumulate((order(item.id) or _FIRST for item in items), max)]
        for change in past.of(Change):
            limit_us = past.limit_us(change.at_us, past.bounds.arrival_ms, who)
            if limit_us > past.end_us or not is_back(past, who, change.at_us, limit_us):
                continue
            count = bisect_right(items, limit_us, key=at_us)
            is_told = count > 0 and newest[count - 1] >= (order(change.id) or _FIRST)
            reason = f"{who} was not told of {change.id} within {past.bounds.arrival_ms} ms"
            verdict.check("" if is_told else reason, change)
        _check_doorbell(past, who, items, verdict)


def _check_doorbell(past: Past, who: str, items: list[Item], verdict: Verdict) -> None:
    """Check that a follower hears its doorbell, or gets a new one: not every change is found by reading."""
    told_us = {item.id: item.at_us for item in items}
    late: list[Change] = []
    for change in past.of(Change):
        heard_us = told_us.get(change.id)
        if heard_us is None or not is_back(past, who, change.at_us, heard_us, past.bounds.arrival_ms):
            continue
        if heard_us <= past.limit_us(change.at_us, past.bounds.heard_ms, who):
            late.clear()
        elif not late or change.at_us > told_us[late[-1].id]:  # several that one read finds count once
            late.append(change)
        is_deaf = len(late) > _READ_SILENTLY
        reason = f"{who} was told of {len(late)} changes in a row more than {past.bounds.heard_ms} ms late"
        verdict.check(reason if is_deaf else "", *late)
        if is_deaf:
            late.clear()
