"""The work of a simulation as a Spark data source: a row with the tally of each partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from .clients import blocks
from .config import FleetConfig
from .tally import play

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["FORMAT", "FleetSource"]

FORMAT: Final = "simulated_fleet"
_SCHEMA: Final = "tally binary"


class FleetSource(DataSource):
    """Options `config`: FleetConfig.to_json; `partitions`: how many tasks to make at most."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the schema in Spark's DDL."""
        return _SCHEMA

    def reader(self, schema: StructType) -> _Reader:  # noqa: ARG002 - there is only one
        """Return the reader."""
        return _Reader(FleetConfig.from_json(self.options["config"]), int(self.options["partitions"]))


class _Blocks(InputPartition):
    """The blocks of clients of one task."""

    def __init__(self, first: int, step: int) -> None:
        self.first = first
        self.step = step


class _Reader(DataSourceReader):
    def __init__(self, config: FleetConfig, partitions: int) -> None:
        self._config = config
        self._partitions = min(partitions, blocks(config))

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks; each has every so many-th block."""
        return [_Blocks(first, self._partitions) for first in range(self._partitions)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Play the blocks of a task."""
        tally = play(self._config, range(partition.first, blocks(self._config), partition.step))
        yield pa.RecordBatch.from_arrays([pa.array([tally.to_bytes()], pa.binary())], names=["tally"])
