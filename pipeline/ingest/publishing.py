"""Publishes a batch that was staged: all of it, once, wherever a kill stops it.

A batch is written below `_staging`, where no reader looks. Its last file, `_ready`, is the journal's entry:
without it the next start deletes what is staged, with it the next start goes on where this one stopped.
"""

from __future__ import annotations

import secrets
from typing import Final, TypeAlias

import orjson

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
from .moving import place

_FILES: Final = "files"
_Parts: TypeAlias = list[tuple[str, str, list[str]]]
"""Table, day, and the names of its files: an object store may have moved only some of them."""


def staging_folder(out: str, name: BatchName) -> str:
    """Return a new folder to stage a batch in: a killed job that still runs does not know it."""
    return join(out, STAGED_BATCHES, f"{name}-{secrets.token_hex(4)}")


def publish(files: Files, out: str, staged: str, entry: Entry) -> None:
    """Make a batch that is completely staged visible, and note it in the journal."""
    parts = _parts(files, staged)
    mark = orjson.loads(entry.to_json()) | {_FILES: parts}
    files.write(join(staged, READY), orjson.dumps(mark).decode())
    _finish(files, out, staged, entry, parts)


def recover(files: Files, out: str) -> None:
    """Publish what a job that was killed had ready, and delete what it had not; raises PipelineError."""
    for name in files.names(join(out, STAGED_BATCHES)):
        staged = join(out, STAGED_BATCHES, name)
        ready = join(staged, READY)
        if files.exists(ready):
            text = files.read(ready)
            entry = Entry.from_json(ready, text)
            _finish(files, out, staged, entry, _parts_of(ready, text) or _parts(files, staged))
        else:
            files.delete(staged)
    prune(files, out)


def _finish(files: Files, out: str, staged: str, entry: Entry, parts: _Parts) -> None:
    for table, day, names in parts:
        place(files, day_folder(staged, table, day), batch_folder(out, table, day, str(entry.name)), names)
    ready, noted = join(staged, READY), entry_path(out, entry.name)
    if files.exists(noted):  # an object store had copied it, and not yet deleted it here
        files.delete(ready)
    else:
        files.rename(ready, noted)
    files.delete(staged)
    prune(files, out)


def _parts(files: Files, staged: str) -> _Parts:
    """Return what is staged."""
    return [
        (table, day, files.names(day_folder(staged, table, day)))
        for table in TABLE_FOLDERS
        for day in folder_value(files.names(join(staged, table)), "day")
    ]


def _parts_of(path: str, text: str) -> _Parts:
    """Return what a mark says was staged; empty = it is of an older release, which did not say it."""
    try:
        return [
            (str(table), str(day), [str(name) for name in names])
            for table, day, names in orjson.loads(text).get(_FILES, ())
        ]
    except (ValueError, TypeError) as error:
        raise PipelineError(f"{path} does not say which files were staged: {error!r}") from None
