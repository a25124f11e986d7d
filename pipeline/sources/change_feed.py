"""How a change stream is read: from where on, in which parts, and what it means that a place is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, Self

import orjson
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ...daemon.threads import nothing_collected
from ...registry import HistoryBounds, RouteStore, plans
from ...registry.past import place_of
from ...registry.plans import ORIGIN, HistoryRange
from ...registry.plans.changes import order
from ..errors import ChangesLost
from ..schemas import CHANGES
from .options import MOST_PARTITIONS, REGISTRY_OPTIONS, Options, Registry, registries_of
from .records import RecordReader, gap

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

OPTIONS: Final = (
    *REGISTRY_OPTIONS,
    "startingPosition",
    "endingPosition",
    "partitions",
    "maxChangesPerTrigger",
    "onLoss",
    "onCorrupt",
    "pageEntries",
)

_EMPTIED: Final = "emptied"
_ROLLED_BACK: Final = "rolled back"
_MAX_CHANGES: Final = 200_000
_SMALL: Final = 1_000
"""What is not longer is not cut: another task costs more than it saves."""

_PAGE: Final = 10_000
_SEQ_BITS: Final = 64
_MOST_ENTRIES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """What the options say."""

    registries: tuple[Registry, ...]
    starting: Mapping[str, str]
    """By the name of each registry: EARLIEST, LATEST or an id."""

    ending: str
    """LATEST or an id."""

    partitions: int
    max_changes: int
    mark: bool
    """Whether losses are marked, and no error."""

    refuse_corrupt: bool
    page: int

    @classmethod
    def of(cls, given: Mapping[str, str], *, stream: bool = False) -> Self:
        """Return the settings of a batch or a stream; raises BadOption."""
        options = Options(CHANGES.name, given, OPTIONS)
        read = registries_of(options)
        if stream and options.text("endingPosition"):
            raise options.bad("endingPosition", "a stream has no end; read a batch, or with availableNow")
        return cls(
            read,
            _starting(options, read),
            _checked(options, "endingPosition", options.text("endingPosition", LATEST), LATEST),
            options.number("partitions", os.cpu_count() or 1, low=1, high=MOST_PARTITIONS),
            options.number("maxChangesPerTrigger", _MAX_CHANGES, low=1),
            options.choice("onLoss", "fail", "mark") == "mark",
            options.choice("onCorrupt", "quarantine", "fail") == "fail",
            options.number("pageEntries", _PAGE, low=1, high=_MOST_ENTRIES),
        )


def _starting(options: Options, read: Sequence[Registry]) -> dict[str, str]:
    """Return where to begin, by registry: one position for all, or a JSON object with one for each."""
    name = "startingPosition"
    text = options.text(name, EARLIEST)
    names = [registry.name for registry in read]
    if not text.startswith("{"):
        return dict.fromkeys(names, _checked(options, name, text, EARLIEST, LATEST))
    try:
        found = orjson.loads(text)
    except ValueError as error:
        raise options.bad(name, f"is no JSON: {error}") from None
    strangers = sorted(found.keys() - set(names))
    if strangers:
        raise options.bad(name, f"there is no registry {strangers[0]!r}, only {', '.join(names)}")
    return {one: _checked(options, name, found.get(one, EARLIEST), EARLIEST, LATEST) for one in names}


def _checked(options: Options, name: str, position: object, *words: str) -> str:
    """Return a position that is one of the words or an id; raises BadOption."""
    if isinstance(position, str):
        if position.lower() in words:
            return position.lower()
        if order(position) is not None:
            return position
    raise options.bad(name, f"{position!r} is not {', '.join(words)} or an id such as 1790000000000-0")


def begin(settings: Settings, store: RouteStore, registry: Registry, bounds: HistoryBounds) -> str:
    """Return the position after which reading begins, as the options say.

    An id need not be an entry's: one within the stream is a time. Raises ChangesLost, unless losses are to be
    marked, for one from before the stream was trimmed, or after its end.
    """
    wanted = settings.starting[registry.name]
    if wanted == EARLIEST:
        return ORIGIN
    if wanted == LATEST:
        return bounds.last_id
    why = loss(store, wanted, bounds)
    if why is None:
        return wanted
    if place_of(bounds.first_id) <= place_of(wanted) <= place_of(bounds.last_generated_id):
        return store.run(plans.last_change_id(store.keys, wanted))
    if bounds.entries and bounds.written == bounds.entries and place_of(wanted) < place_of(bounds.first_id):
        return ORIGIN
    if not settings.mark:
        raise lost_error(registry, wanted, why, bounds)
    return wanted


def loss(store: RouteStore, position: str, bounds: HistoryBounds) -> str | None:
    """Return why changes after a position are, or may be, lost; None = they are all there."""
    if position == ORIGIN or not store.history(position, position, 1).lost:
        return None
    return _reason(position, bounds)


def _reason(position: str, bounds: HistoryBounds) -> str | None:
    """Return why there is no entry at a position; None = the stream has not gone on since."""
    if position in (ORIGIN, bounds.last_generated_id):
        return None
    if bounds.last_generated_id == ORIGIN:
        return _EMPTIED
    if place_of(bounds.last_generated_id) < place_of(position):
        return _ROLLED_BACK
    if bounds.entries and place_of(bounds.first_id) < place_of(position):
        return _ROLLED_BACK
    return _EMPTIED if bounds.written == bounds.entries else "trimmed"


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


class Range(NamedTuple):
    """The entries after one id, up to another, which counts."""

    after: str
    until: str


@dataclass(frozen=True)
class ChangeRange(InputPartition):
    """What one task reads of one registry."""

    registry: Registry
    place: Range


def cut_range(store: RouteStore, registry: Registry, place: Range, parts: int) -> list[ChangeRange]:
    """Return what tasks read of a range: equal parts of its time, each of which ends with an entry."""
    first = store.history(place.after, place.until, _SMALL)
    if parts == 1 or first.complete:
        return [ChangeRange(registry, place)]
    cuts = _between(first.ids[0].decode(), place.until, parts)
    pages = store.run(plans.history(store.keys, *(HistoryRange(one, place.until, 1) for one in cuts)))
    inner = [page.ids[0].decode() for page in pages if page.ids]
    ends = list(dict.fromkeys([place.after, *inner, place.until]))
    return [ChangeRange(registry, Range(after, until)) for after, until in pairwise(ends)]


def _between(low: str, high: str, parts: int) -> list[str]:
    """Return the ids that cut what lies between two of them into equal parts."""
    first, last = (ms << _SEQ_BITS | seq for ms, seq in map(place_of, (low, high)))
    inner = (first + (last - first) * number // parts for number in range(1, parts))
    return [f"{at >> _SEQ_BITS}-{at & (1 << _SEQ_BITS) - 1}" for at in inner]


def nth(store: RouteStore, place: Range, most: int, page_entries: int) -> str:
    """Return the id of the last of the first `most` entries of a range."""
    after = place.after
    while most > 0:
        page = store.history(after, place.until, min(most, page_entries))
        if page.ids:
            after = page.ids[-1].decode()
        most -= len(page.ids)
        if page.complete:
            break
    return after


def read_range(settings: Settings, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a range, and where some were lost the gap.

    Each page begins with the entry that the one before has ended with: if that is gone, others may be. So may
    they if the last entry of the range is not the one that stood there when the range was made.
    Raises ChangesLost, CorruptData and what the registry raises.
    """
    if not isinstance(partition, ChangeRange):  # Spark's own, where there is nothing to read
        return
    registry, place = partition.registry, partition.place
    with registry.store() as store:
        if place_of(place.until) < place_of(place.after):  # nothing is read, the loss is told
            yield _gap(settings, store, registry, place.after, "")
            return
        records = RecordReader(registry.name, store.keys.changes, refuse_corrupt=settings.refuse_corrupt)
        after, complete = place.after, False
        while not complete:
            with nothing_collected():  # else it takes longer than reading the page
                page = store.history(after, place.until, settings.page)
            if page.lost:
                first = page.ids[0].decode() if page.ids else ""
                yield _gap(settings, store, registry, after, first)
            if page.ids:
                yield records.batch(page.ids, page.records)
                after = page.ids[-1].decode()
            complete = page.complete
        if after != place.until and not page.lost:
            yield _gap(settings, store, registry, after, "", gone=place.until)


def _gap(
    settings: Settings, store: RouteStore, registry: Registry, after: str, first: str, gone: str = ""
) -> pa.RecordBatch:
    """Return the row that stands for what was lost after an entry, by default with that entry.

    Raises ChangesLost unless losses are to be marked.
    """
    bounds = store.history_bounds()
    gone = gone or after
    why = _reason(gone, bounds) or (_EMPTIED if bounds.last_generated_id == ORIGIN else _ROLLED_BACK)
    if not settings.mark:
        raise lost_error(registry, gone, why, bounds)
    return gap(registry.name, after, first, why)
