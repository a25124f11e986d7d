"""That the write permission of a broker is an operator's, once one has taken it: a part of rule (g)."""

from __future__ import annotations

from sharedroutes.registry import ChangeKind
from tests.faults.checker.arrivals import is_back
from tests.faults.checker.history import OPERATOR, Change, Sent
from tests.faults.checker.past import Past, Verdict


def check_that_wipes_hold(past: Past, verdict: Verdict) -> None:
    """Check that only operators give back what one took, and that nobody sends to the broker until then.

    Of `docs/design/agent.md`: what an operator took before a drain stays taken. Of `docs/design/table.md`: a
    wipe holds at once for any number of topics, and no registration can undo it.
    """
    wiped: dict[str, Change] = {}
    for change in past.of(Change):
        record = change.record
        if record is not None and record.kind == ChangeKind.WIPED and record.by == OPERATOR:
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


def _check_unused(past: Past, before: Change, after: Change, broker: str, verdict: Verdict) -> None:
    for sent in past.of(Sent):
        began_us = sent.began_us or sent.at_us
        known_us = past.limit_us(before.at_us, past.bounds.stale_ms, sent.who)
        if not known_us < began_us < after.at_us:
            continue
        if is_back(past, sent.who, before.at_us, began_us, past.bounds.arrival_ms):
            reason = f"{sent.who} sends to {broker}, whose write permission an operator has taken"
            verdict.check(reason if sent.broker == broker else "", before, sent)
