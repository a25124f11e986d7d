"""Ranges of stream ids: how a part of a change stream is cut into pieces of about the same length; pure.

No server can say how many entries lie between two ids, nor skip any. So a few entries at the beginning of
each of some cells tell how dense it is, and a cell that seems to hold too much is cut again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from ...registry.plans import ORIGIN

SAMPLE: Final = 64
"""So many entries of a cell are looked at."""

_SMALL: Final = 2_000
"""What is not longer is not cut: another task costs more than it saves."""

_CELLS_OF_A_PART: Final = 8
_ROUNDS: Final = 6
_SEQ_BITS: Final = 64
_DENSE: Final = 2**32
"""Sequence numbers further apart are no neighbours."""

_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


class Range(NamedTuple):
    """The entries after one id, up to another, which counts."""

    after: str
    until: str


Probe: TypeAlias = Callable[[Sequence[Range]], Sequence[Sequence[str]]]
"""Returns the ids of the first entries of each range, up to SAMPLE of them."""


def is_id(text: str) -> bool:
    """Whether a text has the form of a whole id."""
    return _ID.fullmatch(text) is not None


def order(change_id: str) -> int:
    """Return the number that ids are compared by."""
    ms, _, seq = change_id.partition("-")
    return int(ms) << _SEQ_BITS | int(seq)


def cut(whole: Range, parts: int, entries: int, probe: Probe) -> list[Range]:
    """Return up to `parts` ranges that together are the whole; all inner bounds are ids of entries.

    `entries` is how many there are at most.
    """
    if parts == 1 or entries <= _SMALL:
        return [whole]
    cells = _divided(whole, parts, entries, probe)
    total = sum(cell.weight for cell in cells)
    if total <= _SMALL:
        return [whole]
    ranges: list[Range] = []
    after, weight = whole.after, 0.0
    for cell in cells:
        # The first entry of a cell belongs to what is before it: an inner bound has to be an entry.
        if weight >= total / parts * (len(ranges) + 1) and after != cell.first:
            ranges.append(Range(after, cell.first))
            after = cell.first
        weight += cell.weight
    return [*ranges, Range(after, whole.until)]


@dataclass(frozen=True, slots=True)
class _Cell:
    """A piece that has an entry, with bounds as numbers: after `low`, up to `high`."""

    low: int
    high: int
    first: str
    weight: float
    """About how many entries it has."""

    complete: bool
    """Whether all of them were seen."""

    def pieces(self, count: int) -> list[Range]:
        """Return what it is cut into; nothing if it cannot be."""
        low = max(self.low, order(self.first) - 1)
        width = self.high - low
        if self.complete or width < count or _DENSE < width <= 1 << _SEQ_BITS:
            return []
        bounds = sorted({low + width * number // count for number in range(count + 1)})
        return [Range(_id(one), _id(other)) for one, other in pairwise(bounds)]


def _divided(whole: Range, parts: int, entries: int, probe: Probe) -> list[_Cell]:
    """Return cells that hold the whole, in order, none of them too much as far as that can be told."""
    cells = _probed([whole], entries, probe)
    pieces_of_a_cell = parts * _CELLS_OF_A_PART
    for _ in range(_ROUNDS):
        most = sum(cell.weight for cell in cells) / parts / 4
        pieces = {
            cell: found for cell in cells if cell.weight > most and (found := cell.pieces(pieces_of_a_cell))
        }
        if not pieces:
            break
        fresh = _probed([piece for found in pieces.values() for piece in found], entries, probe)
        cells = sorted([*(cell for cell in cells if cell not in pieces), *fresh], key=lambda cell: cell.low)
        pieces_of_a_cell = _CELLS_OF_A_PART
    return cells


def _probed(ranges: Sequence[Range], entries: int, probe: Probe) -> list[_Cell]:
    """Return the cells of the ranges that are not empty."""
    found = []
    for place, ids in zip(ranges, probe(ranges), strict=True):
        if not ids:
            continue
        low, high = order(place.after), order(place.until)
        complete = len(ids) < SAMPLE
        weight = float(len(ids))
        if not complete:
            first, last = order(ids[0]), order(ids[-1])
            weight = min(float(entries), weight * (high - first) / max(1, last - first))
        found.append(_Cell(low, high, ids[0], weight, complete))
    return found


def _id(number: int) -> str:
    return f"{number >> _SEQ_BITS}-{number & (1 << _SEQ_BITS) - 1}" if number > 0 else ORIGIN
