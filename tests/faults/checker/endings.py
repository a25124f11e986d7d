"""That a lease ends when its broker does, and not before, and that its end is told."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Final

from sharedroutes.registry import ChangeKind
from sharedroutes.registry.model import EXPIRED
from sharedroutes.registry.plans.changes import order
from tests.faults.checker.history import (
    FAILOVER,
    STORE,
    Change,
    Expected,
    Lease,
    Record,
    Replica,
    State,
)
from tests.faults.checker.past import FaultWindow, Past, Tenure, Verdict, is_withdrawal

DRAINED: Final = "drained"
"""Why a lease ended whose broker an operator has taken out."""

_DEAD: Final = "was found dead"
_CLOSED: Final = ("kill-broker", "leave-fronts", "fronts-cut")
"""What the names of faults begin with that close all connections of a broker."""

HELD_MS: Final = 4_500
"""So long after the death of a front its connections hold nobody: 3 s, and who held back looks again."""

WATCH_MS: Final = 500
"""For so long an agent that is told to end watches its broker, at least."""

_LEFT_WITH_A_FRONT: Final = "leave-with-a-front"
"""The fault in which a broker closes all connections just as a front dies that had one."""

_HANDED_OVER: Final = "restart-agent"
"""The fault in which an agent is told to end whose broker stays."""

_SWITCHED: Final = "switch-primary"
"""The fault in which a replica takes over because an operator says so."""

_UNHEARD: Final = ("fronts-", "leave-")
"""What the names of faults begin with in which a broker lives, answers, and no front hears it."""

_HALF_OPEN: Final = ("front-half-open", "fronts-half-open", "die-half-open")
_IDLE_US: Final = 120_000_000
"""For so long a front takes a connection that is half open for one of the broker."""

_BRIEF: Final = ("pause-broker-briefly", "pause-broker-and-rest")
"""Faults in which a broker stands still for less than its hang check takes."""

FRONT: Final = "front-"
"""What the names of fronts begin with, and those of faults that keep a broker from one of them."""

_STILL: Final = ("kill-", "pause-")
"""What the names of faults begin with after which a process does not run."""

_AGENT: Final = "agent"
"""What agents begin with when they say who they are."""

_FINDS_MS: Final = 1_000
"""So much later than a front an agent finds at most that a broker hangs: they ask once a second."""

_PAUSE: Final = "pause-"
"""What the names of faults begin with in which a process stands still."""

_APART_MS: Final = 100
"""The two are read in one round trip, one after the other."""

_FRONTS_LIVE_US: Final = 4_000_000
"""A front that has said nothing for 3 s has died."""


def check_that_the_dead_are_out(past: Past, verdict: Verdict) -> None:
    """Check that a broker that is dead or drained has no lease, so long after one could have been renewed."""
    truths = past.of(Expected)
    for before, after in pairwise(truths):
        out = {*before.table.leases} - {*after.table.leases}
        allowed_ms = _allowed_ms(past, after.at_us, {replica.broker for replica in out})
        limit_us = past.limit_us(after.at_us, allowed_ms, *past.everybody)
        lasting = past.faults_in(after.at_us, limit_us)
        for replica in out:
            back_us = _back_us(past, replica, after.at_us)
            if back_us <= limit_us or not _is_of_the_broker(lasting, replica):
                continue
            kept = any(
                tenure.replica == replica and tenure.from_us <= after.at_us and tenure.seen_us > limit_us
                for tenure in past.tenures.get((replica.broker, replica.id), ())
            )
            shown = past.look_at(replica, limit_us)
            reason = (
                f"{replica.broker} is out for {(limit_us - after.at_us) / 1e6:.1f} s, and keeps its lease"
            )
            verdict.check(reason if kept else "", after, shown)


def _allowed_ms(past: Past, since_us: int, brokers: Collection[str]) -> int:
    """Return for how long brokers that were taken at a time may keep their leases.

    When all connections of a broker are closed, who had one ends the lease at once, unless a front died a
    moment before, which still counts as one that has the broker. Of docs/design/limits.md: where a front or
    the broker has begun a moment before, no answer was heard yet: the lease ends by itself. So it does where
    fronts reach a broker that does not reach them.
    """
    begun = [window for window in past.faults if since_us - _FRONTS_LIVE_US <= window.begin_us <= since_us]
    kept_open = any(of.fault.name in _HALF_OPEN for of in past.faults_in(since_us - _IDLE_US, since_us))
    if [window.fault.name for window in begun] == [_LEFT_WITH_A_FRONT] and not kept_open:
        return HELD_MS
    if [window.fault.name.startswith(_CLOSED) for window in begun] == [True] and not kept_open:
        return past.bounds.gone_ms
    fronts = [who for who in past.starts if who.startswith(FRONT)]
    asked = (
        not any(window.fault.name.startswith(_UNHEARD) for window in begun)
        and all(is_left_alone(past, who, since_us - 1) for who in fronts)
        and all(past.begun_us(who, since_us) <= since_us for who in (*fronts, *brokers))
    )
    return (past.bounds.lease_ms if asked else past.bounds.fronts_ms) + past.bounds.stale_ms


def _back_us(past: Past, replica: Replica, since_us: int) -> int:
    """Return when a replica lives again."""
    later = (truth for truth in past.of(Expected) if truth.at_us > since_us)
    return next((truth.at_us for truth in later if replica in truth.table.leases), past.end_us)


def _is_of_the_broker(lasting: list[FaultWindow], replica: Replica) -> bool:
    """Whether there is no other fault than one of the broker itself: then what it takes away is dead."""
    if len(lasting) > 1:
        return False
    disturbed = {name for window in lasting for name in window.fault.disturbs}
    return not disturbed or replica.broker in disturbed


def check_that_the_living_stay(past: Past, verdict: Verdict) -> None:
    """Check that nobody ends the lease of a broker that lives, and that no fault has concerned for a while.

    Who hears late of what a fault has done says so until the bound is over in which processes are back.
    """
    for change in past.of(Change):
        record = change.record
        if not is_withdrawal(record):
            continue
        if is_left_alone(past, record.broker, change.at_us) and not _is_half_cut(past, change.at_us):
            reason = f"{record.broker}:{record.id} lives, and its lease was ended: {record.reason}"
            starved = past.was_starved(change.at_us, *past.everybody)
            lives = has_lived(past, record, change.at_us, past.bounds.back_ms) and not starved
            verdict.check(reason if lives else "", past.expected_event(change.at_us), change)


def _is_half_cut(past: Past, at_us: int) -> bool:
    """Whether a fault keeps a broker from one of its fronts, and the other may not have it either."""
    lasting = past.faults_in(at_us - 1_000 * past.bounds.back_ms, at_us)
    is_cut = any(window.fault.name.startswith(FRONT) for window in lasting)
    return is_cut and not all(is_left_alone(past, who, at_us) for who in past.starts if who.startswith(FRONT))


def check_that_the_living_are_renewed(past: Past, verdict: Verdict) -> None:
    """Check that no lease of a broker that lives ends by itself while nothing concerns its agent.

    Of `docs/design.md`: a TTL is at least twice the heartbeat, so that half of it may be lost; and of what
    must always hold 9, so that it does not matter what the clock of the agent says.
    """
    owners = [of for of in past.of(State) if of.state == "owner"]
    for change in past.of(Change):
        record = change.record
        if record is None or record.kind != ChangeKind.DOWN or record.reason != EXPIRED:
            continue
        ended = record.broker, record.id, record.epoch
        said = [of for of in owners if (of.broker, of.id, of.epoch) == ended and of.at_us <= change.at_us]
        owner = said[-1] if said else None
        if owner is None or not is_left_alone(past, owner.who, change.at_us, owner.at_us):
            continue
        if not is_left_alone(past, record.broker, change.at_us):
            continue
        starved = past.was_starved(change.at_us, owner.who)
        reason = f"{record.broker}:{record.id} lives, and its agent does, and its lease has ended"
        lives = has_lived(past, record, change.at_us, past.bounds.lease_ms) and not starved
        verdict.check(reason if lives else "", owner, change)


def check_that_standbys_leave_no_gap(past: Past, verdict: Verdict) -> None:
    """Check that no lease ends by itself beside which another agent of the broker stands by.

    Of `docs/design/agent.md`: a standby takes an abandoned lease over before it ends.
    """
    said: dict[tuple[str, int], list[State]] = {}
    for state in past.of(State):
        said.setdefault((state.broker, state.id), []).append(state)
    for change in past.of(Change):
        record = change.record
        if record is None or record.kind != ChangeKind.DOWN or record.reason != EXPIRED:
            continue
        if not is_left_alone(past, record.broker, change.at_us):
            continue
        since_us = change.at_us - 1_000 * past.bounds.lease_ms
        states = said.get((record.broker, record.id), [])
        for who in {state.who for state in states if state.at_us <= since_us}:
            last = [state for state in states if state.who == who and state.at_us <= change.at_us][-1]
            if last.state != "standby" or last.at_us > since_us or not is_left_alone(past, who, change.at_us):
                continue
            starved = past.was_starved(change.at_us, who)
            reason = f"{who} stands by for {record.broker}:{record.id}, and has let its lease end"
            verdict.check("" if starved else reason, last, change)


def check_that_leases_are_left_whole(past: Past, verdict: Verdict) -> None:
    """Check that an agent which is told to end renews the lease of its broker once more, and does not end it.

    Of `docs/design/agent.md`: at the end of the watch, so that the next agent has the whole of it.
    """
    for window in past.faults:
        if window.fault.name != _HANDED_OVER or len(past.faults_in(window.begin_us, window.end_us)) > 1:
            continue
        said = [of for of in past.of(State) if of.who == window.fault.target and of.at_us < window.begin_us]
        if not said or said[-1].state != "owner":
            continue
        if not is_left_alone(past, window.fault.target, window.begin_us - 1, said[-1].at_us):
            continue
        for change in past.of(Change):
            if window.begin_us < change.at_us < window.end_us and is_withdrawal(change.record):
                ended = change.record.broker, change.record.epoch
                reason = f"{said[-1].who} ended and took {said[-1].broker} out, which stays"
                verdict.check(reason if ended == (said[-1].broker, said[-1].epoch) else "", said[-1], change)
        over_us = window.begin_us + 1_000 * WATCH_MS
        looks = [of for of in past.looks.get((said[-1].broker, said[-1].id), []) if of.left_ms]
        left = [of for of in looks if over_us < of.at_us < window.end_us and of.epoch == said[-1].epoch]
        if left and not past.was_starved(window.end_us, *past.everybody):
            short_ms = past.bounds.lease_ms - left[-1].left_ms - (left[-1].at_us - over_us) // 1_000
            reason = f"{said[-1].who} ended and left a lease that was not renewed for {short_ms} ms"
            verdict.check(reason if short_ms > _APART_MS else "", said[-1], left[-1])


def check_that_switches_pass(past: Past, verdict: Verdict) -> None:
    """Check that no lease ends because another primary is named, while the one of before works.

    Of `docs/design.md`, its defaults: the Sentinels' word on the primary is a second old at most; a node of
    a Cluster says itself that it is no primary any more.
    """
    for window in past.faults:
        others = [of for of in past.faults_in(window.begin_us, window.end_us) if of.fault.name != FAILOVER]
        if window.fault.name != _SWITCHED or len(others) > 1:
            continue
        if past.was_starved(window.end_us, *past.everybody):
            continue
        for tenures in past.tenures.values():
            for tenure in tenures:
                if tenure.gone and window.begin_us < tenure.until_us < window.end_us:
                    reason = f"the lease of {tenure.replica.broker} has ended as another primary was named"
                    verdict.check(reason if tenure.gone.epoch is None else "", tenure.gone)


def check_that_short_pauses_pass(past: Past, verdict: Verdict) -> None:
    """Check that nobody takes out a broker that stands still for less time than finds it hanging.

    Of `docs/design/agent.md`: only three deadlines in a row, so that any shorter pause passes.
    """
    for window in past.faults:
        if (
            not window.fault.name.startswith(_BRIEF)
            or len(past.faults_in(window.begin_us, window.end_us)) > 1
        ):
            continue
        limit_us = past.limit_us(window.end_us, past.bounds.heard_ms)
        for broker in window.fault.disturbs:
            calm_since = past.calm_since_us(broker, window.begin_us - 1)
            is_calm = calm_since is not None and calm_since + 1_000 * past.bounds.back_ms < window.begin_us
            ends = [
                change
                for change in past.of(Change)
                if window.begin_us <= change.at_us <= limit_us
                and is_withdrawal(change.record)
                and change.record.broker == broker
            ]
            if is_calm and not past.was_starved(limit_us, *past.everybody):
                reason = f"{broker} stood still for a moment, and was taken out"
                verdict.check(reason if ends else "", past.expected_event(window.begin_us), *ends)


def is_left_alone(past: Past, who: str, at_us: int, works_us: int = 0) -> bool:
    """Whether no fault concerns a process, nor has until it had the time to be back, or was seen to work."""
    calm_since = past.calm_since_us(who, at_us)
    if calm_since is None:
        return False
    return works_us >= calm_since > 0 or past.limit_us(calm_since, past.bounds.back_ms, who) <= at_us


def has_lived(past: Past, record: Record, at_us: int, for_ms: int) -> bool:
    """Whether the broker of a record has been alive for so long."""
    tables = past.expected_between(at_us - 1_000 * for_ms, at_us)
    return all((record.broker, record.id) in {of[:2] for of in table.leases} for table in tables)


def check_that_who_is_out_stays_out(past: Past, verdict: Verdict) -> None:
    """Check that nobody registers what an operator has drained, or what was found dead, too early.

    Of `docs/design/table.md`: of what is kept out, a claim of that address is refused. Of
    `docs/design/front.md`: a front restores what the store has lost, but for what was taken out. Of
    `docs/design/limits.md`: an agent that stands by finds a moment later than a front that a broker hangs.
    """
    out: dict[tuple[str, int], tuple[Change, str]] = {}
    for change in past.of(Change):
        record = change.record
        if record is None:
            continue
        replica = (record.broker, record.id)
        if record.kind == ChangeKind.DOWN:
            out.pop(replica, None)
            if why := _why_out(past, record, change.at_us):
                out[replica] = change, why
        elif record.kind == ChangeKind.UP and replica in out:
            down, why = out.pop(replica)
            if why == _DEAD and not _is_dead(past, record.broker, change.at_us):
                continue
            if why == _DEAD and _may_find_it_later(past, down, change):
                continue
            said_us = past.limit_us(change.at_us, past.bounds.arrival_ms, *past.everybody)
            tables = past.expected_between(change.at_us, said_us)  # who lets it come back says so next
            is_back = any(replica == of[:2] for table in tables for of in table.leases)
            is_right = is_back or past.may_have_lost(down.at_us, change.at_us)
            reason = f"{record.broker}:{record.id} {why}, and somebody registered it again"
            verdict.check("" if is_right else reason, down, change)


def _may_find_it_later(past: Past, down: Change, up: Change) -> bool:
    """Whether an agent registers a broker that hangs, and may not have found that yet, as a front has."""
    is_agent = up.record is not None and up.record.by.startswith(_AGENT)
    hangs = all(of.fault.name.startswith(_PAUSE) for of in past.faults_in(up.at_us, up.at_us))
    return is_agent and hangs and up.at_us - down.at_us < 1_000 * _FINDS_MS


def _why_out(past: Past, record: Record, at_us: int) -> str:
    """Return why a replica that was taken out has to stay out; empty = it has not."""
    if record.reason == DRAINED:
        return "was drained"
    return _DEAD if is_withdrawal(record) and _is_dead(past, record.broker, at_us) else ""


def _is_dead(past: Past, broker: str, at_us: int) -> bool:
    """Whether a broker does not run, and nothing else is wrong."""
    lasting = past.faults_in(at_us, at_us)
    return len(lasting) == 1 and all(
        window.fault.name.startswith(_STILL) and broker in window.fault.disturbs for window in lasting
    )


def check_that_leases_last(past: Past, verdict: Verdict) -> None:
    """Check that a lease lasts for as long as fronts vouch for the broker, whoever else renews it.

    Of `docs/design/table.md`: neither agents nor fronts shorten the lease that the other renewed.
    """
    for look in past.of(Lease):
        if look.epoch is not None and look.vouched_ms:
            is_short = look.left_ms < look.vouched_ms - _APART_MS
            reason = (
                f"the lease of {look.broker} ends in {look.left_ms} ms; fronts vouch for {look.vouched_ms} ms"
            )
            verdict.check(reason if is_short else "", look)


def check_that_ends_are_told(past: Past, verdict: Verdict) -> None:
    """Check that the stream tells in time of each lease that has ended, unless there is a new one by then."""
    downs: dict[tuple[str, int], list[int]] = {}
    for change in past.of(Change):
        if change.record is not None and change.record.kind == ChangeKind.DOWN:
            downs.setdefault((change.record.broker, change.record.id), []).append(change.at_us)
    for replica, tenures in past.tenures.items():
        for tenure, after in pairwise([*tenures, None]):
            if tenure is not None and tenure.gone is not None and tenure.gone.epoch is None:
                _check_end(past, verdict, tenure, after, downs.get(replica, []))


def check_that_ends_are_told_at_once(past: Past, verdict: Verdict) -> None:
    """Check how long after the end of a lease the stream tells of it, by the store's clock.

    Of `docs/design.md`, what must always hold: 2, "visible within TTL + 0.1 s". If the sweeper ends, another
    one takes its place before the lease of a broker ends that died with it. A store that waits for its disk
    answers nobody: so much longer than usual the auditor has waited for its look, too.
    """
    ends = {(of.replica[:2], of.epoch): of for all_ in past.tenures.values() for of in all_ if of.gone}
    for change in past.of(Change):
        record, told = change.record, order(change.id)
        if record is None or record.ended is None or told is None:
            continue
        tenure, took_ms = ends.get(((record.broker, record.id), record.epoch)), told[0] - record.ended
        ended_us = change.at_us - 1_000 * took_ms
        since_us = ended_us - 1_000 * past.bounds.elected_ms
        if tenure is not None and _is_sweeper_left_alone(past, since_us, change.at_us):
            late_us = past.late_us(ended_us - 1_000 * past.bounds.swept_ms, change.at_us, *past.everybody)
            blind_us = max(0, tenure.until_us - tenure.seen_us - 1_000 * past.bounds.looks_ms)
            allowed_ms = past.bounds.swept_ms + (late_us + blind_us) // 1_000
            of = f"the end of the lease of {record.broker}:{record.id}"
            reason = f"{of} was told {took_ms} ms late; {allowed_ms} are allowed"
            verdict.check(reason if took_ms > allowed_ms else "", change)


def _is_sweeper_left_alone(past: Past, since_us: int, until_us: int) -> bool:
    """Whether who sweeps has been elected before, and no fault concerns it or the store.

    A process that is killed or stands still does not sweep; one that hears no answers perhaps does.
    """
    return all(
        window.fault.name.startswith(_STILL)
        and STORE not in window.fault.disturbs
        and window.begin_us < since_us
        and window.end_us > until_us
        for window in past.faults_in(since_us, until_us)
    )


def _check_end(past: Past, verdict: Verdict, tenure: Tenure, after: Tenure | None, downs: list[int]) -> None:
    limit_us = past.limit_us(tenure.until_us, past.bounds.told_ms, *past.everybody)
    calm_since = past.calm_since_us(STORE, limit_us)
    is_lasting = after is None or after.from_us > limit_us
    if not is_lasting or limit_us > past.end_us or calm_since is None or calm_since >= tenure.seen_us:
        return
    is_told = any(tenure.seen_us <= at <= limit_us for at in downs)
    reason = f"the lease of {tenure.replica.broker}:{tenure.replica.id} has ended, and nobody was told"
    verdict.check("" if is_told else reason, tenure.gone)
