"""What tests share: awaiting a condition instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = ["await_until", "wait_until"]

T = TypeVar("T")

_POLL_S: Final = 0.002


def wait_until(predicate: Callable[[], T], *, timeout_s: float = 5.0, description: str) -> T:
    """Return the first true value of `predicate`; raise AssertionError after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not (value := predicate()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s} s: {description}")
        pause.wait(_POLL_S)
    return value


async def await_until(predicate: Callable[[], Any], *, timeout_s: float = 5.0, description: str) -> Any:
    """Return the first true value of `predicate`, a function or a coroutine function; raise as wait_until."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = predicate()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s} s: {description}")
        await asyncio.sleep(_POLL_S)
