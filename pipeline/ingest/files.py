"""The file system of the output, through Hadoop's: local, HDFS, or any other that Spark knows.

Renaming a folder is one step on a local disk and on HDFS. An object store copies and deletes file by file:
what a kill leaves there is in two places, or some of it here and some there. So moves can be finished.
"""

from __future__ import annotations

import fcntl
import logging
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ..errors import BadOption, PipelineError
from .layout import LOCKS, READY, join

_LOCAL: Final = "file"
_HDFS: Final = "hdfs"
_RECURSIVE: Final = True
_OVERWRITE: Final = True
_ANOTHER_WRITES: Final = ("AlreadyBeingCreated", "RecoveryInProgress", "FileAlreadyExists")
_IF_ABSENT: Final = "fs.option.create.conditional.overwrite"
_IF_TAG: Final = f"{_IF_ABSENT}.etag"
_CHANGED: Final = ("RemoteFileChanged", "FileAlreadyExists", "FileNotFound")
_NOT_KNOWN: Final = ("No FileSystem for scheme", "ClassNotFoundException")
_LONGEST: Final = 300
_LEASE_S: Final = 90.0
"""Longer than the minute after which HDFS takes a file from a process that was killed."""

_POLL_S: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class HadoopFiles:
    """The file systems of `out` and of a checkpoint; raises PipelineError for what they do not do."""

    lock: _Lock | None = None
    """What has to be held still when something is published; None where the kernel or HDFS sees to it."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        context = spark.sparkContext
        jvm: Any = context._jvm  # noqa: SLF001 - PySpark has no other way to Hadoop's file systems
        self._jvm = jvm
        self._path: Any = jvm.org.apache.hadoop.fs.Path
        self._configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001
        with self._at(out) as (system, _):
            self.scheme = str(system.getUri().getScheme())
            """What URLs of `out` begin with: file, hdfs, s3a, ..."""

    def local(self, path: str) -> Path | None:
        """Return the path on this machine; None on another file system."""
        with self._at(path) as (system, where):
            if system.getUri().getScheme() != _LOCAL:
                return None
            return Path(system.makeQualified(where).toUri().getPath())

    def open_alone(self, path: str) -> Any | None:
        """Open a file of HDFS, which lets one process write it; None when another one does.

        A process that ends closes it. One that was killed has it for another minute, until its lease ends.
        """
        with self._at(path) as (system, where):
            try:
                if not system.exists(where):
                    system.create(where, not _OVERWRITE).close()
                return system.append(where)
            except Py4JJavaError as error:
                if any(sign in str(error.java_exception.toString()) for sign in _ANOTHER_WRITES):
                    return None
                raise

    def has_tags(self, path: str) -> bool:
        """Whether a file can be overwritten on the condition that it has a tag still, as on S3."""
        with self._at(path) as (system, where):
            return bool(system.hasPathCapability(where, _IF_TAG))

    def tag(self, path: str) -> str:
        """Return the tag of a file, which changes with what is in it; empty when there is none."""
        with self._at(path) as (system, where):
            return str(system.getFileStatus(where).getEtag()) if system.exists(where) else ""

    def swap(self, path: str, tag: str) -> str:
        """Overwrite a file of this tag, or make it if that is empty; return the new one, "" = it was not."""
        with self._at(path) as (system, where):
            builder = system.createFile(where).overwrite(_OVERWRITE)
            builder = builder.must(_IF_TAG, tag) if tag else builder.must(_IF_ABSENT, "true")
            try:
                with closing(builder.build()) as stream:
                    stream.write(bytearray(secrets.token_bytes()))  # what is alike has the same tag
            except Py4JJavaError as error:
                if any(sign in str(error.java_exception.toString()) for sign in _CHANGED):
                    return ""
                raise
        return self.tag(path)

    def still_alone(self) -> None:
        """See that another process has not taken the lock; raises PipelineError."""
        if self.lock is not None:
            self.lock.hold()

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none for one that does not exist."""
        with self._at(folder) as (system, where):
            found = system.listStatus(where) if system.exists(where) else ()
            return sorted(str(status.getPath().getName()) for status in found)

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""
        with self._at(path) as (system, where):
            return bool(system.exists(where))

    def size(self, path: str) -> int:
        """Return the bytes of a file, or of all files in a folder."""
        with self._at(path) as (system, where):
            return int(system.getContentSummary(where).getLength())

    def first_empty(self, pattern: str) -> str | None:
        """Return a file of no bytes among those that match a pattern; None when there is none."""
        with self._at(pattern) as (system, where):
            found = system.globStatus(where) or ()
            return next((str(status.getPath()) for status in found if status.getLen() == 0), None)

    def rename(self, source: str, target: str) -> None:
        """Move a file or a folder to where nothing is; the folder above is made."""
        with self._at(target) as (system, where):
            system.mkdirs(where.getParent())
            if system.exists(where):  # Hadoop would move it into that folder
                raise PipelineError(f"{target} exists already, so {source} is not moved there")
            if not system.rename(self._path(source), where):
                raise PipelineError(f"{source} could not be moved to {target}")

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it; nothing when there is none."""
        with self._at(path) as (system, where):
            if not system.delete(where, _RECURSIVE) and system.exists(where):
                raise PipelineError(f"{path} could not be deleted")

    def read(self, path: str) -> str:
        """Return the text of a file."""
        with self._at(path) as (system, where), closing(system.open(where)) as stream:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))

    def create(self, path: str, content: bytes) -> None:
        """Write a file, in the place of one that is there."""
        with self._at(path) as (system, where), closing(system.create(where, _OVERWRITE)) as stream:
            stream.write(bytearray(content))

    def write(self, path: str, text: str) -> None:
        """Write a new file, which is there as a whole or not at all."""
        parent, _, name = path.rpartition("/")
        unfinished = f"{parent}/_unfinished-{name}"
        self.create(unfinished, text.encode())
        self.rename(unfinished, path)

    @contextmanager
    def _at(self, path: str) -> Iterator[tuple[Any, Any]]:
        """Give the file system of a path, which Hadoop keeps, and the path there.

        A checkpoint may be elsewhere than `out`. Java's errors, pages long, become one that names the path.
        """
        try:
            where = self._path(path)
            yield where.getFileSystem(self._configuration), where
        except Py4JJavaError as error:
            first = str(error.java_exception.toString()).strip().partition("\n")[0]
            hint = ""
            if any(sign in first for sign in _NOT_KNOWN):
                hint = "; give Spark the jars of this file system, as with --conf spark.jars.packages=..."
            raise PipelineError(f"{path}: {first[:_LONGEST]}{hint}") from error


def make_folder(job: str, folder: Path) -> None:
    """Make the folder `out` of a job on this machine; raises BadOption where nothing can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise not_writable(job, str(folder), error.strerror) from error


def not_writable(job: str, folder: str, why: str | None) -> BadOption:
    """Return the error that nothing can be written to the folder `out` of a job."""
    return BadOption.of(job, "out", f"nothing can be written to {folder}: {why}; name another folder")


@contextmanager
def parsing(problem: str) -> Iterator[None]:
    """Raise PipelineError with a problem where the text of a file is not what it should be."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(problem) from error


def complete_below(files: HadoopFiles, folder: str) -> Iterator[tuple[str, str]]:
    """Yield what a killed job has staged completely in a folder, with its mark, and delete the rest."""
    for name in files.names(folder):
        staged = join(folder, name)
        ready = join(staged, READY)
        if files.exists(ready):
            yield staged, ready
        else:
            files.delete(staged)


def place(files: HadoopFiles, source: str, target: str, names: Iterable[str]) -> None:
    """Have these files in a folder, and no others; what is not there yet is in `source`.

    Of a file that is on both sides, one may be a copy that was cut short: the longer one stays.
    """
    wanted, found = set(names), set(files.names(target))
    if not files.exists(source):
        return  # all of it was moved before, and a compaction may have taken it further
    if not found & wanted:
        files.delete(target)  # of the same batch, when its entry was lost
        try:
            files.rename(source, target)
        except PipelineError:  # a compaction took the folder of the day away, and does so only once
            files.rename(source, target)
        return
    for name in sorted(found - wanted):
        files.delete(join(target, name))
    for name in files.names(source):
        here, there = join(source, name), join(target, name)
        if name in found and files.size(there) >= files.size(here):
            files.delete(here)
            continue
        if name in found:
            files.delete(there)
        files.rename(here, there)


@contextmanager
def only_one(job: str, files: HadoopFiles, out: str, *, lease_s: float = _LEASE_S) -> Iterator[None]:
    """Hold the lock of a job below `out`; raises PipelineError when another process has it.

    On a local disk the kernel lets go of it when the process ends, however. On HDFS and S3 that takes a
    minute after a kill, for which a start waits, `lease_s` at most. Elsewhere there is none, and a warning.
    """
    folder = files.local(join(out, LOCKS))
    if folder is not None:
        with _flock(job, folder):
            yield
    elif files.scheme == _HDFS:
        with closing(_lease(job, out, lease_s, partial(files.open_alone, join(out, LOCKS, job)))):
            yield
    elif files.has_tags(out):
        with closing(_lease(job, out, lease_s, _Lock(job, files, out, lease_s).taken)):
            yield
    else:
        _LOG.warning(
            "nothing can be locked on %s, and what is moved there is seen in parts meanwhile: "
            "have no second %s below %s",
            files.scheme,
            job,
            out,
        )
        yield


@contextmanager
def _flock(job: str, folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / job).open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _another(job, str(folder.parent)) from None
        yield


class _Lock:
    """A file of an object store that who works overwrites again and again, as long as nobody else has.

    A start takes it when it is not there, or has not changed for two thirds of the lease.
    """

    def __init__(self, job: str, files: HadoopFiles, out: str, lease_s: float) -> None:
        self._files = files
        self._path = join(out, LOCKS, job)
        self._lost = _another(job, out)
        self._unchanged_s = lease_s * 2 / 3
        self._tag, self._since_s = "", 0.0
        self._turn = threading.Lock()

    def taken(self) -> Self | None:
        """Take it; None when another process has it."""
        tag, now_s = self._files.tag(self._path), time.monotonic()
        if tag != self._tag:
            self._tag, self._since_s = tag, now_s
        if tag and now_s - self._since_s < self._unchanged_s:
            return None
        self._tag = self._files.swap(self._path, tag)
        if not self._tag:
            return None
        self._files.lock = self
        return self

    def hold(self) -> None:
        """Overwrite it; raises PipelineError when another process has."""
        with self._turn:
            self._tag = self._tag and self._files.swap(self._path, self._tag)
            if not self._tag:
                raise self._lost

    def close(self) -> None:
        """Let go of it."""
        with suppress(PipelineError):
            self.hold()
            self._files.delete(self._path)
        self._files.lock = None


def _lease(job: str, out: str, lease_s: float, taken: Callable[[], Any]) -> Any:
    """Return what this process alone has."""
    until_s = time.monotonic() + lease_s
    pause = threading.Event()
    found = taken()
    if found is None:
        _LOG.warning("another %s works below %s, or was killed: waiting %.0f s for it", job, out, lease_s)
    while found is None:
        if time.monotonic() >= until_s:
            raise _another(job, out)
        pause.wait(_POLL_S)
        found = taken()
    return found


def _another(job: str, out: str) -> PipelineError:
    return PipelineError(f"another {job} works below {out}: stop it, or give this one another out")
