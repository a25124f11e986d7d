"""The last known routes as a file, for a start without a store."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson

from ..registry import codec
from ..registry.errors import RegistryError
from ..registry.model import BrokerData, QueueData, in_order
from .config import ClientConfig
from .observers import Tell
from .observers.events import SnapshotSaved, SnapshotUnusable

MAX_AGE_S: Final = 86_400.0
"""The addresses of an older file may belong to others by now; an outage of the store seldom lasts so long."""

_SAVE_S: Final = 1.0
"""The file is written at most this often."""

_FORMAT: Final = "sharedroutes-snapshot-1"
_CHANGE_ID: Final = re.compile(r"\d{1,19}-\d{1,19}")


class Snapshot(NamedTuple):
    """What a client knew."""

    rows: Mapping[str, tuple[QueueData, ...]]
    alive: Mapping[str, BrokerData]
    position: str | None
    """The id of the last change that was taken in; gone from the feed = the store may have lost data."""


class SnapshotError(RegistryError):
    """A snapshot cannot be used; the client starts without it."""


def encode(namespace: str, known: Snapshot) -> bytes:
    """Return the content of a snapshot file: one JSON document."""
    document = {
        "format": _FORMAT,
        "namespace": namespace,
        "position": known.position,
        "topics": {topic: [_row(row) for row in found] for topic, found in known.rows.items()},
        "brokers": {
            name: {
                "cluster": broker.cluster,
                "addresses": {str(k): v for k, v in broker.broker_addrs.items()},
                "zone": broker.zone_name,
                "actingMaster": broker.enable_acting_master,
                "wiped": broker.wiped,
            }
            for name, broker in known.alive.items()
        },
    }
    return orjson.dumps(document)


def decode(namespace: str, content: bytes) -> Snapshot:
    """Return what a snapshot file holds; raises SnapshotError for anything it cannot use."""
    try:
        document = orjson.loads(content)
        if document["format"] != _FORMAT or document["namespace"] != namespace:
            raise SnapshotError(
                f"it is of {document['format']!r} and namespace {document['namespace']!r}, "
                f"not of {_FORMAT!r} and {namespace!r}"
            )
        return Snapshot(
            _rows(document["topics"]), _alive(document["brokers"]), _position(document["position"])
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotError(f"it is no snapshot: {error!r}") from None


def _rows(topics: Any) -> dict[str, tuple[QueueData, ...]]:
    return {topic: in_order(_queue_data(*row) for row in found) for topic, found in topics.items()}


def _row(row: QueueData) -> list[Any]:
    fields = [row.broker_name, row.read_queue_nums, row.write_queue_nums, row.perm, row.topic_sys_flag]
    mapping = row.queue_mapping
    return fields if mapping is None else [*fields, codec.encode_mapping(mapping).decode()]


def _queue_data(
    name: str, read: int, write: int, perm: int, sys_flag: int, mapping: str | None = None
) -> QueueData:
    queue_mapping = None if mapping is None else codec.decode_mapping(mapping.encode())
    return QueueData(str(name), int(read), int(write), int(perm), int(sys_flag), queue_mapping)


def _alive(brokers: Any) -> dict[str, BrokerData]:
    return {
        name: BrokerData(
            str(broker["cluster"]),
            name,
            {int(k): str(v) for k, v in broker["addresses"].items()},
            str(broker.get("zone", "")),
            broker.get("actingMaster") is True,
            broker.get("wiped") is True,
        )
        for name, broker in brokers.items()
    }


def _position(position: Any) -> str | None:
    if position is not None and not _CHANGE_ID.fullmatch(position):
        raise ValueError(f"{position!r} is no id of a change")
    return None if position is None else str(position)


def write(path: Path, content: bytes) -> None:
    """Replace the file at once and whole: a reader sees the old or the new one; raises OSError."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(file.name).unlink()
            raise


class SnapshotFile:
    """Reads and writes the file that a configuration names, if it names one; tells when it cannot."""

    def __init__(
        self, config: ClientConfig, namespace: str, tell: Tell, max_age_s: float = MAX_AGE_S
    ) -> None:
        self._path = None if config.snapshot_path is None else Path(config.snapshot_path)
        self._max_age_s = max_age_s
        self._namespace = namespace
        self._tell = tell
        self._unsaved = False
        self._save_at = 0.0
        self._is_failing = False

    def something_new(self) -> None:
        """Note that what was written is no longer the newest."""
        self._unsaved = True

    def due(self, now: float) -> bool:
        """Whether to write: there is something new, and the last time is not a moment ago."""
        return self._path is not None and self._unsaved and now >= self._save_at

    def load(self) -> Snapshot | None:
        """Return what the file holds; None, which is told, if it cannot be used. Waits for the disk."""
        if self._path is None:
            return None
        try:
            _check_age(self._path, self._max_age_s)
            return decode(self._namespace, self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (SnapshotError, OSError) as error:
            self._cannot("read", error)
            return None

    def taken(self, now: float) -> None:
        """Note that what is to be saved was taken: what changes from here on is new again."""
        self._unsaved = False
        self._save_at = now + _SAVE_S

    def save(self, known: Snapshot) -> None:
        """Replace the file; the first of several failures is told. Waits for the disk."""
        if self._path is None:
            return
        try:
            write(self._path, encode(self._namespace, known))
        except OSError as error:
            if not self._is_failing:
                self._cannot("write", error)
            self._is_failing = True
        else:
            self._is_failing = False
            self._tell(SnapshotSaved(len(known.rows)))

    def _cannot(self, use: Literal["read", "write"], error: Exception) -> None:
        self._tell(SnapshotUnusable(str(self._path), str(error), use))


def _check_age(path: Path, max_age_s: float) -> None:
    """Raise SnapshotError for an old file, by the clock of its own file system: ours may be another one."""
    written_at = path.stat().st_mtime
    with suppress(OSError), tempfile.TemporaryFile(dir=path.parent) as new:
        age_s = os.fstat(new.fileno()).st_mtime - written_at
        if age_s > max_age_s:
            raise SnapshotError(f"it is {age_s:.0f} s old, more than {max_age_s:.0f} s")
    # Where nobody may write there is nothing to compare with, and the file is as good as any.
