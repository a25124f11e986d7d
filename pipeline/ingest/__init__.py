"""Keeps the change stream as Parquet, each change once."""

from ..errors import IngestFailed
from .compacting import CompactConfig, CompactSummary, DayCompacted, compact
from .config import IngestConfig
from .headroom import Headroom
from .job import IngestProgress, IngestSummary, ingest
from .reading import quarantined, stored_changes

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
