"""The ledger, docs/faults.md: what was tried on which store, how it ended, and the bugs that were found."""

from __future__ import annotations

import fcntl
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tests.faults.checker.report import RULES, Report
from tests.faults.matrix.kinds.all import KINDS
from tests.faults.matrix.run import Told
from tests.faults.matrix.stores import STORES

_HERE: Final = Path(__file__).parent
BUGS: Final = _HERE / "bugs.toml"
"""The bugs that were found: kept by hand."""

TALLY: Final = _HERE / "tally.json"
"""The sums of all runs that were made with `--ledger`."""

PREFACE: Final = _HERE / "preface.md"


class Checked(NamedTuple):
    """A run on one store, what the checker says of it, and how long it took."""

    told: Told
    report: Report
    minutes: float


class Count(msgspec.Struct):
    """What became of one kind of fault on one store, in all runs together."""

    runs: int = 0
    violations: int = 0
    worst_s: float | None = 0.0
    """The longest time until all views were true again; None = once they never were."""

    def add(self, violations: int, converged_s: float | None) -> None:
        """Add one fault."""
        self.runs += 1
        self.violations += violations
        if converged_s is None or self.worst_s is None:
            self.worst_s = None
        else:
            self.worst_s = round(max(self.worst_s, converged_s), 1)


class Tally(msgspec.Struct):
    """All that was counted."""

    minutes: dict[str, float] = {}
    """By store: how long it ran."""

    faults: dict[str, dict[str, Count]] = {}
    """By kind of fault, by store."""

    rules: dict[str, list[int]] = {}
    """By the letter of a rule: how often it was checked, and how often it was violated."""

    def add(self, checked: Checked) -> None:
        """Add one run on one store."""
        told, report, minutes = checked
        self.minutes[told.deployment] = round(self.minutes.get(told.deployment, 0.0) + minutes, 1)
        violated = _violated_at(report)
        for number, outcome in enumerate(told.outcomes):
            following = told.outcomes[number + 1 :]
            end_us = following[0].began_us if following else 2**63
            count = sum(outcome.began_us <= at_us < end_us for at_us in violated)
            for kind in outcome.kinds:
                counts = self.faults.setdefault(kind, {}).setdefault(told.deployment, Count())
                counts.add(count, outcome.converged_s)
        for letter, verdict in report.verdicts.items():
            looked, found = self.rules.get(letter, [0, 0])
            self.rules[letter] = [looked + verdict.checked, found + len(verdict.violations)]


def _violated_at(report: Report) -> list[int]:
    """Return when violations were seen: of each, the time of its last event."""
    return [
        violation.events[-1].at_us
        for verdict in report.verdicts.values()
        for violation in verdict.violations
        if violation.events
    ]


def add_to_ledger(page: Path, found: Sequence[Checked]) -> None:
    """Add runs to the tally, and write the page anew."""
    with TALLY.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # runs on several stores at the same time
        tally = msgspec.json.decode(file.read(), type=Tally)
        for one in found:
            tally.add(one)
        file.seek(0)
        file.truncate()
        file.write(msgspec.json.format(msgspec.json.encode(tally, order="sorted"), indent=1) + b"\n")
        page.write_text("\n".join(page_of(tally)) + "\n", encoding="utf-8")


def read_tally() -> Tally:
    """Return what was counted so far."""
    return msgspec.json.decode(TALLY.read_bytes(), type=Tally)


def page_of(tally: Tally) -> Iterator[str]:
    """Yield the lines of the ledger."""
    yield PREFACE.read_text(encoding="utf-8").rstrip()
    yield from ("", "## Faults by store", "")
    total = sum(tally.minutes.values())
    on = ", ".join(f"{store} {minutes:.0f}" for store, minutes in sorted(tally.minutes.items()))
    yield f"{total:.0f} minutes of faults: {on}. Each cell: runs, violations, and the longest time in seconds"
    yield "until every view was true again. Where two faults came together, the run counts for both."
    yield ""
    yield _row(["fault", "what happens", *STORES])
    yield _row(["---"] * (2 + len(STORES)))
    for name, kind in KINDS.items():
        counts = tally.faults.get(name, {})
        yield _row([f"`{name}`", kind.meaning, *(_cell(counts.get(store)) for store in STORES)])
    yield from ("", "## Rules", "", _row(["rule", "promise", "checked", "violations"]), _row(["---"] * 4))
    for rule in RULES:
        checked, violations = tally.rules.get(rule.letter, [0, 0])
        yield _row([rule.letter, rule.promise, f"{checked:,}", f"{violations:,}"])
    yield from ("", "## Bugs that were found", "")
    yield from _bugs(tomllib.loads(BUGS.read_text(encoding="utf-8"))["bug"])


def _bugs(bugs: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield _row(["what was wrong", "found by", "shown by"])
    yield _row(["---"] * 3)
    for bug in bugs:
        yield _row([bug["wrong"], bug["found_by"], f"`{bug['command']}`"])


def _cell(count: Count | None) -> str:
    if count is None:
        return ""
    worst = "never" if count.worst_s is None else f"{count.worst_s:.1f}"
    return f"{count.runs} · {count.violations} · {worst}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
