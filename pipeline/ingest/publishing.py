"""Publishes a batch that was staged: all of it, once, wherever a kill stops it.

A batch is written below `_staging`, where no reader looks. Its last file, `_ready`, is the journal's entry:
without it the next start deletes what is staged, with it the next start goes on where this one stopped.
"""

from __future__ import annotations

import secrets

from ..errors import PipelineError
from .files import Files
from .journal import Entry, entry_path, prune
from .layout import (
    READY,
    STAGED_BATCHES,
    TABLE_FOLDERS,
    BatchName,
    batch_folder,
    day_folder,
    folder_value,
    join,
)

__all__ = ["publish", "recover", "staging_folder"]


def staging_folder(out: str, name: BatchName) -> str:
    """Return a new folder to stage a batch in: a killed job that still runs does not know it."""
    return join(out, STAGED_BATCHES, f"{name}-{secrets.token_hex(4)}")


def publish(files: Files, out: str, staged: str, entry: Entry) -> None:
    """Make a batch that is completely staged visible, and note it in the journal."""
    files.write(join(staged, READY), entry.to_json())
    _finish(files, out, staged, entry)


def recover(files: Files, out: str) -> None:
    """Publish what a job that was killed had ready, and delete what it had not; raises PipelineError."""
    for name in files.names(join(out, STAGED_BATCHES)):
        staged = join(out, STAGED_BATCHES, name)
        ready = join(staged, READY)
        if files.exists(ready):
            _finish(files, out, staged, Entry.from_json(ready, files.read(ready)))
        else:
            files.delete(staged)
    prune(files, out)


def _finish(files: Files, out: str, staged: str, entry: Entry) -> None:
    for table in TABLE_FOLDERS:
        for day in folder_value(files.names(join(staged, table)), "day"):
            target = batch_folder(out, table, day, str(entry.name))
            files.delete(target)  # of the same batch, when its entry was lost
            _move(files, day_folder(staged, table, day), target)
    files.rename(join(staged, READY), entry_path(out, entry.name))
    files.delete(staged)
    prune(files, out)


def _move(files: Files, source: str, target: str) -> None:
    """Move a folder; a compaction may take the folder of the day away at the same time, but only once."""
    try:
        files.rename(source, target)
    except PipelineError:
        files.rename(source, target)
