"""What the ingest has published, and where a run begins: also when its checkpoint is gone."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, TypeAlias

import orjson

from ..errors import BadOption, PipelineError
from .files import HadoopFiles, parsing
from .layout import JOURNAL, TABLES, BatchName, day_of, folder_value, join

_SUFFIX: Final = ".json"
_FORMAT: Final = 1
"""The form of what is kept: a release that changes it so that older ones would misread it counts it up."""
_MARK: Final = "_sharedroutes.json"
_COMMITS: Final = "commits"
_OFFSETS: Final = "offsets"
_LOG: Final = logging.getLogger(__name__)

Parts: TypeAlias = Sequence[tuple[str, str, list[str]]]
"""Table, day, and the names of its files: an object store may have moved only some of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A batch that is published, or is about to be."""

    name: BatchName
    positions: Mapping[str, str]
    """By registry: id of the last change of it, in this batch or before; empty = none yet."""

    newest_ms: int
    """The latest `ms` of any change so far."""

    parts: Parts = field(default=(), compare=False)
    """What was staged of it."""

    @property
    def newest_day(self) -> str:
        """The day of the newest change."""
        return day_of(self.newest_ms)

    def to_json(self) -> str:
        """Return the text of it."""
        fields = {"batch": str(self.name), "positions": dict(self.positions), "newest_ms": self.newest_ms}
        return orjson.dumps({"format": _FORMAT, **fields, "files": self.parts}).decode()

    @classmethod
    def read(cls, files: HadoopFiles, path: str) -> Self:
        """Return the entry that stands in a file; raises PipelineError."""
        text = files.read(path)
        with parsing(f"{path} is no entry of the ingest's journal: restore it, or use another out"):
            fields = orjson.loads(text)
            written = int(fields.get("format", _FORMAT))
            if written > _FORMAT:
                raise PipelineError(
                    f"{path} is of a newer sharedroutes (format {written}, known is {_FORMAT}): "
                    "upgrade this one; nothing was changed"
                )
            name = BatchName.parse(fields["batch"])
            if name is None:
                raise ValueError(fields["batch"])
            return cls(
                name=name,
                positions=_texts(fields["positions"]),
                newest_ms=int(fields["newest_ms"]),
                parts=[
                    (str(table), str(day), list(map(str, names)))
                    for table, day, names in fields.get("files", ())
                ],
            )


def entry_path(out: str, name: BatchName) -> str:
    """Return the file of a batch's entry."""
    return join(out, JOURNAL, f"{name}{_SUFFIX}")


def newest_entry(files: HadoopFiles, out: str) -> Entry | None:
    """Return the entry of the newest batch; None when nothing was ever published. Raises PipelineError."""
    names = _names(files, out)
    if not names:
        return None
    return Entry.read(files, entry_path(out, names[-1]))


def kept(files: HadoopFiles, out: str) -> Entry:
    """Return the same; raises BadOption where nothing was."""
    newest = newest_entry(files, out)
    if newest is None:
        raise nothing_kept(out)
    return newest


def nothing_kept(out: str) -> BadOption:
    """Return the error that a folder is none of an ingest's."""
    what = f"{out} holds nothing that was ingested: name the folder of an ingest"
    return BadOption(what, option="out", what=what)


def prune(files: HadoopFiles, out: str) -> None:
    """Delete all entries but the newest, which holds all that is needed."""
    for name in _names(files, out)[:-1]:
        files.delete(entry_path(out, name))


def _names(files: HadoopFiles, out: str) -> list[BatchName]:
    found = (BatchName.parse(name.removesuffix(_SUFFIX)) for name in files.names(join(out, JOURNAL)))
    return sorted(name for name in found if name is not None)


def begin(files: HadoopFiles, out: str, checkpoint: str) -> int:
    """Return which checkpoint below this `out` a run goes on with, or begins: its generation, from 1 on.

    Raises PipelineError when checkpoint and output do not belong together. A checkpoint that is gone is begun
    anew after the newest batch that was published: no change comes twice.
    """
    newest = newest_entry(files, out)
    if newest is None and any(folder_value(files.names(join(out, table)), "day") for table in TABLES):
        raise PipelineError(
            f"{out} holds changes, but its _ingest, which says how far they go, is gone: "
            "restore it, or use another out"
        )
    mark = join(checkpoint, _MARK)
    if files.exists(mark):
        return _resumed(files, checkpoint, mark, newest)
    if files.names(checkpoint):
        raise PipelineError(f"{checkpoint} holds something else than a checkpoint of an ingest: use another")
    generation = 1
    if newest is not None:
        _LOG.warning("the checkpoint is gone: going on after %s", dict(newest.positions))
        generation = newest.name.generation + 1
    files.write(mark, orjson.dumps({"generation": generation}).decode())
    return generation


def check_registries(files: HadoopFiles, out: str, names: Iterable[str]) -> None:
    """Raise PipelineError when `out` keeps the history of other registries than those that are read now."""
    newest, read = newest_entry(files, out), sorted(names)
    kept = sorted(newest.positions) if newest is not None else []
    if kept and not {*kept} & {*read}:
        raise PipelineError(
            f"{out} keeps the history of {', '.join(kept)}, and not of {', '.join(read)}: use another out, "
            "or name all of them in registries; nothing was changed"
        )


def _resumed(files: HadoopFiles, checkpoint: str, mark: str, newest: Entry | None) -> int:
    text = files.read(mark)
    with parsing(f"{mark} is no mark of an ingest: delete this checkpoint"):
        generation = int(orjson.loads(text)["generation"])
    if newest is None and files.names(join(checkpoint, _COMMITS)):
        raise PipelineError(
            f"{checkpoint} is the checkpoint of an ingest whose output is gone, or is another one: "
            "delete it too to begin anew, or name the right out"
        )
    if newest is not None and generation < newest.name.generation:
        raise PipelineError(
            f"{checkpoint} is older than what is published: "
            "delete it, and the ingest goes on after what is published"
        )
    return generation


def positions_of(files: HadoopFiles, checkpoint: str, number: int) -> dict[str, str]:
    """Return how far a batch goes in each registry, as Spark notes it; raises PipelineError."""
    offset = files.read(join(checkpoint, _OFFSETS, str(number))).rstrip().rpartition("\n")[2]
    with parsing(f"Spark's checkpoint holds the offset {offset[:80]!r}, which is none"):
        return _texts(orjson.loads(offset))


def _texts(found: Mapping[object, object]) -> dict[str, str]:
    return {str(name): str(value) for name, value in found.items()}


def starting_position(positions: Mapping[str, str], registries: Iterable[str]) -> str | None:
    """Return the option of the source that lets a new checkpoint begin there; None = as it is configured."""
    of_those = {name: positions[name] for name in registries if name in positions}
    return orjson.dumps(of_those).decode() if of_those else None
