"""Outcomes as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from .figures import Figure, Outcome
from .machine import Machine

_HEAD: Final = ("measured", "median", "min - max", "unit", "target", "")
_GAP: Final = "  "
_VERDICTS: Final = {None: "", True: "met", False: "NOT MET"}


def render(name: str, question: str, outcome: Outcome) -> str:
    """Return one benchmark's question, table and notes."""
    rows = [_HEAD, *(_row(figure) for figure in outcome.figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    table = [_line(row, widths) for row in rows]
    table.insert(1, "-" * max(len(line) for line in table))
    return "\n".join([f"{name}: {question}", *table, *(f"note: {note}" for note in outcome.notes)])


def to_json(machine: Machine, outcomes: Mapping[str, tuple[str, Outcome]]) -> str:
    """Return everything that was measured, with all rounds; `outcomes` = name to question and outcome."""
    document = {
        "machine": asdict(machine),
        "benchmarks": [
            {
                "name": name,
                "question": question,
                "met": outcome.met,
                "figures": [_fields(figure) for figure in outcome.figures],
                "notes": list(outcome.notes),
            }
            for name, (question, outcome) in outcomes.items()
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _row(figure: Figure) -> tuple[str, ...]:
    spread = f"{_number(figure.low)} - {_number(figure.high)}" if len(figure.rounds) > 1 else ""
    target = "" if figure.target is None else str(figure.target)
    return (figure.name, _number(figure.median), spread, figure.unit, target, _VERDICTS[figure.met])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(_cells(row, widths)).rstrip()


def _cells(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if column in (1, 2) else cell.ljust(width)


def _number(value: float) -> str:
    """Return three significant digits, and all digits before the point."""
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{decimals}f}"


def _fields(figure: Figure) -> dict[str, Any]:
    target = figure.target
    return {
        "name": figure.name,
        "unit": figure.unit,
        "median": figure.median,
        "min": figure.low,
        "max": figure.high,
        "rounds": list(figure.rounds),
        "target": None if target is None else {"bound": target.bound.value, "limit": target.limit},
        "met": figure.met,
    }
