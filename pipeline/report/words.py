"""Values as people read them: one form for times, one for lengths, one for shares, one for numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from math import floor, log10
from typing import Any, Final, NamedTuple

from ...registry.wording import some
from ..tables import Column, Unit

_LISTED: Final = 4
_MS: Final = {Unit.MS: 1, Unit.S: 1_000, Unit.MIN: 60_000}
_STEPS: Final = (
    (86_400_000, "d", 3_600_000, "h"),
    (3_600_000, "h", 60_000, "min"),
    (60_000, "min", 1_000, "s"),
)
_SECOND_MS: Final = 1_000
_WHOLE: Final = 100
_NEARLY: Final = 99
_MOST_DIGITS: Final = 6
_ROUNDING: Final = 1e-6


class Cell(NamedTuple):
    """A value as people read it; `more` is what they read when they point at it."""

    text: str
    is_number: bool = False
    more: str = ""


def cell(column: Column, value: Any) -> Cell:
    """Return a value of a column."""
    if value is None:
        return Cell("")
    unit = column.unit
    if unit is Unit.TIME:
        value = value.timestamp() * _SECOND_MS if isinstance(value, datetime) else value
        return Cell(time_text(value), more=f"{exact_time(value)} UTC")
    if unit in _MS:
        ms = value * _MS[unit]
        return Cell(length_text(ms), is_number=True, more=f"{ms:,.3f}".rstrip("0").rstrip(".") + " ms")
    if unit is Unit.SHARE:
        return Cell(share_text(value), is_number=True, more=f"{_WHOLE * value:.9g} %")
    if unit is Unit.NUMBER:
        return Cell(number_text(value), is_number=True)
    return _text(value)


def _text(value: Any) -> Cell:
    match value:
        case bool():
            return Cell("yes" if value else "no")
        case list():
            return Cell(some(value, _LISTED), more=", ".join(value))
    return Cell(str(value))


def time_text(at_ms: float) -> str:
    """Return a time in ms since 1970 as `2026-11-21 21:20:00` in UTC."""
    return f"{datetime.fromtimestamp(at_ms // _SECOND_MS, UTC):%Y-%m-%d %H:%M:%S}"


def exact_time(at_ms: float) -> str:
    """Return the same with its ms."""
    return f"{time_text(at_ms)}.{int(at_ms % _SECOND_MS):03d}"


def length_text(ms: float) -> str:
    """Return how long something lasted, in its two largest units: `9.9 s`, `3 min 20 s`, `2 h 5 min`."""
    if ms < 0:
        return f"-{length_text(-ms)}"
    for unit_ms, unit, part_ms, part in _STEPS:
        if ms >= unit_ms - part_ms / 2:
            parts = round(ms / part_ms)
            whole, rest = divmod(parts, unit_ms // part_ms)
            return f"{whole:,} {unit} {rest} {part}" if rest else f"{whole:,} {unit}"
    if round(ms) >= _SECOND_MS:
        return f"{ms / _SECOND_MS:.3g} s"
    return "0 s" if ms == 0 else f"{ms:.3g} ms"


def share_text(share: float) -> str:
    """Return a share in per cent, with so many digits that it is told from all of them."""
    percent = _WHOLE * share
    missing = _WHOLE - percent
    if missing <= 0 or percent == 0:
        return f"{percent:,.0f} %"
    if percent < _NEARLY:
        return f"{percent:.3g} %"
    digits = min(_MOST_DIGITS, 1 - floor(log10(missing)))
    scale = 10**digits
    return f"{floor(percent * scale + _ROUNDING) / scale:.{digits}f}".rstrip("0").rstrip(".") + " %"


def number_text(value: float) -> str:
    """Return a number with at most three digits behind those that count: `1,234`, `12.5`, `0.0333`."""
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"


def names_text(names: list[str], total: int) -> str:
    """Return the first of some names."""
    shown = ", ".join(names[:_LISTED])
    return f"{shown} and {total - _LISTED:,} more" if total > _LISTED else shown
