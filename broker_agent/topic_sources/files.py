"""Topics from the files that the broker writes, and from the running broker until it has written any.

The files are topics.json, topicQueueMapping.json, and the .bak of each.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Final, Generic, NamedTuple, ParamSpec, TypeVar

from ...daemon.threads import in_thread, trim_memory
from ...registry import QueueMapping
from ...registry.concurrency_async import end
from .. import file_watch
from ..file_watch import Content
from ..rocketmq import topics
from ..rocketmq.topics import MappingTable, TopicsInvalid, TopicTable, briefly
from .remote import RemoteTopics
from .source import NO_MAPPINGS, ReadTopics

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")

MAPPING_FILE: Final = "topicQueueMapping.json"
"""Stands beside topics.json, once the broker has had a static topic."""

GRACE_S: Final = 1.0
"""A broker rewrites a large file in a few milliseconds; what is still unusable after this has a problem."""

T = TypeVar("T", TopicTable, MappingTable)
P = ParamSpec("P")


class FileKind(NamedTuple, Generic[T]):
    """How a file of a certain kind is read."""

    parse: Callable[[bytes | memoryview, T | None], T]
    """Returns what the file holds, given what it held before; raises TopicsInvalid."""

    missing: str
    """The problem of a file that is not there."""

    without: str
    """What happens while neither the file nor its .bak can be used."""


TOPICS: Final = FileKind(
    topics.parse,
    missing="the file is missing; a broker writes it with its first topic",
    without="the broker is registered as soon as one of them can be read",
)
MAPPINGS: Final = FileKind(
    topics.parse_mappings,
    missing="the file is missing",
    without="static topics are registered without their queue mapping until one of them can be read",
)


class FileTable(Generic[T]):
    """The last good table of one file, whatever happens to the file; it reads nothing itself.

    The file counts whenever it can be read. RocketMQ writes it in two steps (the old content goes to .bak,
    then the file is written anew), so that at any moment it can be missing or half there: this is passed over
    for GRACE_S. After that the problems are logged, once for each content, and the .bak is looked at: it
    counts when it is newer than what was read before, or when nothing was.
    """

    def __init__(self, path: Path, kind: FileKind[T]) -> None:
        self.path = path
        self.table: T | None = None
        """What counts at the moment; another object than before = it is new."""

        self._kind: FileKind[T] = kind
        self._digest: bytes | None = None
        self._problems: tuple[str, ...] = ()
        self._odd: tuple[str, ...] = ()
        self._bad_since_s = 0.0
        self._is_reported = False

    @property
    def trouble(self) -> str:
        """Why the file does not count, or not all of it; empty = it counts."""
        problems = self._problems if self._is_reported else self._odd
        return f"{self.path}: {briefly(problems, '; ')}" if problems else ""

    def offer(self, content: Content, now_s: float) -> None:
        """Take what the file holds now, or why it cannot be read; only what is new is parsed."""
        digest = str(content).encode() if isinstance(content, OSError) else hashlib.blake2b(content).digest()
        if digest == self._digest:
            return
        self._digest = digest
        try:
            table = self._parse(content)
        except TopicsInvalid as error:
            if self._is_reported or not self._problems:
                self._bad_since_s = now_s
            self._problems, self._is_reported = error.problems, False
            return
        if self._is_reported:
            _LOG.info("%s can be used again", self.path)
        self.table, self._problems, self._is_reported = table, (), False
        self._note_odd(table.odd)

    def wants_backup(self, now_s: float) -> bool:
        """Whether the file has been unusable for so long that its .bak should be offered."""
        return bool(self._problems) and not self._is_reported and now_s - self._bad_since_s >= GRACE_S

    def offer_backup(self, content: Content) -> None:
        """Take what the .bak holds, and log the problems of the file."""
        self._is_reported = True
        backup = self._newer(content)
        if backup is not None:
            self.table = backup
            consequence = f"using {backup} of its .bak, version {backup.version.counter}"
        elif self.table is not None:
            consequence = f"keeping {self.table} read before, version {self.table.version.counter}"
        else:
            consequence = f"its .bak cannot be used either; {self._kind.without}"
        self._report(self._problems, consequence)

    def _parse(self, content: Content) -> T:
        if isinstance(content, FileNotFoundError):
            raise TopicsInvalid([self._kind.missing])
        if isinstance(content, OSError):
            raise TopicsInvalid([f"the file cannot be read: {content.strerror}"])
        return self._kind.parse(content, self.table)

    def _newer(self, content: Content) -> T | None:
        """Return the table of the .bak if it can be used, and is newer than what was read before."""
        try:
            backup = self._parse(content)
        except TopicsInvalid:
            return None
        is_newer = self.table is None or backup.version.order > self.table.version.order
        return backup if is_newer else None

    def _note_odd(self, odd: tuple[str, ...]) -> None:
        """Log what is wrong with parts of the file, once, and that nothing is any more."""
        if odd == self._odd:
            return
        self._odd = odd
        if odd:
            self._report(odd, "that stays as it was or is left out, and the rest counts")
        else:
            _LOG.info("%s: all of it can be used again", self.path)

    def _report(self, problems: tuple[str, ...], consequence: str) -> None:
        count = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
        text, briefed = "%s has %s; %s:\n  %s", briefly(problems)
        _LOG.error(text, self.path, count, consequence, briefed, extra={"problems": problems})


class FileTopics:
    """Follows the topics of a broker by its files."""

    def __init__(self, topics_path: Path, *, recheck_s: float = 1.0) -> None:
        self._recheck_s = recheck_s
        self._topics = FileTable(topics_path, TOPICS)
        self._mappings = FileTable(topics_path.with_name(MAPPING_FILE), MAPPINGS)
        self._no_mappings: Mapping[str, QueueMapping] | None = None
        """Set when it is known that there are none to be read."""

        self._lock_of_tables = threading.Lock()
        self.absent = asyncio.Event()
        """Set when it is known that the broker has written no topics: there is no topics.json, no .bak."""

        self.present = asyncio.Event()
        """Set when there has been one of them, or when that cannot be told."""

        self.absence_is_usual = False
        """Whether the broker itself is asked until there is a file, so that a missing one is not logged."""

    @property
    def trouble(self) -> str:
        """Why not all that the files hold is known; empty = it is."""
        return "; ".join(filter(None, (self._topics.trouble, self._mappings.trouble)))

    async def found(self) -> AsyncGenerator[ReadTopics, None]:
        """Yield the topics as soon as they are known, at each look; log what is wrong with the files."""
        paths = self._topics.path, self._mappings.path
        async with aclosing(file_watch.looks(paths, recheck_s=self._recheck_s)) as looks:
            async for in_topics, in_mappings in looks:
                await self._note_presence(in_topics)
                if not self._is_excused(self._topics):
                    await self._offer(self._topics, in_topics)
                await self._offer_mappings(in_mappings)
                table, mapped = self._topics.table, self._mappings.table
                mappings = mapped.mappings if mapped else self._no_mappings
                # Until it is known which topics are static, none is registered as an ordinary one.
                if table is not None and mappings is not None:
                    yield ReadTopics(table, mappings)

    def _is_excused(self, file: object) -> bool:
        """Whether nobody misses this file: the broker has written no topics, and tells them itself."""
        return file is self._topics and self.absence_is_usual and not self.present.is_set()

    async def _note_presence(self, in_topics: Content | None) -> None:
        if in_topics is None or self.present.is_set():
            return
        if isinstance(in_topics, FileNotFoundError) and await _has_no_backup(self._topics.path):
            self.absent.set()
        else:
            self.present.set()

    async def _offer_mappings(self, content: Content | None) -> None:
        """Offer the mapping file; that there is none is normal, as long as there never was one."""
        mappings = self._mappings
        none_yet = mappings.table is None and isinstance(content, FileNotFoundError)
        if none_yet and await _has_no_backup(mappings.path):
            self._no_mappings = NO_MAPPINGS
            return
        await self._offer(mappings, content)
        if mappings.trouble and mappings.table is None:  # neither of the files is good
            self._no_mappings = NO_MAPPINGS

    async def _offer(self, file: FileTable[T], content: Content | None) -> None:
        """Offer what the file holds, and its .bak when that is wanted."""
        clock = asyncio.get_running_loop().time
        if content is not None:
            await in_thread(self._alone, file.offer, content, clock())
            trim_memory()
        if file.wants_backup(clock()) and not self._is_excused(file):  # the broker may have begun to tell
            backup = await file_watch.read(_backup(file.path))
            await in_thread(self._alone, file.offer_backup, backup)

    def _alone(self, offer: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Offer while no other thread does: one whose `found` was cancelled may still be at it."""
        with self._lock_of_tables:
            offer(*args, **kwargs)


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


async def _has_no_backup(path: Path) -> bool:
    return isinstance(await file_watch.read(_backup(path)), FileNotFoundError)


class FreshTopics:
    """Follows the topics of a broker that keeps them in files, from its very first start on.

    RocketMQ writes topics.json with the first topic that somebody creates. Until then the broker has its
    system topics, and whoever would create the first topic has to find it.
    """

    def __init__(self, topics_path: Path, files: FileTopics, remote: RemoteTopics) -> None:
        self._path = topics_path
        self._files = files
        self._remote = remote
        self._is_remote = False
        """Whether the last table is one that the broker gave itself."""

    @property
    def asks(self) -> bool:
        """Whether the broker is asked at the moment: there is no file, and there never was one."""
        return self._files.absent.is_set() and not self._files.present.is_set()

    @property
    def trouble(self) -> str:
        """Why not all topics of the broker are known; empty = they are."""
        return self._remote.trouble if self.asks else self._files.trouble

    async def found(self) -> AsyncGenerator[ReadTopics, None]:
        """Yield the topics as soon as they are known, at each look; log what is wrong."""
        found: asyncio.Queue[ReadTopics | None] = asyncio.Queue()
        tasks = [asyncio.create_task(work(found)) for work in (self._follow_files, self._follow_broker)]
        for task in tasks:
            task.add_done_callback(lambda _: found.put_nowait(None))
        try:
            while True:
                one = await found.get()
                if one is not None:
                    yield one
                for task in tasks:
                    if task.done():
                        task.result()  # raises what has ended it
        finally:
            await end(*tasks)

    async def _follow_files(self, found: asyncio.Queue[ReadTopics | None]) -> None:
        async with aclosing(self._files.found()) as in_files:
            async for one in in_files:
                if self._is_remote:
                    self._is_remote = False
                    _LOG.info("%s: is there now, and from here on the topics are read there", self._path)
                found.put_nowait(one)

    async def _follow_broker(self, found: asyncio.Queue[ReadTopics | None]) -> None:
        """Ask the broker from when it is known that there is no file until there is one."""
        await self._files.absent.wait()
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(self._ask(found))
            await self._files.present.wait()
            asking.cancel()

    async def _ask(self, found: asyncio.Queue[ReadTopics | None]) -> None:
        async with aclosing(self._remote.found()) as answers:
            async for one in answers:
                if not self.asks:  # the file has come, and its table perhaps been yielded
                    return
                if not self._is_remote:
                    self._is_remote = self._files.absence_is_usual = True
                    text = "%s: is not there yet; until it is, the broker tells its topics itself"
                    _LOG.info(text, self._path)
                found.put_nowait(one)
