"""Decides which state of a broker's file counts: pure, the files are read elsewhere."""

from __future__ import annotations

import hashlib
import logging
from typing import Final, Generic, Protocol, TypeVar

from ...registry import DataVersion
from ..planner.events import Say
from ..rocketmq.topics import TopicsInvalid, briefly
from .file_watch import Content

GRACE_S: Final = 1.0
"""A broker rewrites a large file in a few milliseconds; what is still unusable after this has a problem."""

_NEXT_LINE: Final = "\n  "

T = TypeVar("T")


class FileKind(Protocol[T]):
    """What is in a file of a certain kind."""

    missing: str
    """The problem of a file that is not there."""

    without: str
    """What happens while neither the file nor its .bak can be used."""

    def parse(self, content: bytes | memoryview, previous: T | None) -> T:
        """Return what the file holds; raises TopicsInvalid."""
        ...

    def version(self, table: T) -> DataVersion:
        """Return the version of what was read."""
        ...

    def name(self, table: T) -> str:
        """Return what to call what was read in messages."""
        ...

    def odd(self, table: T) -> tuple[str, ...]:
        """Return what is wrong with parts of what was read, which is used without them."""
        ...


class FileKeeper(Generic[T]):
    """Holds the last good table of one file through whatever happens to it.

    The file counts whenever it can be read. RocketMQ writes it in two steps (the old content goes to .bak,
    then the file is written anew), so that at any moment it can be missing or half there: this is passed over
    for GRACE_S. After that the problems are reported, once for each content, and the .bak is looked at: it
    counts when it is newer than what was read before, or when nothing was.
    """

    def __init__(self, name: str, kind: FileKind[T]) -> None:
        self._name = name
        self._kind = kind
        self._table: T | None = None
        self._digest: bytes | None = None
        self._problems: tuple[str, ...] = ()
        self._odd: tuple[str, ...] = ()
        self._bad_since_s = 0.0
        self._reported = False

    @property
    def table(self) -> T | None:
        """What counts at the moment; another object than before = it is new."""
        return self._table

    def offer(self, content: Content, now: float) -> list[Say]:
        """Take what the file holds now, or why it cannot be read; only what is new is parsed."""
        digest = str(content).encode() if isinstance(content, OSError) else hashlib.blake2b(content).digest()
        if digest == self._digest:
            return []
        self._digest = digest
        try:
            table = self._parse(content)
        except TopicsInvalid as error:
            if self._reported or not self._problems:
                self._bad_since_s = now
            self._problems, self._reported = error.problems, False
            return []
        mended = [Say(logging.INFO, f"{self._name} can be used again")] if self._reported else []
        self._table, self._problems, self._reported = table, (), False
        return mended + self._note_odd(self._kind.odd(table))

    @property
    def trouble(self) -> str:
        """Why the file does not count, or not all of it; empty = it counts."""
        problems = self._problems if self._reported else self._odd
        return f"{self._name}: {briefly(problems, '; ')}" if problems else ""

    def wants_backup(self, now: float) -> bool:
        """Whether the file has been unusable for so long that its .bak should be offered."""
        return bool(self._problems) and not self._reported and now - self._bad_since_s >= GRACE_S

    def offer_backup(self, content: Content) -> list[Say]:
        """Take what the .bak holds, and report the problems of the file."""
        self._reported = True
        backup = self._usable_backup(content)
        if backup is None:
            return [self._report(self._what_stays())]
        self._table = backup
        return [self._report(f"using {self._kind.name(backup)} of its .bak, {self._version_of(backup)}")]

    def _note_odd(self, odd: tuple[str, ...]) -> list[Say]:
        """Report what is wrong with parts of the file, once, and that nothing is any more."""
        if odd == self._odd:
            return []
        self._odd = odd
        if not odd:
            return [Say(logging.INFO, f"{self._name}: all of it can be used again")]
        return [self._tell(odd, "that stays as it was or is left out, and the rest counts")]

    def _parse(self, content: Content) -> T:
        if isinstance(content, FileNotFoundError):
            raise TopicsInvalid([self._kind.missing])
        if isinstance(content, OSError):
            raise TopicsInvalid([f"the file cannot be read: {content.strerror}"])
        return self._kind.parse(content, self._table)

    def _usable_backup(self, content: Content) -> T | None:
        try:
            backup = self._parse(content)
        except TopicsInvalid:
            return None
        if self._table is None or self._order(backup) > self._order(self._table):
            return backup
        return None

    def _what_stays(self) -> str:
        if self._table is None:
            return f"its .bak cannot be used either; {self._kind.without}"
        return f"keeping {self._kind.name(self._table)} read before, {self._version_of(self._table)}"

    def _report(self, consequence: str) -> Say:
        return self._tell(self._problems, consequence)

    def _tell(self, problems: tuple[str, ...], consequence: str) -> Say:
        count = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
        text = f"{self._name} has {count}; {consequence}:\n  {briefly(problems, _NEXT_LINE)}"
        return Say(logging.ERROR, text, {"problems": problems})

    def _version_of(self, table: T) -> str:
        return f"version {self._kind.version(table).counter}"

    def _order(self, table: T) -> tuple[int, int, int]:
        """Return what versions are compared by (RocketMQ: DataVersion.compare)."""
        version = self._kind.version(table)
        return version.state_version, version.counter, version.timestamp
