"""What settings of a simulation may be: each check raises BadOption with the name of the setting."""

from __future__ import annotations

import math
from typing import Final

from sharedroutes.pipeline.errors import BadOption

__all__ = ["check_count", "check_number", "check_share"]

_A_YEAR_S: Final = 366 * 86_400.0


def check_count(what: str, value: object, low: int, high: int) -> None:
    """Raise BadOption unless `value` is a whole number within low..high."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _bad(what, f"expected a whole number, got {value!r}")
    if not low <= value <= high:
        raise _bad(what, f"{value} is not within {low}..{high}")


def check_number(what: str, value: object, low: float, high: float = _A_YEAR_S) -> None:
    """Raise BadOption unless `value` is a finite number within low..high."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise _bad(what, f"expected a number, got {value!r}")
    if not low <= value <= high:
        raise _bad(what, f"{value} is not within {low:g}..{high:g}")


def check_share(what: str, value: object) -> None:
    """Raise BadOption unless `value` is a share within 0..1."""
    check_number(what, value, 0, 1)


def _bad(setting: str, what: str) -> BadOption:
    return BadOption(f"{setting}: {what}", option=setting, what=what)
