"""What everybody sees after a fault, and that nobody loses what it had: rules (d) and (f)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias, TypeGuard

from sharedroutes.client import NoRoute
from sharedroutes.registry.change_stream.core import ResetReason
from tests.faults.checker.arrivals import check_that_changes_arrive
from tests.faults.checker.endings import (
    check_that_leases_are_left_whole,
    check_that_leases_last,
    check_that_short_pauses_pass,
    check_that_standbys_leave_no_gap,
    check_that_switches_pass,
    check_that_the_dead_are_out,
    check_that_the_living_are_renewed,
    check_that_the_living_stay,
    check_that_who_is_out_stays_out,
)
from tests.faults.checker.feed import Replay
from tests.faults.checker.history import (
    LISTED,
    Behind,
    Event,
    Expected,
    Item,
    Lease,
    Lost,
    Replica,
    Route,
    Started,
    TableContent,
)
from tests.faults.checker.past import FaultWindow, Past, Verdict, addresses_of, at_us
from tests.faults.checker.promises import check_that_promises_are_kept
from tests.faults.checker.snapshots import check_that_snapshots_are_new, check_that_snapshots_are_whole
from tests.faults.checker.tables import check_that_tables_are_whole

Key: TypeAlias = tuple[str, str]
"""Whose view, and of which topic; "" = of all leases."""

_PRIMARY: Key = ("the primary", "")


# --- (d) after the last fault every view converges to the live owners within the bound ----------------------


class Calm(NamedTuple):
    """A time without a fault, in which what is true stays so."""

    begin_us: int
    end_us: int
    after: tuple[str, ...]
    """The names of the faults that ended before it."""


class Convergence(NamedTuple):
    """How long it took in a calm until every view was true."""

    calm: Calm
    took_ms: int | None
    """None = it was not so when the calm ended."""


class _Wrong(NamedTuple):
    """A view is not true, for some time."""

    key: Key
    since_us: int
    until_us: int
    shown_by: Event


class _Views:
    """What everybody says, as far as the history goes, and when it was not true."""

    def __init__(self) -> None:
        self.wrong: list[_Wrong] = []
        """The times that are over."""

        self._now_wrong: dict[Key, _Wrong] = {}
        self._truth = TableContent()
        self._routes: dict[Key, Route] = {}
        self._leases: dict[tuple[str, int], Lease] = {}
        self._replays: dict[Key, Replay] = {}

    def __len__(self) -> int:
        return len(self._routes) + len(self._replays) + bool(self._leases)

    def take(self, event: Event) -> None:
        """Take in an event."""
        if isinstance(event, Expected):
            self._truth = event.table
            for key in self._keys():
                self._judge(key, event)
        elif isinstance(event, Started):
            for key in self._keys():
                if key[0] == event.who:
                    self._note(key, event, is_true=False)
        elif isinstance(event, Route) and not event.fresh:
            self._routes[event.who, event.topic] = event
            self._judge((event.who, event.topic), event)
        elif isinstance(event, Lease):
            self._leases[event.broker, event.id] = event
            self._judge(_PRIMARY, event)
        elif isinstance(event, Item):
            self._replays.setdefault((event.who, ""), Replay()).take(event)
            self._judge((event.who, ""), event)

    def end(self, at_us: int) -> list[_Wrong]:
        """Return all times in which a view was not true, up to the end of the history."""
        return [*self.wrong, *(wrong._replace(until_us=at_us) for wrong in self._now_wrong.values())]

    def _keys(self) -> list[Key]:
        return [*([_PRIMARY] if self._leases else []), *self._routes, *self._replays]

    def _judge(self, key: Key, event: Event) -> None:
        route = self._routes.get(key)
        if route is not None:
            is_true = not route.stale and {*(route.brokers or ())} == addresses_of(self._truth, key[1])
        elif key == _PRIMARY:
            living = {(of, look) for of, look in self._leases.items() if look.epoch is not None}
            is_true = {Replica(*of, look.address) for of, look in living} == {*self._truth.leases}
        else:
            is_true = {*self._replays[key].table.leases} == {*self._truth.leases}
        self._note(key, event, is_true=is_true)

    def _note(self, key: Key, event: Event, *, is_true: bool) -> None:
        wrong = self._now_wrong.pop(key, None)
        if wrong is not None and is_true:
            self.wrong.append(wrong._replace(until_us=event.at_us))
        elif not is_true:
            since_us = event.at_us if wrong is None else wrong.since_us
            self._now_wrong[key] = _Wrong(key, since_us, 0, event)


def views_converge(past: Past) -> Verdict:
    """Check that every view is true in time after a fault, and that leases end with their brokers.

    Of `docs/design.md`, what must always hold: 6, "a change reaches every connected client", 10, "brokers
    come, live and go", and its defaults: how soon after a fault that is so.
    """
    verdict = Verdict()
    views, wrongs = _walked(past)
    bound_ms = past.bounds.converge_ms
    for calm in calms(past):
        limit_us = past.limit_us(calm.begin_us, bound_ms, *past.everybody)
        if limit_us > calm.end_us:
            is_true = not any(since < calm.end_us <= until for _, since, until, _ in wrongs)
            verdict.checked += views if is_true else 0  # cut short before all was true: no verdict
            continue
        verdict.checked += views
        for (who, topic), since_us, until_us, event in wrongs:
            if since_us < calm.end_us and until_us > limit_us:
                of = f"what {who} knows of {topic or 'the leases'} is not true"
                reason = f"{of}, {bound_ms} ms and more after {', '.join(calm.after) or 'the start'}"
                verdict.violate(reason, past.expected_event(calm.begin_us), event)
    for behind in past.of(Behind):
        limit_us = past.limit_us(behind.since_us, bound_ms, *past.everybody)
        reason = f"{behind.whose}: behind, or silent, {bound_ms} ms and more after a fault"
        verdict.check(reason if limit_us < behind.at_us else "", behind)
    check_that_changes_arrive(past, verdict)
    check_that_the_dead_are_out(past, verdict)
    check_that_the_living_stay(past, verdict)
    check_that_the_living_are_renewed(past, verdict)
    check_that_who_is_out_stays_out(past, verdict)
    check_that_leases_last(past, verdict)
    check_that_short_pauses_pass(past, verdict)
    check_that_leases_are_left_whole(past, verdict)
    check_that_switches_pass(past, verdict)
    check_that_standbys_leave_no_gap(past, verdict)
    check_that_promises_are_kept(past, verdict)
    return verdict


def convergences(past: Past) -> list[Convergence]:
    """Return how long each calm took until every view was true."""
    found = []
    _, wrongs = _walked(past)
    for calm in calms(past):
        untils = [until for _, since, until, _ in wrongs if since < calm.end_us and until > calm.begin_us]
        last_us = max(untils, default=calm.begin_us)
        took_ms = None if last_us >= calm.end_us else (last_us - calm.begin_us) // 1_000
        found.append(Convergence(calm, took_ms))
    return found


def _walked(past: Past) -> tuple[int, list[_Wrong]]:
    """Return how many views there are, and all times in which one was not true."""
    views = _Views()
    for event in past.history:
        views.take(event)
    return len(views), views.end(past.end_us)


def calms(past: Past) -> Iterator[Calm]:
    """Yield the times without a fault, cut where what is true changes; the first begins when all works."""
    truths = [event.at_us for event in past.of(Expected)]
    for begin_us, end_us, ended in _stretches(past):
        cuts = [begin_us, *(at for at in truths if begin_us < at < end_us), end_us]
        for since_us, until_us in pairwise(cuts):
            yield Calm(since_us, until_us, tuple(window.fault.name for window in ended))


def _stretches(past: Past) -> Iterator[tuple[int, int, list[FaultWindow]]]:
    """Yield begin and end of each time without a fault, and the faults that ended since the one before."""
    known = past.of(Expected)
    free_us, ended = known[0].at_us if known else past.end_us, list[FaultWindow]()
    for window in past.faults:
        if window.begin_us > free_us:
            yield free_us, window.begin_us, ended
            ended = []
        free_us = max(free_us, window.end_us)
        ended.append(window)
    if past.end_us > free_us:
        yield free_us, past.end_us, ended


# --- (f) no client that had a route is without one ----------------------------------------------------------


def routes_are_kept(past: Past) -> Verdict:
    """Check that who had a route of a topic has one, as long as a live broker holds it.

    Of `docs/design.md`, what must always hold: 7, "a client that once had a route keeps one". It does not
    keep what an owner withdrew, and a broker whose lease has ended, unless more than half of those that the
    client uses are gone at once, or it is gone since the store lost changes.
    """
    verdict = Verdict()
    had: dict[Key, Route] = {}
    knows: dict[Key, Route] = {}
    for event in past.history:
        if isinstance(event, Started) and not event.has_snapshot:
            had = {key: route for key, route in had.items() if key[0] != event.who}
        elif isinstance(event, Route) and not event.fresh and event.brokers and event.topic != LISTED:
            had[event.who, event.topic] = event
            verdict.checked += 1
        elif _is_without(event):
            before = had.pop((event.who, event.topic), None)
            used = {of for key, route in knows.items() if key[0] == event.who for of in route.brokers or ()}
            if before is not None and _was_held(past, event, used):
                reason = f"{event.who} had a route of {event.topic}, and has none"
                verdict.violate(reason, before, past.expected_event(event.at_us), event)
        if isinstance(event, Route) and not event.fresh:
            _check_that_none_is_forgotten(past, knows.get((event.who, event.topic)), event, verdict)
            knows[event.who, event.topic] = event
    check_that_snapshots_are_new(past, verdict)
    check_that_snapshots_are_whole(past, verdict)
    check_that_tables_are_whole(past, verdict)
    return verdict


def _is_without(event: Event) -> TypeGuard[Route | Lost]:
    """Whether a client says that it has no route of a topic."""
    if isinstance(event, Lost):
        return NoRoute.__name__ in event.error
    return isinstance(event, Route) and not event.fresh and not event.brokers


def _was_held(past: Past, event: Route | Lost, used: set[Replica]) -> bool:
    """Whether a live broker has held the topic for as long as a client may take to know."""
    since_us = event.at_us - 1_000 * past.bounds.stale_ms
    since_us -= past.late_us(since_us, event.at_us, event.who)
    tables = past.expected_between(since_us, event.at_us)
    if not all(addresses_of(table, event.topic) for table in tables):
        return False
    holders = addresses_of(past.expected_at(event.at_us), event.topic)
    return _were_forgotten(past, event, holders) or not _had_ended(past, event, since_us, used)


def _check_that_none_is_forgotten(past: Past, before: Route | None, event: Route, verdict: Verdict) -> None:
    """Check that a view goes on to name each replica that lives, and is not back since changes were lost.

    Who reads at a replica may have lost none where a follower has: it had not heard of them yet.
    """
    if before is None or not event.brokers or event.topic == LISTED or event.server:
        return
    if any(before.at_us < at <= event.at_us for at in past.starts.get(event.who, ())):
        return
    gone = {*(before.brokers or ())} - {*(event.brokers or ())}
    for replica in gone & addresses_of(past.expected_at(event.at_us), event.topic):
        reason = f"{event.who} names {replica.broker} no more at {replica.address}, which the store has lost"
        verdict.check(reason if _were_forgotten(past, event, {replica}) else "", before, event)


def _were_forgotten(past: Past, event: Route | Lost, holders: set[Replica]) -> bool:
    """Whether the store has lost changes, and none of those who hold a topic has been back since then."""
    since_us = event.at_us - 1_000 * past.bounds.hold_ms
    resets = [
        item.at_us for item in past.of(Item) if item.kind == "reset" and item.reason == ResetReason.LOST
    ]
    index = bisect_right(resets, event.at_us) - 1
    if index < 0 or resets[index] < since_us:
        return False
    return not any(
        resets[index] < look.at_us <= event.at_us and look.epoch is not None
        for holder in holders
        for look in past.looks.get(holder[:2], ())
    )


def _had_ended(past: Past, event: Route | Lost, since_us: int, used: set[Replica]) -> bool:
    """Whether the leases of all who hold the topic may have been over, of not more than half of all at once.

    A client believes an end that the store confirms; of so many at once, it believes none for a while, but
    those of which who held the lease says so: whether that was right is for rule (d) to say. After
    the store stood still for longer than a lease, all are over, and what counts is who is not back yet. So it
    is for a client that has just begun: it did not see them all gone.
    """
    is_new = event.at_us < past.begun_us(event.who, event.at_us)
    looks = past.of(Lease)
    first, last = (bisect_right(looks, at, key=at_us) for at in (since_us, event.at_us))
    for at in (*(look.at_us for look in looks[first:last]), event.at_us):
        lives = {replica: past.lives(replica, at) for replica in {*used, *past.expected_at(at).leases}}
        is_gone = (False,) if past.stood_still(at) else (False, None)
        gone = [of for of in used if lives[of] in is_gone and not (is_new and past.is_coming(of, at))]
        holders = addresses_of(past.expected_at(at), event.topic)
        if any(lives[holder] for holder in holders):
            continue
        if len(gone) * 2 <= len(used) or all(_was_withdrawn(past, of, since_us, at) for of in holders):
            return True
    return False


def _was_withdrawn(past: Past, replica: Replica, since_us: int, until_us: int) -> bool:
    """Whether somebody ended the lease of a replica in that time."""
    return any(since_us <= at <= until_us for at in past.withdrawals.get(replica[:2], ()))
