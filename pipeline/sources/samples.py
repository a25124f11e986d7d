"""What clients recorded of attempts, as a table: `spark.read.format("send_samples")`."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ..errors import PipelineError
from ..schemas import CORRUPT_SAMPLES, SAMPLES
from ..tables import Table
from .options import Options
from .sample_rows import BrokenFile, Corrupt, of_lines, of_registry, of_row_group, row_groups

_log: Final = logging.getLogger("sharedroutes.pipeline")

OPTIONS: Final = ("path", "registry", "table", "onCorrupt", "splitBytes")
_PARQUET: Final = ".parquet"
_SUFFIXES: Final = (".jsonl", ".ndjson", ".json", _PARQUET)
_SPLIT_BYTES: Final = 32 * 2**20
_LEAST_BYTES: Final = 64
_ROWS: Final = 16_384
_HIDDEN: Final = ("_", ".")
"""What Spark and others hide begins with one of these."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the options say."""

    path: str
    registry: str
    corrupt: bool
    fail: bool
    split_bytes: int

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Return the settings; raises BadOption."""
        options = Options(SAMPLES.name, given, OPTIONS)
        path = options.text("path").removeprefix("file://").removeprefix("file:")
        if not path or "://" in path:
            raise options.bad("path", f"{path!r} is no path of files that all machines have")
        return cls(
            path,
            options.text("registry"),
            options.choice("table", "samples", "corrupt") == "corrupt",
            options.choice("onCorrupt", "skip", "fail") == "fail",
            options.number("splitBytes", _SPLIT_BYTES, low=_LEAST_BYTES),
        )

    @property
    def table(self) -> Table:
        """What is read."""
        return CORRUPT_SAMPLES if self.corrupt else SAMPLES


@dataclass(frozen=True)
class Part(InputPartition):
    """What one task reads: bytes of a file of lines, a row group of a Parquet file, or why it cannot."""

    file: Path
    begin: int
    end: int
    problem: str = ""


class SamplesSource(DataSource):
    """The source `send_samples`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return SAMPLES.name

    def schema(self) -> StructType:
        """Return the schema of SAMPLES, or of CORRUPT_SAMPLES; raises BadOption."""
        return Settings.of(self.options).table.schema

    def reader(self, schema: StructType) -> SamplesReader:  # noqa: ARG002 - the options say it
        """Return the reader of a batch; raises BadOption."""
        return SamplesReader(Settings.of(self.options))


class SamplesReader(DataSourceReader):
    """Reads what the files hold when the query begins.

    A file that is gone when it is its turn is no error: clients remove the oldest.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        """Return what tasks read; raises PipelineError when there is nothing."""
        files, closed = listed(self._settings.path)
        if not files:
            kinds = ", ".join(_SUFFIXES)
            why_not = "".join(f"; {folder}: {why}" for folder, why in closed.items())
            raise PipelineError(f"send_samples: no file of {kinds} at {self._settings.path}{why_not}")
        parts: list[InputPartition] = [
            Part(folder, 0, 0, f"the folder cannot be read: {why}") for folder, why in closed.items()
        ]
        for file in files:
            parts += self._parts(file)
        return parts

    def _parts(self, file: Path) -> list[Part]:
        try:
            if file.suffix == _PARQUET:
                return [Part(file, number, number + 1) for number in range(row_groups(file))]
            size, split = file.stat().st_size, self._settings.split_bytes
            return [Part(file, place, min(place + split, size)) for place in range(0, size, split)]
        except FileNotFoundError:
            return []
        except (BrokenFile, OSError) as error:
            return [Part(file, 0, 0, _why(error))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the samples, or what is none; raises PipelineError for what is none, if asked to."""
        if not isinstance(partition, Part):
            return  # what Spark gives where there is none
        settings, corrupt = self._settings, list[Corrupt]()
        name = os.fsencode(partition.file).decode(errors="replace")
        try:
            for each in _found(partition):
                if isinstance(each, Corrupt):
                    _set_aside(settings, name, each)
                    if settings.corrupt:
                        corrupt.append(each)
                elif not settings.corrupt:
                    yield from of_registry(each, settings.registry).to_batches(max_chunksize=_ROWS)
        except FileNotFoundError:
            _log.warning("send_samples: not read, for it was removed meanwhile: %s", name)
        if corrupt:
            rows = [{"file": name, **each._asdict()} for each in corrupt]
            yield pa.RecordBatch.from_pylist(rows, schema=CORRUPT_SAMPLES.arrow)


def _set_aside(settings: Settings, file: str, what: Corrupt) -> None:
    """Raise PipelineError if that is asked for; tell of what nobody knows how many samples it holds."""
    told = f"{file}, at {what.place}: {what.problem}"
    if settings.fail:
        raise PipelineError(f"{told}: {what.record!r}" if what.record else told)
    if not what.record:
        _log.warning("send_samples: set aside: %s", told)


def _found(part: Part) -> Iterator[pa.Table | Corrupt]:
    """Yield samples and what is none; raises FileNotFoundError."""
    if part.problem:
        yield Corrupt(part.begin, part.problem, "")
    elif part.file.suffix == _PARQUET:
        yield from of_row_group(part.file, part.begin)
    else:
        try:
            yield from of_lines(*_lines(part))
        except FileNotFoundError:
            raise
        except OSError as error:
            yield Corrupt(part.begin, _why(error), "")


def _why(error: BrokenFile | OSError) -> str:
    return str(error) if isinstance(error, BrokenFile) else f"it cannot be read: {error.strerror or error}"


def _lines(part: Part) -> tuple[bytes, int]:
    """Return the lines that begin within the part, and where the first of them does."""
    with part.file.open("rb") as file:
        if part.begin:
            file.seek(part.begin - 1)
            file.readline()
        place = file.tell()
        data = file.read(max(0, part.end - place))
        return (data if not data or data.endswith(b"\n") else data + file.readline()), place


def listed(path: str) -> tuple[list[Path], dict[Path, str]]:
    """Return a file, whatever it is called, or what can hold samples in a folder or a pattern, in order.

    With it come the folders that cannot be looked into, and why.
    """
    closed: dict[Path, str] = {}

    def is_closed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            closed[Path(error.filename)] = error.strerror or str(error)

    if os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises where the folder is closed
        return [Path(path)], closed
    found = set[Path]()
    # A pattern can be an absolute one, which Path.glob does not take; it can match folders, too.
    for match in [path] if os.path.isdir(path) else glob.iglob(path, recursive=True):  # noqa: PTH112, PTH207
        if not os.path.isdir(match):  # noqa: PTH112 - as above
            found.add(Path(match))
        for folder, folders, names in os.walk(match, onerror=is_closed):
            folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
            found.update(Path(folder, name) for name in names)
    files = (file for file in found if file.suffix in _SUFFIXES and not file.name.startswith(_HIDDEN))
    return sorted(files), closed
