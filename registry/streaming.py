"""Iteration over streams, in two faces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from .plans import Progress, Stream, advance
from .running import AsyncRun, Run

T = TypeVar("T")

OnProgress = Callable[[Progress], object]
"""Is called now and then, with how far an operation has come."""


def iterate(run: Run, stream: Stream[T], progress: OnProgress | None) -> Iterator[T]:
    """Yield what a stream finds; the next part is asked for when the one before has been taken."""
    try:
        while (page := run(advance(stream))) is not None:
            yield from page.found
            if progress is not None:
                progress(page.progress)
    finally:
        stream.close()


async def aiterate(run: AsyncRun, stream: Stream[T], progress: OnProgress | None) -> AsyncIterator[T]:
    """Yield what a stream finds; the next part is asked for when the one before has been taken."""
    try:
        while (page := await run(advance(stream))) is not None:
            for item in page.found:
                yield item
            if progress is not None:
                progress(page.progress)
    finally:
        stream.close()
