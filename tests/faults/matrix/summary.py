"""What a run of the matrix has shown: fault by fault, and rule by rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.faults.matrix.ledger import Checked


def lines_of(found: Sequence[Checked]) -> Iterator[str]:
    """Yield the summary: a line a fault and store, and then what the checker says."""
    yield ""
    yield f"{'fault':<28} {'store':<11} {'runs':>4}  worst convergence"
    for told, _, _ in found:
        worst: dict[str, list[float | None]] = defaultdict(list)
        for outcome in told.outcomes:
            for kind in outcome.kinds:
                worst[kind].append(outcome.converged_s)
        for kind, times in sorted(worst.items()):
            slowest = "never" if None in times else f"{max(time for time in times if time is not None):.1f} s"
            yield f"{kind:<28} {told.deployment:<11} {len(times):>4}  {slowest}"
    for told, report, _ in found:
        yield ""
        yield f"{told.deployment}: {'violated: ' + report.caught_by if report.caught_by else 'clean'}"
        yield from report.lines()
