"""That messages arrive: rule (e)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from sharedroutes.client import NoRoute
from tests.faults.checker.history import Expected, Lost, Received, Sent
from tests.faults.checker.past import Past, Verdict, addresses_of
from tests.faults.checker.uses import check_that_the_bad_are_left_alone, check_that_the_well_are_used


def messages_arrive(past: Past) -> Verdict:
    """Check that no message is lost, that whoever said yes has it, and that first attempts seldom fail.

    Of `docs/design.md`, what must always hold: 8, fault tolerance is bounded and never isolates everybody. A
    message is lost when all its attempts fail while a broker lives.
    """
    verdict = Verdict()
    received = {(event.message, event.address) for event in past.of(Received)}
    for sent in past.of(Sent):
        if sent.ok:
            has_it = (sent.message, sent.address) in received
            reason = f"{sent.address} said that it took {sent.message}, and has it not"
            verdict.check("" if has_it else reason, sent)
    for lost in past.of(Lost):
        if addresses_of(past.expected_at(lost.at_us), lost.topic):
            attempts = [
                sent for sent in past.of(Sent) if (sent.who, sent.message) == (lost.who, lost.message)
            ]
            if _is_cut_off(past, lost, min(map(_began_us, attempts), default=lost.at_us)):
                continue
            if any(_had_no_time(past, sent) for sent in attempts) or not _could_know(past, lost):
                continue
            verdict.violate(f"{lost.who} lost {lost.message}: {lost.error}", *attempts, lost)
    _check_first_attempts(past, verdict)
    check_that_the_well_are_used(past, verdict)
    check_that_the_bad_are_left_alone(past, verdict)
    return verdict


def _check_first_attempts(past: Past, verdict: Verdict) -> None:
    """Check how many first attempts of a client failed from the begin of a fault to that of the next.

    One that is under way when a fault begins fails by it. Nothing is promised before everything works.
    """
    begins = [window.begin_us for window in past.faults]
    works_us = past.of(Expected)[0].at_us if past.of(Expected) else 0
    failures: dict[tuple[str, int], list[Sent]] = defaultdict(list)
    for sent in past.of(Sent):
        if sent.attempt == 1 and _began_us(sent) >= works_us:
            failed = failures[sent.who, bisect_right(begins, sent.at_us)]
            is_excused = sent.ok or _had_no_time(past, sent) or _is_cut_off(past, sent, _began_us(sent))
            if not is_excused:
                failed.append(sent)
    for (who, index), failed in failures.items():
        begin_us = begins[index - 1] if index else 0
        lasting = [window.fault.name for window in past.faults[:index] if window.end_us >= begin_us]
        allowed = past.bounds.first_failures * len(lasting)
        reason = (
            f"{len(failed)} first attempts of {who} failed after {', '.join(lasting) or 'the start'}; "
            f"{allowed} are allowed"
        )
        verdict.check(reason if len(failed) > allowed else "", *failed)


def _began_us(sent: Sent) -> int:
    return sent.began_us or sent.at_us


def _is_cut_off(past: Past, event: Sent | Lost, since_us: int) -> bool:
    """Whether faults have kept a client from all brokers that live, since then: the way to them was cut."""
    unreached = past.unreached(event.who, since_us, event.at_us)
    holders = {holder.broker for holder in addresses_of(past.expected_at(event.at_us), event.topic)}
    return bool(unreached) and holders <= unreached


def _could_know(past: Past, lost: Lost) -> bool:
    """Whether who found no route had the time to hear of somebody who lives, and has lived since."""
    if NoRoute.__name__ not in lost.error:
        return True
    since_us = lost.at_us - 1_000 * past.bounds.stale_ms
    since_us -= past.late_us(since_us, lost.at_us, lost.who)
    if not all(addresses_of(table, lost.topic) for table in past.expected_between(since_us, lost.at_us)):
        return False
    return any(
        tenure.replica == holder and tenure.from_us <= since_us and tenure.until_us >= lost.at_us
        for holder in addresses_of(past.expected_at(lost.at_us), lost.topic)
        for tenure in past.tenures.get(holder[:2], ())
    )


def _had_no_time(past: Past, sent: Sent) -> bool:
    """Whether an attempt had no time: for half of it the machine kept client or broker waiting."""
    late_us = past.late_us(_began_us(sent), sent.at_us, sent.who, sent.broker)
    return not sent.ok and 2 * late_us >= 1_000 * past.bounds.attempt_ms
