"""What a check finds: how bad it is, what, why it matters, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MOST_NAMES: Final = 5
"""That a finding tells."""


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    SKIPPED = "skipped"
    """Could not be looked at, or was not to be."""

    WARNING = "warning"
    """Works now, but not under a load or a fault that must be expected; or somebody wanted it so."""

    ERROR = "error"
    """Does not work, or loses data."""

    @property
    def status(self) -> int:
        """The exit status, as monitoring plugins have it."""
        return {Level.WARNING: 1, Level.ERROR: 2}.get(self, 0)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, why it matters, and what to do; the last two are empty if it is well."""

    check: str
    """A short name for what was looked at, always the same: `eviction`, `wiped`, `agent`, ..."""

    level: Level
    what: str
    why: str = ""
    advice: str = ""


def fine(check: str, what: str) -> Finding:
    """Return the finding that something is in order."""
    return Finding(check, Level.OK, what)


def unknown(check: str, why: str) -> Finding:
    """Return the finding that something could not be looked at."""
    return Finding(check, Level.SKIPPED, f"not looked at: {why}")
