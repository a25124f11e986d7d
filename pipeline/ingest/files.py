"""The file system of the output, through Hadoop's: local, HDFS, or any other that Spark knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

from pyspark.sql import SparkSession

from ..errors import PipelineError

__all__ = ["Files", "HadoopFiles"]

_LOCAL: Final = "file"
_RECURSIVE: Final = True
_OVERWRITE: Final = True


class Files(Protocol):
    """What publishing needs of a file system; renaming a folder has to be one step of it."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none for one that does not exist."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or a folder to where nothing is; the folder above is made."""

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it; nothing when there is none."""

    def read(self, path: str) -> str:
        """Return the text of a file."""

    def write(self, path: str, text: str) -> None:
        """Write a new file, which is there as a whole or not at all."""


class HadoopFiles:
    """The file system to which `out` belongs; raises PipelineError for what it does not do."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        context = spark.sparkContext
        jvm: Any = context._jvm  # noqa: SLF001 - PySpark has no other way to Hadoop's file systems
        self._jvm = jvm
        self._path: Any = jvm.org.apache.hadoop.fs.Path
        configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001
        self._system: Any = self._path(out).getFileSystem(configuration)

    def local(self, path: str) -> Path | None:
        """Return the path on this machine; None on another file system."""
        uri = self._system.makeQualified(self._path(path)).toUri()
        return Path(uri.getPath()) if uri.getScheme() == _LOCAL else None

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none for one that does not exist."""
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._system.listStatus(path))

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""
        return bool(self._system.exists(self._path(path)))

    def size(self, path: str) -> int:
        """Return the bytes of all files in a folder."""
        return int(self._system.getContentSummary(self._path(path)).getLength())

    def first_empty(self, pattern: str) -> str | None:
        """Return a file of no bytes among those that match a pattern; None when there is none."""
        found = self._system.globStatus(self._path(pattern)) or ()
        return next((str(status.getPath()) for status in found if status.getLen() == 0), None)

    def rename(self, source: str, target: str) -> None:
        """Move a file or a folder to where nothing is; the folder above is made."""
        to = self._path(target)
        self._system.mkdirs(to.getParent())
        if self._system.exists(to):  # Hadoop would move it into that folder
            raise PipelineError(f"{target} exists already, so {source} is not moved there")
        if not self._system.rename(self._path(source), to):
            raise PipelineError(f"{source} could not be moved to {target}")

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it; nothing when there is none."""
        where = self._path(path)
        if not self._system.delete(where, _RECURSIVE) and self._system.exists(where):
            raise PipelineError(f"{path} could not be deleted")

    def read(self, path: str) -> str:
        """Return the text of a file."""
        stream = self._system.open(self._path(path))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Write a new file, which is there as a whole or not at all."""
        parent, _, name = path.rpartition("/")
        unfinished = f"{parent}/_unfinished-{name}"
        stream = self._system.create(self._path(unfinished), _OVERWRITE)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.rename(unfinished, path)
