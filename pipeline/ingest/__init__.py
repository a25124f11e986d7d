"""Keeps the change stream as Parquet, each change once."""

from ..errors import IngestFailed
from .batches import quarantined, stored_changes
from .compaction import CompactConfig, CompactSummary, DayCompacted, compact
from .config import IngestConfig
from .headroom import Headroom
from .job import IngestProgress, IngestSummary, ingest

__all__ = [
    "CompactConfig",
    "CompactSummary",
    "DayCompacted",
    "Headroom",
    "IngestConfig",
    "IngestFailed",
    "IngestProgress",
    "IngestSummary",
    "compact",
    "ingest",
    "quarantined",
    "stored_changes",
]
