"""The Lua scripts, loaded once; each file's first line is its contract."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pkgutil import get_data
from typing import Final

SCHEMA: Final = 1
"""The form of the keys in docs/design/table.md; a registry with a higher number is not touched."""


@dataclass(frozen=True, slots=True)
class Script:
    """One server-side operation."""

    name: str
    operation: str
    sha: str

    @property
    def source(self) -> str:
        """The text for the server; made on demand, as it is long and seldom needed."""
        return _source(self.operation)


def _lua(name: str) -> str:
    """Return a script without its comments, of which every process would keep a copy.

    The package may be imported from a zip, as by Spark's workers.
    """
    content = get_data(__package__, f"lua/{name}.lua")
    if content is None:
        raise FileNotFoundError(f"{__package__}: lua/{name}.lua")
    return re.sub("^ *--.*\n", "", content.decode(), flags=re.MULTILINE)


_COMMON: Final = f"local SCHEMA = '{SCHEMA}'\n{_lua('_common')}"


def _source(operation: str) -> str:
    return f"{_COMMON}\nlocal function operation()\n{operation}\nend\nreturn told(operation())"


def _load(name: str) -> Script:
    operation = _lua(name)
    sha = hashlib.sha1(_source(operation).encode(), usedforsecurity=False).hexdigest()
    return Script(name, operation, sha)


CLAIM: Final = _load("claim")
PUT_TOPICS: Final = _load("put_topics")
ACTIVATE: Final = _load("activate")
HEARTBEAT: Final = _load("heartbeat")
HINT: Final = _load("hint")
FRONT: Final = _load("front")
VOUCH: Final = _load("vouch")
RELEASE: Final = _load("release")
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
RECORD: Final = _load("record")
SNAPSHOT: Final = _load("snapshot")
