"""That a broker which fails is left alone, and used again when it is well: a part of rule (e)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Final

from tests.faults.checker.history import Expected, Replica, Route, Sent, Started
from tests.faults.checker.past import Past, Verdict, addresses_of, said_between
from tests.faults.checker.views import Calm, calms

_COUNTED_US: Final = 120_000_000
"""For so long a failure makes the isolation after the next one longer."""

_SLOW_US: Final = 550_000
"""An answer that takes so long restricts its broker, too."""

_LINK: Final = "link-"
"""What the names of faults begin with that keep one client from one broker."""

_LONGEST: Final = 6
"""So many times the first isolation is the longest one."""


def check_that_the_well_are_used(past: Past, verdict: Verdict) -> None:
    """Check that clients send to each broker that they know, as soon as they may not avoid it any more.

    Of `docs/design.md`, what must always hold: 8, fault tolerance is bounded; of its defaults: an ejection
    lasts 10 s, each time 10 s more, up to 60 s, and then the broker gets a growing part of its turns for 5 s.
    Of `docs/client/faults.md`: a broker that was restarted has a clean slate.
    """
    attempts: dict[tuple[str, str], list[Sent]] = defaultdict(list)
    for sent in past.of(Sent):
        attempts[sent.who, sent.address].append(sent)
    keys = {(sent.who, sent.topic): None for sent in past.of(Sent)}
    for calm in chain(calms(past), _cut_off_from_one(past)):
        truth = past.expected_at(calm.begin_us)
        for who, topic in keys:
            for replica in addresses_of(truth, topic):
                _check_used(past, calm, (who, topic), replica, attempts[who, replica.address], verdict)


def _cut_off_from_one(past: Past) -> Iterator[Calm]:
    """Yield the times in which one client did not reach one broker, and nothing else was wrong.

    Of `docs/design/client.md`: hints of others need a quorum, so nobody else leaves that broker.
    """
    for window in past.faults:
        if window.fault.name.startswith(_LINK) and past.faults_in(window.begin_us, window.end_us) == [window]:
            yield Calm(window.begin_us, min(window.end_us, past.end_us), ())


def check_that_the_bad_are_left_alone(past: Past, verdict: Verdict) -> None:
    """Check that no message goes first to the one broker of its topic that has failed a moment before.

    Of `docs/client/faults.md`: after a failure a broker is left alone for 10 s, or until it was restarted.
    """
    said: dict[tuple[str, str], list[Route]] = defaultdict(list)
    failed: dict[str, dict[str, Sent]] = defaultdict(dict)
    works_us = past.of(Expected)[0].at_us if past.of(Expected) else past.end_us
    for event in past.history:
        if isinstance(event, Started):
            failed.pop(event.who, None)
        elif isinstance(event, Route) and not event.fresh:
            said[event.who, event.topic].append(event)
        elif isinstance(event, Sent):
            bad, began_us = failed[event.who], event.began_us or event.at_us
            since_us = max(works_us, began_us - 1_000 * past.bounds.alone_ms)
            known = said_between(said[event.who, event.topic], began_us, began_us)  # when it was chosen
            named = {replica.address for route in known for replica in route.brokers or ()}
            others, before = named - {event.address}, bad.get(event.address)
            recent = {of for of, sent in bad.items() if of in named and sent.at_us > began_us - _COUNTED_US}
            is_recent = before is not None and since_us < before.at_us < began_us and len(recent) == 1
            if before is not None and is_recent and others and event.attempt == 1:
                replica = Replica(event.broker, 0, event.address)
                seen_us = past.limit_us(began_us, past.bounds.heard_ms)  # a client may hear before it is seen
                lost = past.may_have_lost(before.at_us, seen_us)
                is_new = lost or _came_us(past, replica, seen_us) >= (before.began_us or before.at_us)
                reason = f"{event.who} sends first to {event.broker}, where it has failed a moment before"
                verdict.check("" if is_new else reason, before, event)
            if not event.ok:
                bad[event.address] = event


def _check_used(
    past: Past, calm: Calm, key: tuple[str, str], replica: Replica, attempts: list[Sent], verdict: Verdict
) -> None:
    seen = [of for of in attempts if of.topic == key[1] or _restricts(of)]
    inside = [sent for sent in seen if calm.begin_us < sent.at_us < calm.end_us]
    ends = [calm.begin_us, *(sent.at_us for sent in inside)]
    begins = [*(sent.began_us or sent.at_us for sent in inside), calm.end_us]
    bad_us = [sent.at_us for sent in attempts if _restricts(sent)]
    reason = ""
    for since_us, until_us in zip(ends, begins, strict=True):
        if until_us - since_us < 1_000 * past.bounds.slow_start_ms:
            continue
        came_us = _came_us(past, replica, until_us)
        # Who has not found out yet that changes were lost does not hear of it.
        is_unheard = past.may_have_lost(came_us - 1_000 * past.bounds.stale_ms, until_us)
        forgiven_us = 0 if is_unheard else came_us
        counts_us = max(since_us - _COUNTED_US, forgiven_us)
        failed = sum(counts_us < at_us <= since_us for at_us in bad_us)
        allowed_ms = past.bounds.isolated_ms * min(failed, _LONGEST) + past.bounds.slow_start_ms
        if past.limit_us(since_us, allowed_ms, key[0]) < until_us:
            known_us = max(since_us, counts_us, _known_since_us(past, key, replica, until_us))
            if past.limit_us(known_us, allowed_ms, key[0]) < until_us:
                for_s = (until_us - known_us) / 1e6
                reason = f"{key[0]} has not sent to {replica.broker} for {for_s:.1f} s, which lives"
    verdict.check(reason, past.expected_event(calm.begin_us), *attempts[-1:])


def _restricts(sent: Sent) -> bool:
    """Whether an attempt makes a client avoid its broker, for messages of every topic."""
    return not sent.ok or sent.at_us - (sent.began_us or sent.at_us) >= _SLOW_US


def _came_us(past: Past, replica: Replica, until_us: int) -> int:
    """Return when the stream told last that a broker has come; 0 = it did not."""
    times = (came_us for of, came_us in past.arrivals.items() if of.address == replica.address)
    return max((at_us for at_us in chain.from_iterable(times) if at_us <= until_us), default=0)


def _known_since_us(past: Past, key: tuple[str, str], replica: Replica, until_us: int) -> int:
    """Return since when a client has named a broker all the time, without doubt; at the latest, then."""
    known_us: int | None = None
    for route in past.of(Route):
        if (route.who, route.topic) == key and route.at_us <= until_us:
            is_known = (
                replica in (route.brokers or ()) and not route.stale and replica.broker not in route.held
            )
            known_us = None if not is_known else known_us or route.at_us
    return known_us or until_us
