"""Where a follower stands in the change stream; pure."""

from __future__ import annotations

import re
from typing import Final

from ..codec import decode_change
from ..errors import CorruptData
from ..model import Change
from ..plans import ORIGIN

_NO_STREAM: Final = b"- - "
"""What such a doorbell begins with, in the place of two ids (`announce` in _common.lua)."""

_CHANGE_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


class Feed:
    """The position of one follower: doorbells in sequence advance it, anything else asks for a read."""

    def __init__(self, key: str) -> None:
        self._key = key
        self.position: str | None = None
        """The id of the last change that was taken in; None before the first contact."""

    def doorbell(self, message: bytes) -> tuple[Change, ...] | None:
        """Take in a doorbell, "previous-id id record"; None = the stream must be read."""
        previous, _, rest = message.decode(errors="replace").partition(" ")
        change_id, _, record = rest.partition(" ")
        theirs, ours = order(change_id), order(self.position or "")
        if theirs is None or ours is None:
            return None
        if theirs <= ours:  # a read was quicker than the bell
            return ()
        if previous != self.position or not record:
            return None
        try:
            change = decode_change(self._key, change_id, record.encode())
        except CorruptData:  # the read reports it
            return None
        self.position = change_id
        return (change,)


def unrecorded(key: str, message: bytes) -> Change | None:
    """Return the change that a doorbell tells of which stands in no stream, as a foreign key is in its place.

    None = it is no such doorbell, or has no room for the change.
    """
    mark, _, record = message.partition(_NO_STREAM)
    if mark or not record:
        return None
    try:
        return decode_change(key, ORIGIN, record)
    except CorruptData:
        return None


def order(change_id: str) -> tuple[int, int] | None:
    """Return what ids of the stream are compared by; None for what is no id."""
    if not _CHANGE_ID.fullmatch(change_id):
        return None
    ms, _, sequence = change_id.partition("-")
    return int(ms), int(sequence)
