"""The ledger says what was counted, and stands in docs/ as it is written."""

from __future__ import annotations

from pathlib import Path

from tests.faults.checker.past import Verdict, Violation
from tests.faults.checker.report import RULES, Report
from tests.faults.checker.story import Story
from tests.faults.matrix.ledger import Checked, Tally, page_of, read_tally
from tests.faults.matrix.run import Outcome, Told

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"


def test_the_page_is_what_the_tally_and_the_bugs_make() -> None:
    assert PAGE.read_text(encoding="utf-8") == "\n".join(page_of(read_tally())) + "\n"


def test_runs_violations_and_the_worst_convergence_are_summed_up_by_fault_and_store() -> None:
    story = Story()
    story.begin()
    shown = story.events[-1]
    verdicts = {rule.letter: Verdict(checked=5) for rule in RULES}
    verdicts["d"].violations.append(Violation("of a test", (shown,)))
    outcomes = [
        Outcome(("flushall",), shown.at_us - 1, 1.24),
        Outcome(("cut", "flushall"), shown.at_us + 1, 3.06),
    ]
    tally = Tally()
    for _ in range(2):
        tally.add(Checked(Told("aof", Path(), outcomes), Report(verdicts, []), 1.5))
    lines = [*page_of(tally)]
    row = next(line for line in lines if line.startswith("| `flushall`"))
    assert "| 4 · 2 · 3.1 |" in row
    assert "| 2 · 0 · 3.1 |" in next(line for line in lines if line.startswith("| `cut`"))
    assert any("3 minutes of faults: aof 3" in line for line in lines)
    assert any(line.startswith("| d |") and line.endswith("| 10 | 2 |") for line in lines)


def test_what_never_converged_is_said_to_be_so() -> None:
    tally = Tally()
    for converged_s in (1.0, None, 2.0):
        outcome = Outcome(("cut",), 1, converged_s)
        tally.add(Checked(Told("aof", Path(), [outcome]), Report({}, []), 1.0))
    assert "| 3 · 0 · never |" in next(line for line in page_of(tally) if line.startswith("| `cut`"))
