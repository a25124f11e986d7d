"""Where a client stands in the change stream; pure."""

from __future__ import annotations

from ..registry.codec import decode_change
from ..registry.errors import CorruptData
from ..registry.model import Change

__all__ = ["Feed"]


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
        order, ours = _order(change_id), _order(self.position or "")
        if order is None or ours is None:
            return None
        if order <= ours:  # a read was quicker than the bell
            return ()
        if previous != self.position or not record:
            return None
        try:
            change = decode_change(self._key, change_id, record.encode())
        except CorruptData:  # the read reports it
            return None
        self.position = change_id
        return (change,)


def _order(change_id: str) -> tuple[int, int] | None:
    ms, _, sequence = change_id.partition("-")
    try:
        return int(ms), int(sequence)
    except ValueError:
        return None
