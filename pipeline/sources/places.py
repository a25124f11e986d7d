"""Places in a change stream: where reading begins, and what it means that a place is gone."""

from __future__ import annotations

from typing import Final

from ...registry import HistoryBounds, RouteStore, plans
from ...registry.plans import ORIGIN
from ..errors import ChangesLost
from .ranges import order
from .registries import Registry

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

TRIMMED: Final = "trimmed"
EMPTIED: Final = "emptied"
ROLLED_BACK: Final = "rolled back"


def reason(position: str, bounds: HistoryBounds) -> str | None:
    """Return why there is no entry at a position; None = the stream has not gone on since."""
    if position in (ORIGIN, bounds.last_generated_id):
        return None
    if bounds.last_generated_id == ORIGIN:
        return EMPTIED
    if order(bounds.last_generated_id) < order(position):
        return ROLLED_BACK
    if bounds.entries and order(bounds.first_id) < order(position):
        return ROLLED_BACK
    return EMPTIED if bounds.written == bounds.entries else TRIMMED


def loss(store: RouteStore, position: str, bounds: HistoryBounds) -> str | None:
    """Return why changes after a position are, or may be, lost; None = they are all there."""
    if position == ORIGIN or not store.history(position, position, 1).lost:
        return None
    return reason(position, bounds)


def lost_error(registry: Registry, position: str, why: str, bounds: HistoryBounds) -> ChangesLost:
    """Return the error that says what was to be read, and what is there instead."""
    there = (
        f"holds {bounds.entries} changes, {bounds.first_id} to {bounds.last_id}"
        if bounds.entries
        else f"holds no change, the newest ever was {bounds.last_generated_id}"
    )
    return ChangesLost(
        f"registry {registry.name}: no change stands at {position} any more, changes after it may be lost: "
        f"the stream was {why}, and {there} now; mark the loss to go on with a row of kind gap, "
        "or begin anew without this checkpoint or position; if this is another registry than before, "
        "it needs a folder of its own"
    )


def begin(store: RouteStore, registry: Registry, wanted: str, bounds: HistoryBounds, *, mark: bool) -> str:
    """Return the position that an option names: EARLIEST, LATEST or an id, after which reading begins.

    An id need not be an entry's: one within the stream is a time. Raises ChangesLost, unless losses are to be
    marked, for one from before the stream was trimmed, or after its end.
    """
    if wanted == EARLIEST:
        return ORIGIN
    if wanted == LATEST:
        return bounds.last_id
    why = loss(store, wanted, bounds)
    if why is None:
        return wanted
    if order(bounds.first_id) <= order(wanted) <= order(bounds.last_generated_id):
        return store.run(plans.last_change_id(store.keys, wanted))
    if bounds.entries and bounds.written == bounds.entries and order(wanted) < order(bounds.first_id):
        return ORIGIN
    if not mark:
        raise lost_error(registry, wanted, why, bounds)
    return wanted
