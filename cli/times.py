"""Moments as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(ms: int | None, unknown: str = "unknown") -> str:
    """Return a moment, in ms since 1970, as ISO 8601 in local time with its offset."""
    if ms is None:
        return unknown
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).astimezone().isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # an id of a stream may be any number
        return unknown


def ms_of(change_id: str) -> int:
    """Return when an entry of the change stream was written, in ms since 1970 by the store's clock."""
    return int(change_id.partition("-")[0])
