"""A table that is shown anew, and what the rows of a board look like in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.cells import cell_len
from rich.text import Text
from textual.coordinate import Coordinate
from textual.widgets import DataTable

from ...daemon.printing import shown
from ...registry.plans.replicas import ReplicaState
from .board import BrokerRow, ChangeRow, Fault, TopicRow

MOST_ROWS: Final = 500
"""A registry may have a hundred thousand topics: the search finds the others."""

_NARROWEST: Final = 8
"""Of a column that yields: what is left still tells one address from another."""

_BAR: Final = 8
_LOW: Final = 1 / 3
_COLORS: Final = {ReplicaState.LIVE: "green", ReplicaState.DEAD: "red", ReplicaState.OUT: "yellow"}

Cells = tuple[Text, ...]


class Grid(DataTable[Text]):
    """A table whose rows are replaced, while the cursor stays where it is.

    Columns that are named in `yielding` become narrower where the terminal is too narrow for all: those of
    the first group first, the widest of them first. Without them the table is as wide as its texts.
    """

    def __init__(self, columns: Sequence[str], yielding: Sequence[Sequence[str]] = ()) -> None:
        super().__init__(cursor_type="row")
        self._titles = columns
        self._yielding = [[*map(columns.index, group)] for group in yielding]
        self._widths: list[int] = []
        self._cells: list[Cells] = []

    def on_mount(self) -> None:
        """Add the columns."""
        self._build([*map(cell_len, self._titles)], [])

    def show(self, rows: list[Cells]) -> None:
        """Show these rows: in place if there are as many as before, and as wide."""
        columns = zip(map(Text, self._titles), *rows, strict=True)
        widths = [max(text.cell_len for text in column) for column in columns]
        if self._yielding:
            widths = fitted(widths, self._room(), self._yielding)
        cut = [tuple(map(_cut, row, widths)) for row in rows]
        if widths != self._widths or len(rows) != len(self._cells):
            self._build(widths, cut)
        else:
            for place, (old, new) in enumerate(zip(self._cells, cut, strict=True)):
                self._renew(place, old, new)
        self._cells = cut

    def _room(self) -> int:
        """Return how many cells the texts have, beside what stands around them."""
        around = 2 * self.cell_padding * len(self._titles) + self.scrollbar_size_vertical
        return self.app.size.width - around

    def _build(self, widths: list[int], rows: Iterable[Cells]) -> None:
        at = self.cursor_row
        self.clear(columns=True)
        for title, width in zip(self._titles, widths, strict=True):
            self.add_column(title, width=width)
        self.add_rows(rows)
        self.move_cursor(row=min(at, max(0, self.row_count - 1)))
        self._widths = widths

    def _renew(self, place: int, old: Cells, new: Cells) -> None:
        for column, (before, after) in enumerate(zip(old, new, strict=True)):
            if before != after:
                self.update_cell_at(Coordinate(place, column), after)


def fitted(widths: Sequence[int], room: int, groups: Iterable[Iterable[int]]) -> list[int]:
    """Return the widths of columns that fit into a room, as far as columns of these groups can yield."""
    found = [*widths]
    for group in groups:
        while sum(found) > room:
            widest = max(group, key=found.__getitem__)
            if found[widest] <= _NARROWEST:
                break
            found[widest] -= 1
    return found


def _cut(text: Text, width: int) -> Text:
    if text.cell_len <= width:
        return text
    short = text.copy()
    short.truncate(width, overflow="ellipsis")
    return short


def broker_cells(row: BrokerRow) -> Cells:
    """Return the cells of a replica, with a bar for what is left of its lease."""
    state = Text(row.state, _COLORS[row.state])
    if row.trouble:
        state = Text(shown(row.trouble), "red" if row.state is ReplicaState.DEAD else "yellow")
    topics = Text(str(row.topics), justify="right")
    return (
        _plain(row.name),
        _lease(row),
        topics,
        state,
        _plain(row.address or "unknown"),
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
