"""Keeps a board up to date from a store: its feed, and listings at every change and every other second."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from ...registry import AsyncRouteStore, Change, Reset
from ...registry.errors import CorruptData, StoreRefused, StoreUnavailable
from ...registry.model import ChangeKind
from ...registry.plans.replicas import roster
from .board import Board

_LIST_S: Final = 2.0
"""Agents renew a lease every 5 s by default: a bar that fills up is seen to do so soon."""

_IDLE_S: Final = 0.5
_OF_REPLICAS: Final = frozenset((ChangeKind.UP, ChangeKind.DOWN, ChangeKind.WIPED, ChangeKind.LIFTED))


class Feed:
    """Two tasks: one follows, one lists."""

    def __init__(self, store: AsyncRouteStore, board: Board) -> None:
        self._store = store
        self._board = board
        self._must_list = asyncio.Event()
        self._is_told = False
        """Whether the change stream was asked since when each replica is what it is."""

    async def run(self) -> None:
        """Keep the board up to date until it is cancelled; raises StoreRefused for what will not pass."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(), name="sharedroutes watch: follows")
            tasks.create_task(self._list(), name="sharedroutes watch: lists")

    async def _follow(self) -> None:
        async with self._store.follow(idle_s=_IDLE_S) as items:
            async for item in items:
                if isinstance(item, Reset):
                    if item.table is not None:
                        self._board.reset(item.table)
                    self._is_told = False
                    self._must_list.set()
                elif isinstance(item, Change):
                    self._board.change(item)
                    if item.kind in _OF_REPLICAS:
                        self._must_list.set()
                error = items.health().last_error
                if error is not None:
                    self._board.failed(error, monotonic())

    async def _list(self) -> None:
        while True:
            self._must_list.clear()
            try:
                found = await self._store.run(roster(self._store.keys, since=not self._is_told))
                hints = await self._store.hints()
            except (StoreUnavailable, CorruptData) as error:
                self._board.failed(str(error), monotonic())
            except StoreRefused as error:
                if not self._is_told:
                    raise
                self._board.failed(str(error), monotonic())
            else:
                self._is_told = True
                self._board.listed(found.found, hints, monotonic())
            try:
                async with asyncio.timeout(_LIST_S):
                    await self._must_list.wait()
            except TimeoutError:
                continue
