"""What the ingest has published: the newest batch, how far it goes, and how a new checkpoint goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import orjson

from ..errors import PipelineError
from .files import Files
from .layout import JOURNAL, BatchName, day_of, join

_SUFFIX: Final = ".json"
_FORMAT: Final = 1
"""The form of what is kept: a release that changes it so that older ones would misread it counts it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A batch that is published, or is about to be."""

    name: BatchName
    positions: Mapping[str, str]
    """By registry: id of the last change of it, in this batch or before; empty = none yet."""

    newest_ms: int
    """The latest `ms` of any change so far."""

    @property
    def newest_day(self) -> str:
        """The day of the newest change."""
        return day_of(self.newest_ms)

    def to_json(self) -> str:
        """Return the text of it."""
        fields = {"batch": str(self.name), "positions": dict(self.positions), "newest_ms": self.newest_ms}
        return orjson.dumps({"format": _FORMAT, **fields}).decode()

    @classmethod
    def from_json(cls, path: str, text: str) -> Self:
        """Return the entry that stands in a file; raises PipelineError."""
        try:
            fields = orjson.loads(text)
            written = int(fields.get("format", _FORMAT))
            if written > _FORMAT:
                raise PipelineError(
                    f"{path} is of a newer sharedroutes (format {written}, known is {_FORMAT}): "
                    "upgrade this one; nothing was changed"
                )
            name = BatchName.parse(fields["batch"])
            positions = {str(registry): str(at) for registry, at in fields["positions"].items()}
            newest_ms = int(fields["newest_ms"])
        except (ValueError, KeyError, TypeError, AttributeError):
            name = None
        if name is None:
            raise PipelineError(f"{path} is no entry of the ingest's journal: restore it, or use another out")
        return cls(name=name, positions=positions, newest_ms=newest_ms)


def entry_path(out: str, name: BatchName) -> str:
    """Return the file of a batch's entry."""
    return join(out, JOURNAL, f"{name}{_SUFFIX}")


def newest_entry(files: Files, out: str) -> Entry | None:
    """Return the entry of the newest batch; None when nothing was ever published. Raises PipelineError."""
    names = _names(files, out)
    if not names:
        return None
    path = entry_path(out, names[-1])
    return Entry.from_json(path, files.read(path))


def prune(files: Files, out: str) -> None:
    """Delete all entries but the newest, which holds all that is needed."""
    for name in _names(files, out)[:-1]:
        files.delete(entry_path(out, name))


def _names(files: Files, out: str) -> list[BatchName]:
    found = (BatchName.parse(name.removesuffix(_SUFFIX)) for name in files.names(join(out, JOURNAL)))
    return sorted(name for name in found if name is not None)
