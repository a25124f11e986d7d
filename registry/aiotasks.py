"""Ending tasks for certain: what asyncio and redis-py together do not."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

_CANCEL_AGAIN_S: Final = 0.1


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until all have ended: a cancellation that meets a timeout inside redis-py can get lost."""
    while waiting := [task for task in tasks if not task.done()]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=_CANCEL_AGAIN_S)


async def finish(closing: Coroutine[Any, Any, None]) -> None:
    """Await what closes something to its end, also when cancelled meanwhile; then be cancelled."""
    task = asyncio.ensure_future(closing)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def is_cancelled() -> bool:
    """Whether this task was asked to end; before Python 3.12, asyncio.wait_for may swallow the exception."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
