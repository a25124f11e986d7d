"""Moves folders so that a move that was killed half-way can be finished.

Renaming a folder is one step on a local disk and on HDFS. An object store copies and deletes file by file:
what a kill leaves there is in two places, or some of it here and some there.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import PipelineError
from .files import Files
from .layout import join


def place(files: Files, source: str, target: str, names: Iterable[str]) -> None:
    """Have these files in a folder, and no others; what is not there yet is in `source`."""
    wanted = set(names)
    if not files.exists(source):
        return  # all of it was moved before, and a compaction may have taken it further
    found = set(files.names(target))
    if not found & wanted:
        files.delete(target)  # of the same batch, when its entry was lost
        _move(files, source, target)
        return
    for name in sorted(found - wanted):
        files.delete(join(target, name))
    _move_files(files, source, target, found)


def merge(files: Files, source: str, target: str) -> None:
    """Move a folder to where a part of it may be already."""
    found = set(files.names(target))
    if not found:
        files.delete(target)  # an empty one: Hadoop would move the folder into it
        _move(files, source, target)
        return
    _move_files(files, source, target, found)


def _move_files(files: Files, source: str, target: str, found: set[str]) -> None:
    """Move the files of a folder to where some are `found`.

    Of one that is on both sides, one may be a copy that was cut short: the longer one stays.
    """
    for name in files.names(source):
        here, there = join(source, name), join(target, name)
        if name in found and files.size(there) >= files.size(here):
            files.delete(here)
            continue
        if name in found:
            files.delete(there)
        files.rename(here, there)


def _move(files: Files, source: str, target: str) -> None:
    """Move a folder; a compaction may take the folder of the day away at the same time, but only once."""
    try:
        files.rename(source, target)
    except PipelineError:
        files.rename(source, target)
