"""Which files a path or a pattern names; what goes away while it is looked for is not there."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

_HIDDEN = ("_", ".")
"""What Spark and others hide begins with one of these."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The files that were found, in order, and the folders that cannot be looked into, with the reason."""

    files: list[Path] = field(default_factory=list)
    closed: dict[Path, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, suffixes: Collection[str]) -> Self:
        """List a file, whatever it is called, or what has one of the suffixes in a folder or a pattern."""
        listing = cls()
        if os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises where the folder is closed
            listing.files.append(Path(path))
            return listing
        # A pattern can be an absolute one, which Path.glob does not take; it can match folders, too.
        matches = [path] if os.path.isdir(path) else glob.iglob(path, recursive=True)  # noqa: PTH112, PTH207
        found = {file for match in matches for file in listing._below(Path(match))}
        listing.files.extend(
            sorted(file for file in found if file.suffix in suffixes and not file.name.startswith(_HIDDEN))
        )
        return listing

    def _below(self, match: Path) -> Iterator[Path]:
        if not os.path.isdir(match):  # noqa: PTH112 - as above
            if _is_there(match):
                yield match
            return
        for folder, folders, names in os.walk(match, onerror=self._closed):
            folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
            yield from (path for name in names if _is_there(path := Path(folder, name)))

    def _closed(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            self.closed[Path(error.filename)] = error.strerror or str(error)


def _is_there(path: Path) -> bool:
    """Whether a path is one of a file; also if that cannot be told, for who reads it is told why."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False
    except OSError:
        return True
