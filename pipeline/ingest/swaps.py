"""Puts one folder in the place of many of a day, wherever a kill stops it.

The new folder is written below `_staging`; its mark `_ready` says what it replaces. Then the day's folder
moves out and the new one in: two steps, between which a reader misses the day, and never sees a row twice.
What was published into the day meanwhile moves back beside it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Final, Self

import orjson

from .files import HadoopFiles, complete_below, parsing, place
from .layout import READY, STAGED_SWAPS, batch_folder, day_folder, folder_value, join

NEW: Final = "new"
"""Where, in what is staged, the new folder is written."""

_OLD: Final = "old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """Which batches of a day are replaced by which."""

    table: str
    day: str
    batch: str
    """The new one."""

    replaced: frozenset[str]

    files: tuple[str, ...] = ()
    """Of the new one."""

    def to_json(self) -> str:
        """Return the text of it."""
        return orjson.dumps(self, default=list).decode()

    @classmethod
    def read(cls, files: HadoopFiles, path: str) -> Self:
        """Return the swap that stands in a file; raises PipelineError."""
        text = files.read(path)
        with parsing(f"{path} does not say which batches are replaced"):
            fields = orjson.loads(text)
            table, day, batch = (str(fields[name]) for name in ("table", "day", "batch"))
            replaced = frozenset(map(str, fields["replaced"]))
            staged = tuple(map(str, fields.get("files", ())))
            return cls(table=table, day=day, batch=batch, replaced=replaced, files=staged)


def staged_swap(out: str) -> str:
    """Return a new folder to stage a swap in."""
    return join(out, STAGED_SWAPS, secrets.token_hex(8))


def swap_in(files: HadoopFiles, out: str, staged: str, swap: Swap) -> None:
    """Make the new folder visible, and what it replaces not."""
    swap = replace(swap, files=tuple(files.names(join(staged, NEW))))
    files.still_alone()
    files.write(join(staged, READY), swap.to_json())
    _finish(files, out, staged, swap)


def recover_swaps(files: HadoopFiles, out: str) -> None:
    """Finish the swaps that were ready when a compaction was killed, and delete the others."""
    for staged, ready in complete_below(files, join(out, STAGED_SWAPS)):
        _finish(files, out, staged, Swap.read(files, ready))


def drop_day(files: HadoopFiles, out: str, table: str, day: str) -> None:
    """Delete a day: in one step for a reader."""
    staged = staged_swap(out)
    files.rename(day_folder(out, table, day), join(staged, _OLD))
    files.delete(staged)


def _finish(files: HadoopFiles, out: str, staged: str, swap: Swap) -> None:
    day, new, old = day_folder(out, swap.table, swap.day), join(staged, NEW), join(staged, _OLD)
    if files.exists(new):
        if not files.exists(old):
            files.rename(day, old)
        for batch in folder_value(files.names(day), "batch"):
            if batch in swap.replaced - {swap.batch}:  # an object store had not moved it out yet
                files.delete(batch_folder(out, swap.table, swap.day, batch))
        target = batch_folder(out, swap.table, swap.day, swap.batch)
        place(files, new, target, swap.files)
    for batch in folder_value(files.names(old), "batch"):
        if batch not in swap.replaced:  # it came into the day after the compaction had listed it
            source, target = join(old, f"batch={batch}"), batch_folder(out, swap.table, swap.day, batch)
            place(files, source, target, [*files.names(source), *files.names(target)])
    files.delete(staged)
