"""The Lua scripts, loaded once; each file's first line is its contract."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pkgutil import get_data
from typing import Final

__all__ = [
    "ACTIVATE",
    "ALL",
    "CLAIM",
    "DELETE_TOPIC",
    "EXPIRE",
    "FORGET",
    "HEARTBEAT",
    "HINT",
    "KV_DELETE",
    "KV_PUT",
    "MEND_FIELD",
    "MEND_KEY",
    "MEND_LEASE",
    "MEND_LISTING",
    "MEND_ROWS",
    "MEND_SCHEMA",
    "ODD_KEYS",
    "PUT_TOPICS",
    "SCHEMA",
    "SNAPSHOT",
    "SWEEP",
    "UNREGISTER",
    "WRITE_PERM",
    "Script",
]

SCHEMA: Final = 1
"""The form of the keys in docs/design.md; a registry with a higher number is not touched."""


@dataclass(frozen=True, slots=True)
class Script:
    """One server-side operation."""

    name: str
    source: str
    sha: str


def _text(name: str) -> str:
    """Return a file beside this one, also where the package is imported from a zip, as Spark's workers do."""
    content = get_data(__package__, f"lua/{name}.lua")
    if content is None:
        raise FileNotFoundError(f"{__package__}: lua/{name}.lua")
    return content.decode()


_COMMON: Final = f"local SCHEMA = '{SCHEMA}'\n{_text('_common')}"


def _load(name: str) -> Script:
    source = f"{_COMMON}\nlocal function operation()\n{_text(name)}\nend\nreturn told(operation())"
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


CLAIM: Final = _load("claim")
PUT_TOPICS: Final = _load("put_topics")
ACTIVATE: Final = _load("activate")
HEARTBEAT: Final = _load("heartbeat")
HINT: Final = _load("hint")
UNREGISTER: Final = _load("unregister")
SWEEP: Final = _load("sweep")
EXPIRE: Final = _load("expire")
WRITE_PERM: Final = _load("write_perm")
DELETE_TOPIC: Final = _load("delete_topic")
KV_PUT: Final = _load("kv_put")
KV_DELETE: Final = _load("kv_delete")
FORGET: Final = _load("forget")
MEND_FIELD: Final = _load("mend_field")
MEND_KEY: Final = _load("mend_key")
MEND_LEASE: Final = _load("mend_lease")
MEND_LISTING: Final = _load("mend_listing")
MEND_ROWS: Final = _load("mend_rows")
MEND_SCHEMA: Final = _load("mend_schema")
ODD_KEYS: Final = _load("odd_keys")
SNAPSHOT: Final = _load("snapshot")

ALL: Final = (
    CLAIM,
    PUT_TOPICS,
    ACTIVATE,
    HEARTBEAT,
    HINT,
    UNREGISTER,
    SWEEP,
    EXPIRE,
    WRITE_PERM,
    DELETE_TOPIC,
    KV_PUT,
    KV_DELETE,
    FORGET,
    MEND_FIELD,
    MEND_KEY,
    MEND_LEASE,
    MEND_LISTING,
    MEND_ROWS,
    MEND_SCHEMA,
    ODD_KEYS,
    SNAPSHOT,
)
