"""The Lua scripts, loaded once; each file's first line is its contract."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ACTIVATE", "ALL", "CLAIM", "EXPIRE", "HEARTBEAT", "PUT_TOPICS", "SWEEP", "UNREGISTER", "Script"]

_FOLDER: Final = Path(__file__).with_name("lua")
_COMMON: Final = (_FOLDER / "_common.lua").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Script:
    """One server-side operation."""

    name: str
    source: str
    sha: str


def _load(name: str) -> Script:
    source = _COMMON + "\n" + (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


CLAIM: Final = _load("claim")
PUT_TOPICS: Final = _load("put_topics")
ACTIVATE: Final = _load("activate")
HEARTBEAT: Final = _load("heartbeat")
UNREGISTER: Final = _load("unregister")
SWEEP: Final = _load("sweep")
EXPIRE: Final = _load("expire")

ALL: Final = (CLAIM, PUT_TOPICS, ACTIVATE, HEARTBEAT, UNREGISTER, SWEEP, EXPIRE)
