"""What happens to route clients when their process is copied: pre-fork servers, multiprocessing."""

from __future__ import annotations

import functools
import os
import threading
from typing import Final, Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Who has locks and threads, of which a copy gets the locks only."""

    def before_fork(self) -> None:
        """Let nothing change until one of the others is called."""

    def after_fork_in_parent(self) -> None:
        """Go on: the copy was made."""

    def after_fork_in_child(self) -> None:
        """Begin anew: this is the copy."""


_ALL: Final[WeakSet[Forked]] = WeakSet()
_HELD: Final[list[Forked]] = []
"""Those that a fork under way holds: others may come and go meanwhile."""

_FORKING: Final = threading.Lock()
"""Held during a fork: two threads can fork at the same time."""


def survives_forks(forked: Forked) -> None:
    """Tell an object of every fork from now on, for as long as it lives."""
    _watch_forks()
    with _FORKING:
        _ALL.add(forked)


@functools.cache
def _watch_forks() -> None:
    """Do so once, and not for those who only import this."""
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)


def _before() -> None:
    _FORKING.acquire()
    _HELD.extend(_ALL)
    for forked in _HELD:
        forked.before_fork()


def _after_in_parent() -> None:
    while _HELD:
        _HELD.pop().after_fork_in_parent()
    _FORKING.release()


def _after_in_child() -> None:
    while _HELD:
        _HELD.pop().after_fork_in_child()
    _FORKING.release()
