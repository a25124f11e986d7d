"""A table that is shown anew, and what the rows of a board look like in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.text import Text
from textual.coordinate import Coordinate
from textual.widgets import DataTable

from ...registry.plans.replicas import ReplicaState
from ..output import shown
from .board import BrokerRow, ChangeRow, Fault, TopicRow

MOST_ROWS: Final = 500
"""A registry may have a hundred thousand topics: the search finds the others."""

_BAR: Final = 8
_LOW: Final = 1 / 3
_COLORS: Final = {ReplicaState.LIVE: "green", ReplicaState.DEAD: "red", ReplicaState.OUT: "yellow"}

Cells = tuple[Text, ...]


class Grid(DataTable[Text]):
    """A table whose rows are replaced, while the cursor stays where it is."""

    def __init__(self, columns: Sequence[str]) -> None:
        super().__init__(cursor_type="row")
        self._titles = columns
        self._cells: list[Cells] = []

    def on_mount(self) -> None:
        """Add the columns."""
        self.add_columns(*self._titles)

    def show(self, rows: list[Cells]) -> None:
        """Show these rows: in place if there are as many as before."""
        if len(rows) != len(self._cells):
            at = self.cursor_row
            self.clear()
            self.add_rows(rows)
            self.move_cursor(row=min(at, max(0, len(rows) - 1)))
        else:
            for place, (old, new) in enumerate(zip(self._cells, rows, strict=True)):
                self._renew(place, old, new)
        self._cells = rows

    def _renew(self, place: int, old: Cells, new: Cells) -> None:
        for column, (before, after) in enumerate(zip(old, new, strict=True)):
            if before != after:
                self.update_cell_at(Coordinate(place, column), after, update_width=True)


def broker_cells(row: BrokerRow) -> Cells:
    """Return the cells of a replica, with a bar for what is left of its lease."""
    state = Text(row.state, _COLORS[row.state])
    if row.trouble:
        state = Text(shown(row.trouble), "red" if row.state is ReplicaState.DEAD else "yellow")
    texts = (row.name, row.address or "unknown")
    return (
        *map(_plain, texts),
        _lease(row),
        Text(str(row.topics), justify="right"),
        state,
        _plain(row.cluster),
    )


def _lease(row: BrokerRow) -> Text:
    if row.left_s is None:
        return Text("-")
    seconds = f"{row.left_s:4.0f} s"
    if row.share is None:
        return Text(seconds)
    full = round(row.share * _BAR)
    color = "red" if row.share < _LOW else "green"
    return Text.assemble(("█" * full, color), ("░" * (_BAR - full), "dim"), seconds)


def topic_cells(row: TopicRow) -> Cells:
    """Return the cells of a topic."""
    live = Text(shown(" ".join(row.live)) or "none", "" if row.live else "red")
    return _plain(row.name), live, Text(shown(" ".join(row.gone)) or "-", "yellow" if row.gone else "dim")


def change_cells(row: ChangeRow) -> Cells:
    """Return the cells of a change, with the time of day by this host."""
    style = "bold yellow" if row.ms is None else ""
    return tuple(Text(shown(text), style) for text in (_clock(row.ms), row.kind, row.subject, row.details))


def _clock(ms: int | None) -> str:
    return "" if ms is None else f"{datetime.fromtimestamp(ms / 1_000, UTC).astimezone():%H:%M:%S}"


def fault_cells(fault: Fault) -> Cells:
    """Return the cells of a fault."""
    return _plain(fault.subject), Text(shown(fault.what), "red")


def _plain(text: str) -> Text:
    return Text(shown(text))
