"""Something that is looked at again and again, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self


class Watcher:
    """Does something again and again on a thread of its own; a fault of its own is raised by `check`."""

    def __init__(self, name: str, every_s: float, look: Callable[[], None]) -> None:
        self._every_s = every_s
        self._look = look
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Raise what ended it, if something has."""
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            while not self._over.wait(self._every_s):
                self._look()
        except BaseException as error:
            self._failure = error
            raise
