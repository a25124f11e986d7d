"""Keeps the change stream as Parquet, each change once."""

from ..errors import IngestFailed
from .batches import check_kept, quarantined, stored_changes
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
    "check_kept",
    "compact",
    "ingest",
    "quarantined",
    "stored_changes",
]
