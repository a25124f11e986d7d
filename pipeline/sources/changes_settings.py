"""The options of the source `route_changes`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import orjson

from ..schemas import CHANGES
from . import registries
from .options import Options
from .places import EARLIEST, LATEST
from .ranges import is_id
from .registries import Registry, registries_of

_MAX_CHANGES: Final = 200_000
_PAGE: Final = 10_000
_MOST_PARTITIONS: Final = 10_000
_MOST_ENTRIES: Final = 1_000_000

MEANINGS: Final = {
    "startingPosition": (
        "earliest, latest, or the id after which reading begins, which may be a time; "
        "or a JSON object of these by registry. A checkpoint goes before it. Default: earliest"
    ),
    "endingPosition": "latest, or the id of the last change to read; a stream has no end. Default: latest",
    "partitions": "how many tasks read a registry. Default: one for each processor of the driver's machine",
    "maxChangesPerTrigger": f"how many changes a batch of a stream has at most. Default: {_MAX_CHANGES}",
    "onLoss": "where changes were lost: fail, or mark it with a row of kind gap and go on. Default: fail",
    "onCorrupt": (
        "a record that cannot be read: quarantine, a row with `problem`, or fail. Default: quarantine"
    ),
    "pageEntries": f"how many changes are asked for at a time. Default: {_PAGE}",
}
"""What each option of the source's own means."""

OPTIONS: Final = (*registries.OPTIONS, *MEANINGS)
"""The names of all options."""


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
            options.number("partitions", os.cpu_count() or 1, low=1, high=_MOST_PARTITIONS),
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
        if is_id(position):
            return position
    raise options.bad(name, f"{position!r} is not {', '.join(words)} or an id such as 1790000000000-0")
