"""Who speaks for a group of replicas: a part of rule (a)."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter

from sharedroutes.registry import MASTER_ID
from tests.faults.checker.history import Route, Sent
from tests.faults.checker.past import Past, Verdict


def check_that_one_speaks_for_each(past: Past, verdict: Verdict) -> None:
    """Check that a lookup finds a master of each broker, and each address once, and who is sent to.

    Of `docs/design/table.md`: one address is one replica; a slave stands in for a lost master, as id 0 and
    read-only. All slaves here may.
    """
    for route in past.of(Route):
        brokers = route.brokers or ()
        if route.fresh and brokers:
            addresses = [replica.address for replica in brokers]
            twice = {one for one in addresses if addresses.count(one) > 1}
            reason = f"{', '.join(sorted(twice))} is two replicas of a group in a lookup"
            verdict.check(reason if twice else "", route)
            alone = {of.broker for of in brokers} - {of.broker for of in brokers if of.id == MASTER_ID}
            reason = f"nobody speaks for {', '.join(sorted(alone))} in a lookup, whose slave may"
            verdict.check(reason if alone else "", route)
    _check_attempts(past, verdict)


def check_that_the_promoted_serve(past: Past, verdict: Verdict) -> None:
    """Check that a slave which has become the master has the lease of one, whoever of both began anew.

    Of `docs/design/table.md`: one registration ends what it was and begins what it is.
    """
    for window in past.faults:
        address = window.fault.details.get("promoted")
        if address is None or len(past.faults_in(window.begin_us, window.end_us)) > 1:
            continue
        tenures = past.tenures.get((window.fault.target, MASTER_ID), ())
        has_served = any(of.replica.address == address and of.until_us > window.begin_us for of in tenures)
        is_late = past.was_starved(window.end_us, *past.everybody)
        reason = f"the slave at {address} is the master of {window.fault.target}, and has no lease of it"
        verdict.check("" if has_served or is_late else reason, window.fault)


def _check_attempts(past: Past, verdict: Verdict) -> None:
    """Check that nobody sends to a slave."""
    slaves = {of for of in past.tenures if of[1] != MASTER_ID}
    at = {tenure.replica.address for of in slaves for tenure in past.tenures[of]}
    for sent in (sent for sent in past.of(Sent) if sent.address in at):
        began_us = sent.began_us or sent.at_us
        tenures = (of for of in chain.from_iterable(past.tenures.values()) if of.from_us <= began_us)
        here = [tenure for tenure in tenures if tenure.replica.address == sent.address]
        last = max(here, key=attrgetter("until_us"), default=None)
        reason = f"{sent.who} sends to {sent.address}, which is a slave"
        verdict.check(reason if last and last.replica.id != MASTER_ID else "", last and last.gone, sent)
