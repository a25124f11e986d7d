"""Values of the page as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from ...registry.wording import some
from .model import Cell

_LONGEST: Final = 300
_LISTED: Final = 4
_UNITS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
_EXACT_S: Final = 10
_SINCE_1970: Final = (0, 253_402_300_799_999)
"""What a date can be made of, in ms."""


def cut(text: str) -> str:
    """Return a text, without its end if it is long."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def length(seconds: float) -> str:
    """Return a length of time, such as `2 h 5 min`."""
    for size, unit, part, part_unit in _UNITS:
        if seconds >= size:
            parts = int(seconds % size // part)
            return f"{int(seconds // size)} {unit}" + (f" {parts} {part_unit}" if parts else "")
    return f"{seconds:.1f} s" if seconds < _EXACT_S and seconds % 1 else f"{seconds:.0f} s"


def ago(at_ms: int, now_ms: int) -> Cell:
    """Return how long ago something was, and when exactly."""
    first_ms, last_ms = _SINCE_1970
    if not first_ms <= at_ms <= last_ms:
        return Cell("at no time", more=str(at_ms))
    exact = datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Cell(f"{length(max(0, now_ms - at_ms) // 1_000)} ago", more=exact)


def names(found: Sequence[str]) -> Cell:
    """Return the first names, and how many more there are."""
    every = cut(", ".join(found)) if len(found) > _LISTED else ""
    return Cell(some(found, _LISTED, cut=cut), more=every)


def number(value: float) -> Cell:
    """Return a number."""
    return Cell(f"{value:,.0f}", is_number=True)
