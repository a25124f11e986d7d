"""Ids of a change stream, and ranges of them; pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_SEQ_BITS: Final = 64
_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


class Range(NamedTuple):
    """The entries after one id, up to another, which counts."""

    after: str
    until: str


def is_id(text: str) -> bool:
    """Whether a text has the form of a whole id."""
    return _ID.fullmatch(text) is not None


def order(change_id: str) -> int:
    """Return the number that ids are compared by."""
    ms, _, seq = change_id.partition("-")
    return int(ms) << _SEQ_BITS | int(seq)


def id_of(number: int) -> str:
    """Return the id that is compared by a number."""
    return f"{number >> _SEQ_BITS}-{number & (1 << _SEQ_BITS) - 1}"
