"""Moves folders so that a move that was killed half-way can be finished.

Renaming a folder is one step on a local disk and on HDFS. An object store copies and deletes file by file:
what a kill leaves there is in two places, or some of it here and some there.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import PipelineError
from .files import Files
from .layout import join

__all__ = ["merge", "place"]


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
    for name in sorted(wanted - found):
        files.rename(join(source, name), join(target, name))


def merge(files: Files, source: str, target: str) -> None:
    """Move a folder to where a part of it may be already."""
    found = set(files.names(target))
    if not found:
        files.delete(target)  # an empty one: Hadoop would move the folder into it
        _move(files, source, target)
        return
    for name in files.names(source):
        if name in found:
            files.delete(join(source, name))
        else:
            files.rename(join(source, name), join(target, name))


def _move(files: Files, source: str, target: str) -> None:
    """Move a folder; a compaction may take the folder of the day away at the same time, but only once."""
    try:
        files.rename(source, target)
    except PipelineError:
        files.rename(source, target)
