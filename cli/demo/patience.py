"""Waiting for conditions, which a signal ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from types import FrameType
from typing import Final

_POLL_S: Final = 0.005
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoFailed(Exception):
    """The demo cannot go on."""


class Interrupted(Exception):
    """A signal asks the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


class Patience:
    """Waits for conditions in the main thread; a signal is taken up there, and nowhere in the middle."""

    def __init__(self) -> None:
        self._signal: int | None = None

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Take up signals for the length of a `with` block; to be called in the main thread."""
        before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def until(self, condition: Callable[[], bool], deadline_s: float) -> float | None:
        """Return when the condition became true, None if not within `deadline_s` seconds.

        Raises Interrupted.
        """
        deadline = monotonic() + deadline_s
        while True:
            if self._signal is not None:
                raise Interrupted(self._signal)
            if condition():
                return monotonic()
            if monotonic() >= deadline:
                return None
            sleep(_POLL_S)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._signal = number
