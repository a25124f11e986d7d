"""That what a client knows does not go back: a part of rule (a)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from tests.faults.checker.history import LISTED, Replica, Route, Started
from tests.faults.checker.past import Past, Verdict


def check_that_nothing_goes_back(past: Past, verdict: Verdict) -> None:
    """Check that a client which no longer named an address names it again only after another lease.

    Of `docs/design.md`, what must always hold: 12, "a client that reads at replicas takes no answer that is
    older than its own place in the stream". It holds while servers come and go, and of every other client.
    """
    shown: dict[tuple[str, str], Route] = {}
    dropped: dict[str, dict[Replica, Route]] = defaultdict(dict)
    for event in past.history:
        if isinstance(event, Started):
            dropped.pop(event.who, None)
            shown = {key: route for key, route in shown.items() if key[0] != event.who}
        elif isinstance(event, Route) and not event.fresh and event.topic != LISTED:
            before = shown.get((event.who, event.topic))
            for replica in event.brokers or ():
                _check_return(past, replica, dropped[event.who].pop(replica, None), event, verdict)
            if before is not None:
                gone = {*(before.brokers or ())} - {*(event.brokers or ())}
                dropped[event.who] |= dict.fromkeys(gone, event)
            shown[event.who, event.topic] = event


def _check_return(past: Past, replica: Replica, before: Route | None, after: Route, verdict: Verdict) -> None:
    if before is None:
        return
    seen_us = after.at_us + 2_000 * past.bounds.looks_ms  # what came may be lost before that
    if past.may_have_lost(before.at_us, seen_us):
        return
    has_lived = any(
        tenure.replica.address == replica.address
        and tenure.from_us <= after.at_us
        and (tenure.seen_us >= before.at_us or tenure.until_us >= after.at_us)
        for (name, _), tenures in past.tenures.items()
        if name == replica.broker  # a slave that stands in has another id in a route
        for tenure in tenures
    )
    has_lived = has_lived or any(  # for less than the time between two looks
        of.broker == replica.broker
        and of.address == replica.address
        and bisect_right(arrivals, before.at_us) < bisect_right(arrivals, seen_us)
        for of, arrivals in past.arrivals.items()
    )
    reason = f"{after.who} names {replica.broker} at {replica.address} again, which had no lease since"
    verdict.check("" if has_lived else reason, before, after)
