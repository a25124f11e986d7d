"""That a client which begins again, also without the store, knows what it knew: a part of rule (f)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from tests.faults.checker.history import Lease, Route, Saved, Started
from tests.faults.checker.past import FaultWindow, Past, Verdict, at_us, said_between

_NO_ROOM: Final = "snapshot-disk-full"


class _Life(NamedTuple):
    """A client from one start to the next."""

    start: Started
    said: dict[str, list[Route]]
    """By topic."""

    @property
    def until_us(self) -> int:
        """When it was heard last."""
        return max((routes[-1].at_us for routes in self.said.values()), default=self.start.at_us)


def check_that_snapshots_are_whole(past: Past, verdict: Verdict) -> None:
    """Check that the file of a snapshot is whole at all times, whatever becomes of the one that is written.

    Of `docs/design.md`, what must always hold: 7, after a restart the last known routes are served.
    """
    for saved in past.of(Saved):
        reason = f"nobody can begin with the snapshot of {saved.client}: {saved.problem}"
        verdict.check(reason if saved.problem else "", saved)


def check_that_snapshots_are_new(past: Past, verdict: Verdict) -> None:
    """Check that what a client begins with is what it said before, as long as the store has not answered.

    Of `docs/design.md`, what must always hold: 7, after a restart the last known routes are served "from a
    snapshot file". It is written within a second of a change, but not while anything is held back.
    """
    for before, after in _restarts(past):
        since_us = before.until_us - 1_000 * past.bounds.saved_ms
        since_us -= past.late_us(since_us, before.until_us, after.start.who)
        if has_no_room(past.faults_in(since_us, after.start.at_us)):
            continue
        for topic, routes in before.said.items():
            first = after.said.get(topic, [None])[0]
            known = said_between(routes, since_us, before.until_us)
            if first is None or not first.stale or any(route.held for route in known):
                continue
            if _has_answered(past, after.start.at_us, past.limit_us(first.at_us, past.bounds.looks_ms)):
                continue
            is_known = {*(first.brokers or ())} in [{*(route.brokers or ())} for route in known]
            reason = f"{first.who} begins with a snapshot that has not what it knew of {topic}"
            verdict.check("" if is_known else reason, known[0], after.start, first)


def has_no_room(lasting: Iterable[FaultWindow]) -> bool:
    """Whether one of these faults keeps clients from writing their snapshots."""
    return any(window.fault.name == _NO_ROOM for window in lasting)


def _has_answered(past: Past, since_us: int, until_us: int) -> bool:
    """Whether the store has answered anybody: what a client knows by then may come from there."""
    looks = past.of(Lease)
    return bisect_right(looks, since_us, key=at_us) < bisect_right(looks, until_us, key=at_us)


def _restarts(past: Past) -> Iterator[tuple[_Life, _Life]]:
    """Yield what clients said before and after each start with a snapshot."""
    lives: dict[str, list[_Life]] = defaultdict(list)
    for event in past.history:
        if isinstance(event, Started):
            lives[event.who].append(_Life(event, defaultdict(list)))
        elif isinstance(event, Route) and not event.fresh and lives[event.who]:
            lives[event.who][-1].said[event.topic].append(event)
    for of in lives.values():
        yield from ((before, after) for before, after in pairwise(of) if after.start.has_snapshot)
