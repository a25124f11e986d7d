"""Where an ingest begins: at its checkpoint, or after what is published when the checkpoint is gone."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from ..errors import PipelineError
from .files import Files
from .journal import Entry, newest_entry
from .layout import TABLE_FOLDERS, folder_value, join

_MARK: Final = "_sharedroutes.json"
_COMMITS: Final = "commits"
_OFFSETS: Final = "offsets"
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """How a run begins."""

    generation: int
    """Which checkpoint below this `out` it is, counted from 1."""

    positions: Mapping[str, str]
    """After which id of each registry the checkpoint begins; empty = where the configuration says."""


def begin(files: Files, out: str, checkpoint: str) -> Start:
    """Return how to begin; raises PipelineError when checkpoint and output do not belong together.

    A checkpoint that is gone is begun anew after the newest batch that was published: no change comes twice.
    """
    newest = newest_entry(files, out)
    if newest is None and any(folder_value(files.names(join(out, table)), "day") for table in TABLE_FOLDERS):
        raise PipelineError(
            f"{out} holds changes, but its _ingest, which says how far they go, is gone: "
            "restore it, or use another out"
        )
    mark = join(checkpoint, _MARK)
    if files.exists(mark):
        return _resumed(files, checkpoint, _of_mark(mark, files.read(mark)), newest)
    if files.names(checkpoint):
        raise PipelineError(f"{checkpoint} holds something else than a checkpoint of an ingest: use another")
    return _anew(files, mark, newest)


def check_registries(files: Files, out: str, names: Iterable[str]) -> None:
    """Raise PipelineError when `out` keeps the history of other registries than those that are read now."""
    newest, read = newest_entry(files, out), sorted(names)
    kept = sorted(newest.positions) if newest is not None else []
    if kept and not {*kept} & {*read}:
        raise PipelineError(
            f"{out} keeps the history of {', '.join(kept)}, and not of {', '.join(read)}: use another out, "
            "or name all of them in registries; nothing was changed"
        )


def _resumed(files: Files, checkpoint: str, start: Start, newest: Entry | None) -> Start:
    if newest is None and files.names(join(checkpoint, _COMMITS)):
        raise PipelineError(
            f"{checkpoint} is the checkpoint of an ingest whose output is gone, or is another one: "
            "delete it too to begin anew, or name the right out"
        )
    if newest is not None and start.generation < newest.name.generation:
        raise PipelineError(
            f"{checkpoint} is older than what is published: "
            "delete it, and the ingest goes on after what is published"
        )
    return start


def _anew(files: Files, mark: str, newest: Entry | None) -> Start:
    start = Start(1, {})
    if newest is not None:
        _LOG.warning("the checkpoint is gone: going on after %s", dict(newest.positions))
        start = Start(newest.name.generation + 1, newest.positions)
    fields = {"generation": start.generation, "positions": dict(start.positions)}
    files.write(mark, orjson.dumps(fields).decode())
    return start


def _of_mark(path: str, text: str) -> Start:
    try:
        fields = orjson.loads(text)
        positions = {str(name): str(position) for name, position in fields["positions"].items()}
        return Start(int(fields["generation"]), positions)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PipelineError(f"{path} is no mark of an ingest: delete this checkpoint") from None


def offsets_of(checkpoint: str, number: int) -> str:
    """Return the file in which Spark notes how far a batch goes."""
    return join(checkpoint, _OFFSETS, str(number))


def positions_in(text: str) -> dict[str, str]:
    """Return the position of each registry in what Spark notes of a batch; raises PipelineError."""
    offset = text.rstrip().rpartition("\n")[2]
    try:
        return {str(name): str(position) for name, position in orjson.loads(offset).items()}
    except (ValueError, AttributeError):
        raise PipelineError(f"Spark's checkpoint holds the offset {offset[:80]!r}, which is none") from None


def starting_position(positions: Mapping[str, str], registries: Iterable[str]) -> str | None:
    """Return the option of the source that lets a new checkpoint begin there; None = as it is configured."""
    of_those = {name: positions[name] for name in registries if name in positions}
    return orjson.dumps(of_those).decode() if of_those else None
