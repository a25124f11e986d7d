"""Who takes the write permission of a broker, and who gives it back: a part of rule (g)."""

from __future__ import annotations

from sharedroutes.registry import ChangeKind
from tests.faults.checker.arrivals import is_back
from tests.faults.checker.endings import DRAINED
from tests.faults.checker.history import OPERATOR, Change, Event, Route, Sent, Started, State
from tests.faults.checker.past import Past, Verdict, said_between
from tests.faults.checker.snapshots import has_no_room


def check_that_wipes_hold(past: Past, verdict: Verdict) -> None:
    """Check that only operators give back what one took, and that nobody sends to the broker until then.

    Of `docs/design/agent.md`: what an operator took before a drain stays taken. Of `docs/design/table.md`: a
    wipe holds at once for any number of topics, and no registration can undo it; no snapshot forgets it.
    """
    wiped: dict[str, Change] = {}
    for change in past.of(Change):
        record = change.record
        if record is not None and record.kind == ChangeKind.WIPED and record.by == OPERATOR:
            if record.broker in wiped:  # and nobody said that it was given back
                _check_unused(past, wiped[record.broker], change, record.broker, verdict)
            wiped[record.broker] = change
        elif record is not None and record.kind == ChangeKind.LIFTED:
            before = wiped.pop(record.broker, None)
            if before is not None and not past.may_have_lost(before.at_us, change.at_us):
                is_right = record.by == OPERATOR
                reason = (
                    f"an operator took the write permission of {record.broker}, and somebody gave it back"
                )
                verdict.check("" if is_right else reason, before, change)
                _check_unused(past, before, change, record.broker, verdict)
    for broker, before in wiped.items():
        _check_unused(past, before, past.history[-1], broker, verdict)


def _check_unused(past: Past, before: Change, after: Event, broker: str, verdict: Verdict) -> None:
    if past.may_have_lost(before.at_us, after.at_us):
        return
    seen_us = after.at_us - 1_000 * past.bounds.looks_ms  # it was given back before that was seen
    until_us = seen_us - past.late_us(seen_us, after.at_us, *past.everybody)
    for sent in past.of(Sent):
        began_us = sent.began_us or sent.at_us
        known_us = past.limit_us(before.at_us, past.bounds.stale_ms, sent.who)
        if not known_us < began_us < until_us:
            continue
        is_known = is_back(past, sent.who, before.at_us, began_us, past.bounds.arrival_ms)
        if is_known or _began_with_it(past, before, sent):
            reason = f"{sent.who} sends to {broker}, whose write permission an operator has taken"
            verdict.check(reason if sent.broker == broker else "", before, sent)


def _began_with_it(past: Past, before: Change, sent: Sent) -> bool:
    """Whether a client has begun anew with a snapshot that says so: it had the time to write it down.

    Of `docs/design.md`, what must always hold: 7, after a restart the last known routes are served.
    """
    began_us, who = sent.began_us or sent.at_us, sent.who
    starts = [of for of in past.of(Started) if of.who == who and of.at_us <= began_us]
    if not starts or not starts[-1].has_snapshot:
        return False
    said = [of for of in past.of(Route) if of.who == who and of.at_us < starts[-1].at_us]
    saved_us = past.limit_us(before.at_us, past.bounds.saved_ms, who)
    lasting = past.faults_in(before.at_us, saved_us)
    if not said or said[-1].at_us < saved_us or has_no_room(lasting):
        return False
    holds = any(of.held for of in said_between(said, before.at_us, saved_us))
    return not holds and is_back(past, who, before.at_us, saved_us, past.bounds.arrival_ms)


def check_that_agents_give_back(past: Past, verdict: Verdict) -> None:
    """Check that an agent which has taken the write permission gives it back when the broker is drained.

    Of `docs/design/agent.md`: drain is wipe, wait, withdraw, lift; unless the agent is killed meanwhile.
    """
    taken: dict[str, Change] = {}
    given_back: dict[str, Change] = {}
    changes = [change for change in past.of(Change) if change.record is not None]
    lifted = [change for change in changes if change.record and change.record.kind == ChangeKind.LIFTED]
    for change in changes:
        record = change.record
        assert record is not None
        if record.kind == ChangeKind.WIPED and record.by != OPERATOR:
            taken[record.broker] = change
        elif record.kind == ChangeKind.LIFTED:
            if taken.pop(record.broker, None) is not None and record.by != OPERATOR:
                given_back[record.broker] = change
        elif record.kind == ChangeKind.DOWN and record.reason == DRAINED and record.broker in given_back:
            before = given_back.pop(record.broker)  # a moment before, or else somebody had resumed it
            is_early = change.at_us - before.at_us < 1_000 * past.bounds.arrival_ms
            reason = f"{record.broker} has its write permission back before it is out"
            verdict.check(reason if is_early else "", before, change)
        elif record.kind == ChangeKind.DOWN and record.reason == DRAINED and record.broker in taken:
            limit_us = past.limit_us(change.at_us, past.bounds.arrival_ms, *past.everybody)
            if limit_us > past.end_us or not _works(past, record.broker, change.at_us, limit_us):
                continue
            of = [one.at_us for one in lifted if one.record and one.record.broker == record.broker]
            is_given_back = any(change.at_us <= at_us <= limit_us for at_us in of)
            reason = f"{record.broker} is drained, and its agent keeps its write permission"
            verdict.check("" if is_given_back else reason, taken[record.broker], change)


def _works(past: Past, broker: str, since_us: int, until_us: int) -> bool:
    """Whether no fault keeps the agent that spoke of a broker last from the store, for so long."""
    said = [state for state in past.of(State) if state.broker == broker and state.at_us <= since_us]
    if not said:
        return False
    calm_since = past.calm_since_us(said[-1].who, until_us)
    return calm_since is not None and calm_since <= since_us
