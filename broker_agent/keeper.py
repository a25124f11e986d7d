"""Decides which state of topics.json counts: pure, the files are read elsewhere."""

from __future__ import annotations

import hashlib
import logging
from typing import Final

from ..registry import DataVersion
from . import topics
from .events import Say, TopicsLoaded
from .topics import TopicsFile, TopicsInvalid

__all__ = ["TopicsKeeper"]

GRACE_S: Final = 1.0
"""A broker rewrites a large file in a few milliseconds; what is still unusable after this has a problem."""


class TopicsKeeper:
    """Holds the last good table of one broker through whatever happens to the file.

    The file counts whenever it can be read. RocketMQ writes it in two steps (the old content goes to .bak,
    then the file is written anew), so that at any moment it can be missing or half there: this is passed over
    for GRACE_S. After that the problems are reported, once for each content, and the .bak is looked at: it
    counts when it is newer than what was read before, or when nothing was.
    """

    def __init__(self, name: str, *, broker_permission: int = 6) -> None:
        self._name = name
        self._broker_permission = broker_permission
        self._file: TopicsFile | None = None
        self._digest: bytes | None = None
        self._problems: tuple[str, ...] = ()
        self._bad_since_s = 0.0
        self._reported = False

    def offer(self, content: bytes | OSError, now: float) -> list[TopicsLoaded | Say]:
        """Take what the file holds now, or why it cannot be read; only what is new is parsed."""
        digest = hashlib.blake2b(content).digest() if isinstance(content, bytes) else str(content).encode()
        if digest != self._digest:
            self._digest = digest
            return self._take(content, now)
        return []

    def wants_backup(self, now: float) -> bool:
        """Whether the file has been unusable for so long that its .bak should be offered."""
        return bool(self._problems) and not self._reported and now - self._bad_since_s >= GRACE_S

    def offer_backup(self, content: bytes | OSError) -> list[TopicsLoaded | Say]:
        """Take what the .bak holds, and report the problems of the file."""
        self._reported = True
        backup = self._usable_backup(content)
        if backup is None:
            return [self._report(self._what_stays())]
        self._file = backup
        report = self._report(f"using the {len(backup.topics)} topics of its .bak, {_name(backup.version)}")
        return [report, TopicsLoaded(backup)]

    def permit(self, broker_permission: int) -> None:
        """Read the file anew with another permission of the broker when it is offered next."""
        if broker_permission != self._broker_permission:
            self._broker_permission = broker_permission
            self._digest = None

    def _take(self, content: bytes | OSError, now: float) -> list[TopicsLoaded | Say]:
        try:
            file = self._parse(content)
        except TopicsInvalid as error:
            if self._reported or not self._problems:
                self._bad_since_s = now
            self._problems, self._reported = error.problems, False
            return []
        mended = [Say(logging.INFO, f"{self._name} can be used again")] if self._reported else []
        self._file, self._problems, self._reported = file, (), False
        return [*mended, TopicsLoaded(file)]

    def _parse(self, content: bytes | OSError) -> TopicsFile:
        if isinstance(content, FileNotFoundError):
            raise TopicsInvalid(["the file is missing; a broker writes it with its first topic"])
        if isinstance(content, OSError):
            raise TopicsInvalid([f"the file cannot be read: {content.strerror}"])
        previous = self._file.topics if self._file else None
        return topics.parse(content, previous=previous, broker_permission=self._broker_permission)

    def _usable_backup(self, content: bytes | OSError) -> TopicsFile | None:
        try:
            backup = self._parse(content)
        except TopicsInvalid:
            return None
        if self._file is None or _order(backup.version) > _order(self._file.version):
            return backup
        return None

    def _what_stays(self) -> str:
        if self._file is None:
            return (
                "its .bak cannot be used either; the broker is registered as soon as one of them can be read"
            )
        return f"keeping the {len(self._file.topics)} topics read before, {_name(self._file.version)}"

    def _report(self, consequence: str) -> Say:
        count = f"{len(self._problems)} problems" if len(self._problems) > 1 else "a problem"
        lines = "\n".join(f"  {problem}" for problem in self._problems)
        text = f"{self._name} has {count}; {consequence}:\n{lines}"
        return Say(logging.ERROR, text, {"problems": self._problems})


def _order(version: DataVersion) -> tuple[int, int, int]:
    """Return what versions are compared by (RocketMQ: DataVersion.compare)."""
    return version.state_version, version.counter, version.timestamp


def _name(version: DataVersion) -> str:
    return f"version {version.counter}"
