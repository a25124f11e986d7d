"""Plans that give their result in parts, so that a registry of any size fits in memory."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from ..differences import Progress
from .base import Batch, Plan, Reply

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a result."""

    found: tuple[T, ...]
    progress: Progress


Stream: TypeAlias = Generator[Batch | Page[T], list[Reply], None]
"""A plan that yields pages between its batches; it is run by `advance`, again and again."""


def advance(stream: Stream[T]) -> Plan[Page[T] | None]:
    """Run a stream up to its next page; None at its end. Whoever calls it closes the stream."""
    given = next(stream, None)
    while given is not None and not isinstance(given, Page):
        replies = yield given
        try:
            given = stream.send(replies)
        except StopIteration:
            return None
    return given
