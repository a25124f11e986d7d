"""Where the ingest keeps what: the folders below `out`, the names of batches, and days."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Final, NamedTuple, Self

from ..schemas import QUARANTINE, STORED_CHANGES

CHANGES_FOLDER: Final = "changes"
QUARANTINE_FOLDER: Final = "quarantine"
TABLES: Final = {CHANGES_FOLDER: STORED_CHANGES, QUARANTINE_FOLDER: QUARANTINE}
"""What is kept, by its folder."""

# Readers that list files pass over names that begin with `_`; besides, these stand outside of the tables.
CHECKPOINT: Final = "_checkpoint"
JOURNAL: Final = "_ingest"
LOCKS: Final = "_locks"
STAGED_BATCHES: Final = "_staging/batches"
STAGED_SWAPS: Final = "_staging/swaps"
READY: Final = "_ready"
"""What is staged with this file is complete, and is published by whoever finds it."""

MAX_DAY_MS: Final = 253_402_300_799_999
"""The last ms of the year 9999: later ids, which no clock gives, stand in its last day."""

A_DAY_MS: Final = 86_400_000
_DAY: Final = "day="
_BATCH: Final = "batch="
_COMPACTED: Final = "compacted-"
_NAME: Final = re.compile(r"([0-9]{4,})-([0-9]{12,})")


class BatchName(NamedTuple):
    """What a batch is called: names sort as the batches were written, and none comes back."""

    generation: int
    """Which checkpoint it belongs to: 1 is the first below its `out`."""

    number: int
    """Spark's number of the batch, from 0 on."""

    def __str__(self) -> str:
        return f"{self.generation:04d}-{self.number:012d}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the name that a text is, or None."""
        match = _NAME.fullmatch(text)
        return cls(int(match[1]), int(match[2])) if match else None


def compacted_name(names: Iterable[str]) -> str:
    """Return the name of what compacts some batches: by the newest of them, which may be a compacted one."""
    newest = max(names, key=lambda name: name.removeprefix(_COMPACTED))
    return newest if is_compacted(newest) else f"{_COMPACTED}{newest}"


def is_compacted(name: str) -> bool:
    """Whether a batch was written by a compaction."""
    return name.startswith(_COMPACTED)


def day_of(ms: int) -> str:
    """Return the UTC day of a time in ms since 1970, YYYY-MM-DD."""
    since_1970 = min(ms, MAX_DAY_MS) // A_DAY_MS
    return date.fromordinal(date(1970, 1, 1).toordinal() + since_1970).isoformat()


def join(*parts: str) -> str:
    """Return a path below a folder, which may be a URL."""
    return "/".join((parts[0].rstrip("/"), *parts[1:]))


def day_folder(out: str, table: str, day: str) -> str:
    """Return the folder of a day."""
    return join(out, table, f"{_DAY}{day}")


def batch_folder(out: str, table: str, day: str, batch: str) -> str:
    """Return the folder of what a batch brought of a day."""
    return join(day_folder(out, table, day), f"{_BATCH}{batch}")


def folder_value(names: Iterable[str], column: str) -> list[str]:
    """Return the values of a column, `day` or `batch`, of which there are folders, sorted."""
    prefix = f"{column}="
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))
