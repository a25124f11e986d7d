"""That what a fault has waited for came in time: a part of rule (d)."""

from __future__ import annotations

from tests.faults.checker.history import FAILOVER
from tests.faults.checker.past import Past, Verdict

PROMISED = "promised"
"""In `Fault.details`: what was waited for, within how many ms, since when, until when, and of whom."""


def check_that_promises_are_kept(past: Past, verdict: Verdict) -> None:
    """Check what only the fault can see: what an agent says, where a client reads, what is listed.

    Of `docs/design/agent.md`: a slave learns of its master when the doorbell is connected anew. Of
    `docs/design/table.md`: heartbeats list a broker again. Of `docs/design.md`, its defaults: a client
    leaves the primary again.
    """
    for window in past.faults:
        if PROMISED not in window.fault.details:
            continue
        what, within_ms, since_us, seen_us, *who = window.fault.details[PROMISED]
        lasting = past.faults_in(window.begin_us, seen_us)
        is_alone = all(of is window or (of.fault.name == FAILOVER and of.end_us < since_us) for of in lasting)
        is_late = seen_us > past.limit_us(since_us, within_ms, *who)
        verdict.check(f"{what}: not within {within_ms} ms" if is_alone and is_late else "", window.fault)
