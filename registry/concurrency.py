"""What the blocking modules have in place of `concurrency_async`, by the same names (tools/unasync.py)."""

from __future__ import annotations

from contextlib import closing as closing_fully
from time import sleep
from typing import Protocol

__all__ = ["close_fully", "closing_fully", "learn_nodes", "sleep"]


class Closes(Protocol):
    """What has connections to close."""

    def close(self) -> None:
        """Close them."""


def close_fully(thing: Closes) -> None:
    """Close something."""
    thing.close()


def learn_nodes(client: object) -> None:
    """Do nothing: the blocking client of a Cluster knows its nodes from its start."""
