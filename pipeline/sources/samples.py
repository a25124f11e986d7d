"""What clients recorded of attempts, as a table and as a stream: `spark.read.format("send_samples")`."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from ..errors import PipelineError
from ..schemas import SAMPLES
from ..tables import Table
from .options import Options
from .sample_rows import ARROW, CORRUPT_SAMPLES, Corrupt, of_lines, of_table

__all__ = ["CORRUPT_SAMPLES", "OPTIONS", "SamplesReader", "SamplesSource", "SamplesStreamReader"]

OPTIONS: Final = {
    "path": "a folder, a file or a pattern such as /data/*/samples-*.jsonl; what `load(...)` is given",
    "table": "samples, or corrupt: what was set aside (CORRUPT_SAMPLES)",
    "onCorrupt": "what to do with a line that is no sample: skip, or fail",
    "splitBytes": "how much of a file one task reads; default 33554432",
}
"""The options, with what they mean."""

_LINES: Final = (".jsonl", ".ndjson", ".json")
_PARQUET: Final = ".parquet"
_SPLIT_BYTES: Final = 32 * 2**20
_LEAST_BYTES: Final = 64
_ROWS: Final = 16_384
_TAIL_BYTES: Final = 2**16
_CORRUPT: Final = pa.schema(
    [("file", pa.string()), ("place", pa.int64()), ("problem", pa.string()), ("record", pa.string())]
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the options say."""

    path: str
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
            options.choice("table", "samples", "corrupt") == "corrupt",
            options.choice("onCorrupt", "skip", "fail") == "fail",
            options.number("splitBytes", _SPLIT_BYTES, low=_LEAST_BYTES),
        )

    @property
    def table(self) -> Table:
        """What is read."""
        return CORRUPT_SAMPLES if self.corrupt else SAMPLES

    def files(self, *suffixes: str) -> list[Path]:
        """Return the files, without those that Spark and others hide by a name with _ or . in front."""
        path = Path(self.path)
        if path.is_file():
            return [path]
        # A pattern can be an absolute one, which Path.glob does not take; it can match folders, too.
        matches = [path] if path.is_dir() else [*map(Path, glob.iglob(self.path, recursive=True))]  # noqa: PTH207
        found = {file for match in matches for file in (match.rglob("*") if match.is_dir() else (match,))}
        return sorted(
            file
            for file in found
            if file.suffix in suffixes and not file.name.startswith(("_", ".")) and file.is_file()
        )


class Part(InputPartition):
    """What one task reads: bytes of a file of lines, or a row group of a Parquet file."""

    def __init__(self, file: Path, begin: int, end: int) -> None:
        self.file = file
        self.begin = begin
        self.end = end


class SamplesSource(DataSource):
    """The source `send_samples`; see OPTIONS."""

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

    def streamReader(self, schema: StructType) -> SamplesStreamReader:  # noqa: ARG002, N802 - Spark's names
        """Return the reader of a stream; raises BadOption."""
        return SamplesStreamReader(Settings.of(self.options))


class SamplesReader(DataSourceReader):
    """Reads what the files hold when the query begins."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        """Return what tasks read; raises PipelineError when there is nothing."""
        files = self._settings.files(*_LINES, _PARQUET)
        if not files:
            kinds = ", ".join((*_LINES, _PARQUET))
            raise PipelineError(f"send_samples: no file of {kinds} at {self._settings.path}")
        parts: list[InputPartition] = []
        for file in files:
            if file.suffix == _PARQUET:
                groups = pq.ParquetFile(file).metadata.num_row_groups
                parts += [Part(file, number, number + 1) for number in range(groups)]
            else:
                parts += _cut(file, 0, file.stat().st_size, self._settings.split_bytes)
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the samples, or what is none; raises PipelineError for what is none, if asked to."""
        return _read(self._settings, cast("Part", partition))


class SamplesStreamReader(DataSourceStreamReader):
    """Reads what is appended to files of lines, and new ones; its offset is how far each file was read.

    A line without its end is left for later. A file that is gone is no error: clients remove the oldest.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return where a new query begins: before the first byte of all files."""
        return {}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        """Return up to where there are whole lines now, by file."""
        ends = {str(file): _whole_lines(file) for file in self._settings.files(*_LINES)}
        return {file: max(end, start.get(file, 0)) for file, end in ends.items()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return what tasks read between two offsets."""
        return [
            part
            for file, until in end.items()
            for part in _cut(Path(file), start.get(file, 0), until, self._settings.split_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield as SamplesReader.read."""
        with suppress(FileNotFoundError):
            yield from _read(self._settings, cast("Part", partition))


def _cut(file: Path, begin: int, end: int, split_bytes: int) -> list[Part]:
    return [Part(file, place, min(place + split_bytes, end)) for place in range(begin, end, split_bytes)]


def _read(settings: Settings, part: Part) -> Iterator[pa.RecordBatch]:
    found = _rows(part) if part.file.suffix == _PARQUET else of_lines(*_lines(part))
    corrupt: list[Corrupt] = []
    for each in found:
        if isinstance(each, Corrupt):
            if settings.fail:
                raise PipelineError(f"{part.file}, at {each.place}: {each.problem}: {each.record!r}")
            corrupt.append(each)
        elif not settings.corrupt:
            yield from each.to_batches(max_chunksize=_ROWS)
    if settings.corrupt and corrupt:
        rows = [{"file": str(part.file), **each._asdict()} for each in corrupt]
        yield pa.RecordBatch.from_pylist(rows, schema=_CORRUPT)


def _lines(part: Part) -> tuple[bytes, int]:
    """Return the lines that begin within the part, and where the first of them does."""
    with part.file.open("rb") as file:
        if part.begin:
            file.seek(part.begin - 1)
            file.readline()
        place = file.tell()
        data = file.read(max(0, part.end - place))
        return (data if not data or data.endswith(b"\n") else data + file.readline()), place


def _rows(part: Part) -> Iterator[pa.Table | Corrupt]:
    """Yield the rows of a row group; raises PipelineError for a file with other columns."""
    with pq.ParquetFile(part.file) as file:
        names = [name for name in ARROW.names if name in file.schema_arrow.names]
        place = sum(file.metadata.row_group(number).num_rows for number in range(part.begin))
        table = file.read_row_group(part.begin, columns=names)
    try:
        columns = [
            table[field.name].cast(field.type) if field.name in names else pa.nulls(len(table), field.type)
            for field in ARROW
        ]
    except pa.ArrowInvalid as error:
        raise PipelineError(f"{part.file}: its columns are not those of send_samples: {error}") from error
    yield from of_table(pa.Table.from_arrays(columns, schema=ARROW), place)


def _whole_lines(file: Path) -> int:
    """Return how many bytes of a file are whole lines."""
    try:
        with file.open("rb") as opened:
            end = opened.seek(0, 2)
            while end:
                begin = max(0, end - _TAIL_BYTES)
                opened.seek(begin)
                cut = opened.read(end - begin).rfind(b"\n") + 1
                if cut:
                    return begin + cut
                end = begin
    except FileNotFoundError:  # removed since it was listed
        pass
    return 0
