"""`watch`: tables of what is known of a registry at a terminal, with keys to search and to filter."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import ClassVar, Final

import click
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.widgets import Footer, Input, Static, TabbedContent, TabPane

from ...daemon.option import masked
from ...registry import AsyncRouteStore, RegistryError
from ...registry.acl import Role
from ...registry.plans.replicas import ReplicaState
from ...registry.wording import counted
from ..store_options import opened, registry_options, told_errors
from .board import Board, Filter, StoreState
from .feed import Feed
from .grid import MOST_ROWS, Cells, Grid, broker_cells, change_cells, fault_cells, topic_cells

_TICK_S: Final = 0.5
_LATEST: Final = 3
_STDIN: Final = 0
_BY_SIGNAL: Final = 128
_NO_TERMINAL: Final = "watch needs a terminal; `sharedroutes changes --follow` tells the same to a pipe"
_NOTHING_YET: Final = "nothing has changed since this began"
_PANES: Final = {
    "brokers": ("broker", "lease", "topics", "state", "address", "cluster"),
    "topics": ("topic", "live brokers", "other brokers"),
    "changes": ("time", "change", "of what", "details"),
    "faults": ("of what", "fault"),
}
_YIELDING: Final = {"brokers": (("cluster",), ("state", "address"), ("broker",))}
"""Columns that become narrower at a narrow terminal: a lease is always seen to run down."""


@click.command()
@registry_options
def watch(redis_url: str, namespace: str) -> None:
    """Show brokers with leases that run down, topics, changes as they happen, and faults, until `q`.

    Keys: 1 brokers, 2 topics, 3 changes, 4 faults; / searches, Escape shows everything again; f shows all,
    only what lives, or only what is in trouble; the arrows move; q ends it. A store that is away is waited
    for. Exit status 0 after q, 130 after Ctrl-C, 143 after SIGTERM, 1 when the store refuses.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(_NO_TERMINAL)
    # What the registry logs would be written into the view, which shows it itself.
    logging.getLogger("sharedroutes").addHandler(logging.NullHandler())
    logging.getLogger("sharedroutes").propagate = False
    with told_errors(Role.READER, namespace):
        sys.exit(asyncio.run(_watched(redis_url, namespace)))


async def _watched(redis_url: str, namespace: str) -> int:
    """Run the view; return its exit status, or raise the RegistryError that ended it."""
    async with opened(AsyncRouteStore, redis_url, namespace) as store:
        app = WatchApp(store, f"{namespace} at {masked(redis_url)}")
        await app.run_async()
    if app.error is not None:
        raise app.error
    return app.return_code or 0


class WatchApp(App[None]):
    """Shows a board, and keeps it up to date from a store."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { overflow: hidden; }
    TabbedContent { height: 1fr; }
    ContentSwitcher { height: 1fr; }
    TabPane { height: 1fr; padding: 0; }
    #head, #sums { height: 1; }
    #latest { height: 4; color: $text-muted; border-top: solid $primary; }
    #search { height: 1; border: none; padding: 0; background: $surface; }
    Grid { height: 1fr; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"pane('{name}')", name) for number, name in enumerate(_PANES, 1)),
        Binding("slash", "search", "search", key_display="/", priority=True),
        Binding("escape", "clear", "clear", show=False),
        Binding("f", "filter", "filter"),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    def __init__(self, store: AsyncRouteStore, title: str) -> None:
        super().__init__()
        self.board = Board()
        self.shown = Filter.ALL
        self.query_text = ""
        self.error: RegistryError | None = None
        """Why it ended by itself; None = it did not."""

        self._store = store
        self._title = title

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield Static(id="head")
        yield Static(id="sums")
        with TabbedContent(*_PANES):
            for name, columns in _PANES.items():
                with TabPane(name, id=name):
                    yield Grid(columns, _YIELDING.get(name, ()))
        yield Input(placeholder="/ searches, Enter keeps it, Escape shows everything again", id="search")
        yield Static(id="latest")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to follow the store, and to heed signals."""
        self.set_interval(_TICK_S, self.refresh_board)
        if os.isatty(_STDIN):
            self.set_interval(_TICK_S, _end_without_terminal)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(ValueError, RuntimeError):  # not in the main thread, as in a test
                loop.add_signal_handler(number, self._end_by, number)
        self.run_worker(self._feed(), exit_on_error=False)
        self.refresh_board()
        self.action_pane("brokers")

    async def _feed(self) -> None:
        try:
            await Feed(self._store, self.board).run()
        except* RegistryError as group:
            self.error = _first(group)
            self.exit(return_code=1)

    # --- keys -----------------------------------------------------------------------------------------------

    def action_pane(self, name: str) -> None:
        """Show one of the tables."""
        self.query_one(TabbedContent).active = name
        self.set_focus(self._grid(name))
        self.refresh_board()

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool:
        """Say whether a key does something now; a slash within a search is a slash."""
        return action != "search" or not isinstance(self.focused, Input)

    def action_search(self) -> None:
        """Let somebody type what to search for; at once, so that what is typed next goes there."""
        self.set_focus(self.query_one("#search", Input))

    def action_clear(self) -> None:
        """Show everything again."""
        self.query_one("#search", Input).value = self.query_text = ""
        self.shown = Filter.ALL
        self.action_pane(self.pane)

    def action_filter(self) -> None:
        """Show all, then only what lives, then only what is in trouble."""
        self.shown = self.shown.following
        self.refresh_board()

    def action_interrupt(self) -> None:
        """End as by SIGINT, which a terminal does not send while keys are read one by one."""
        self._end_by(signal.SIGINT)

    def _end_by(self, number: int) -> None:
        self.exit(return_code=_BY_SIGNAL + number)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search while somebody types."""
        self.query_text = event.value
        self.refresh_board()

    def on_input_submitted(self) -> None:
        """Go back to the table, and keep the search."""
        self.set_focus(self._grid(self.pane))

    # --- what is shown --------------------------------------------------------------------------------------

    @property
    def pane(self) -> str:
        """The table that is shown."""
        return self.query_one(TabbedContent).active

    def _grid(self, name: str) -> Grid:
        return self.query_one(f"#{name} Grid", Grid)

    def refresh_board(self) -> None:
        """Show the board as it is now: leases run down, and many changes at once are shown once."""
        with suppress(NoMatches):  # while it ends, the widgets go before the timer does
            self._show(monotonic())

    def _show(self, now_s: float) -> None:
        self.query_one("#head", Static).update(self._head(now_s))
        rows = self._rows(self.pane or "brokers", now_s)
        self.query_one("#sums", Static).update(self._sums(len(rows), now_s))
        self._grid(self.pane or "brokers").show(rows[:MOST_ROWS])
        latest = [*self.board.changes][:_LATEST]
        lines = [Text("  ").join(change_cells(row)) for row in reversed(latest)] or [Text(_NOTHING_YET)]
        self.query_one("#latest", Static).update(Text("\n", no_wrap=True, overflow="ellipsis").join(lines))

    def _rows(self, pane: str, now_s: float) -> list[Cells]:
        board, query, kept = self.board, self.query_text, self.shown
        made: dict[str, Callable[[], list[Cells]]] = {
            "brokers": lambda: [*map(broker_cells, board.brokers(now_s, query, kept))],
            "topics": lambda: [*map(topic_cells, board.topics(query, kept))],
            "changes": lambda: [*map(change_cells, board.changes_of(query))],
            "faults": lambda: [*map(fault_cells, board.faults(now_s, query))],
        }
        return made[pane]()

    def _head(self, now_s: float) -> Text:
        board = self.board
        if board.state is StoreState.ANSWERS:
            return Text.assemble((self._title, "bold"), "  the store answers")
        if board.state is StoreState.AWAITED:
            why = f": {board.why_away}" if board.why_away else ""
            return Text.assemble((self._title, "bold"), (f"  waiting for the store{why}", "bold yellow"))
        away = f"  the store is away for {board.away_s(now_s):.0f} s: {board.why_away}"
        return Text.assemble((self._title, "bold"), (away, "bold red"))

    def _sums(self, rows: int, now_s: float) -> Text:
        """Return what was narrowed down, which a narrow terminal must not cut off, and then the sums."""
        texts = []
        if self.shown is not Filter.ALL:
            texts.append(f"only {self.shown}")
        if self.query_text:
            texts.append(f"only with {self.query_text!r}")
        if rows > MOST_ROWS:
            texts.append(f"{MOST_ROWS} of {rows} shown: search with /")
        counts = ", ".join(f"{self.board.count(state)} {state}" for state in ReplicaState)
        faults = len(self.board.faults(now_s))
        texts += [counts, counted(self.board.topic_count, "topic"), counted(faults, "fault")]
        return Text("  |  ".join(texts), no_wrap=True, overflow="ellipsis")


def _end_without_terminal() -> None:
    """End at once where the terminal is gone: nobody looks, and what reads the keys would spin for ever."""
    if not os.isatty(_STDIN):
        os._exit(_BY_SIGNAL + signal.SIGHUP)


def _first(group: BaseExceptionGroup[RegistryError]) -> RegistryError:
    one = group.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
