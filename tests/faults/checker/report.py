"""All rules over one history, and what they found in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from tests.faults.checker.feed import the_feed_has_no_gap
from tests.faults.checker.history import Event, History, format_event
from tests.faults.checker.leftovers import (
    keys_are_known,
    logs_are_clean,
    processes_return_to_where_they_were,
)
from tests.faults.checker.messages import messages_arrive
from tests.faults.checker.ownership import (
    addresses_end_with_their_lease,
    epochs_grow,
    the_fenced_change_nothing,
)
from tests.faults.checker.past import Past, Verdict
from tests.faults.checker.views import Convergence, convergences, routes_are_kept, views_converge

_MOST_SHOWN: Final = 5
_MOST_BYTES: Final = 400


class Rule(NamedTuple):
    """One of the rules of the fault matrix."""

    letter: str
    promise: str
    check: Callable[[Past], Verdict]


RULES: Final = (
    Rule("a", "no address is used longer after its lease than promised", addresses_end_with_their_lease),
    Rule("b", "no older epoch after a newer one", epochs_grow),
    Rule("c", "the feed has no gap, and the table by it is the store's", the_feed_has_no_gap),
    Rule("d", "every view converges to the live owners in time", views_converge),
    Rule("e", "no message is lost, and few first attempts fail", messages_arrive),
    Rule("f", "who had a route has one", routes_are_kept),
    Rule("g", "who was fenced changed nothing", the_fenced_change_nothing),
    Rule("h", "only known keys, with their TTL, and verify is clean", keys_are_known),
    Rule("i", "processes take no more than before", processes_return_to_where_they_were),
    Rule("j", "no traceback, and no ERROR that no fault asks for", logs_are_clean),
)


class Report(NamedTuple):
    """What all rules found in one history."""

    verdicts: Mapping[str, Verdict]
    """By the letter of the rule."""

    convergences: list[Convergence]

    @property
    def caught_by(self) -> str:
        """The letters of the rules that were violated."""
        return "".join(letter for letter, verdict in self.verdicts.items() if verdict.violations)

    @property
    def summary(self) -> dict[str, dict[str, int]]:
        """By rule, how often it was checked, and how many violations there are."""
        return {
            letter: {"checked": verdict.checked, "violations": len(verdict.violations)}
            for letter, verdict in self.verdicts.items()
        }

    def lines(self) -> Iterator[str]:
        """Yield the report: a line a rule, and then each violation with the events that show it."""
        for rule in RULES:
            verdict = self.verdicts[rule.letter]
            looked = f"{verdict.checked:>8} checked" if verdict.checked else "   not exercised"
            found = f"{len(verdict.violations)} violations" if verdict.violations else ""
            yield f"({rule.letter}) {rule.promise:<60} {looked}  {found}".rstrip()
        for rule in RULES:
            violations = self.verdicts[rule.letter].violations
            for violation in violations[:_MOST_SHOWN]:
                yield f"\n({rule.letter}) {violation.reason}"
                yield from map(_shown, violation.events[-_MOST_SHOWN:])
            if len(violations) > _MOST_SHOWN:
                yield f"\n({rule.letter}) and {len(violations) - _MOST_SHOWN} more"


def _shown(event: Event) -> str:
    line = format_event(event).decode()
    return f"    {line[:_MOST_BYTES]}{'...' if len(line) > _MOST_BYTES else ''}"


def check(history: History) -> Report:
    """Return what all rules find in a history."""
    past = Past(history)
    return Report({rule.letter: rule.check(past) for rule in RULES}, convergences(past))
