"""Attempts whose end is told later, by a callback: on another thread, twice, or never."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any, Self

from ..errors import NotStored
from .log import Answer, AttemptLog, Begun
from .loops import Select, SelectLater, choose, choose_later


class _Told:
    """One attempt that is under way; the first word on its end counts, and no other; thread-safe."""

    __slots__ = ("_begun", "_log", "_open", "number", "queue")

    def __init__(self, log: AttemptLog, begun: Begun) -> None:
        self._log = log
        self._begun = begun
        self._open = threading.Lock()
        self.queue = begun.queue
        self.number = log.number
        """1 for the first attempt."""

    @property
    def timeout_s(self) -> float | None:
        """Seconds that the attempt may still take: never 0, None without a limit."""
        return self._begun.timeout_s(monotonic())

    def succeeded(self) -> bool:
        """Take in that the broker answered well; False if the end of this attempt was told before."""
        return self._is_first() and not self._log.leave(self._begun, None, monotonic())

    def _is_first(self) -> bool:
        return self._open.acquire(blocking=False)  # and never released

    def _fail(self, error: BaseException) -> bool:
        """Whether to try again; raises the error if it is not the broker's, and at the end what failed()."""
        if not self._is_first():
            return False
        if not self._log.leave(self._begun, error, monotonic()):
            raise error
        return self._goes_on()

    def _miss(self, answer: Any) -> bool:
        """Whether to try again; raises NotStored at the end."""
        if not self._is_first():
            return False
        self._log.leave(self._begun, None, monotonic(), answer=Answer(answer))
        return self._goes_on()

    def _goes_on(self) -> bool:
        if self._log.over and self._log.answer is not None:
            raise NotStored(self._log.topic, self._log.answer.value)
        return True


class Sending(_Told):
    """One attempt, for callbacks: use `queue`, then call succeeded(), failed() or not_stored().

    They may be called on whatever thread. Nothing is waited for, not even before a broker is tried again.
    Source: MQClientAPIImpl.onExceptionImpl.
    """

    __slots__ = ("_select",)

    def __init__(self, log: AttemptLog, select: Select) -> None:
        super().__init__(log, log.begin(choose(log, select, monotonic()), monotonic()))
        self._select = select

    def failed(self, error: BaseException) -> Sending | None:
        """Return the next attempt; None if the end of this one was told before.

        Raises the error itself if it is not the broker's. When there is no next attempt, raises
        AttemptsFailed, or NotStored if an earlier one had an answer.
        """
        return self._next() if self._fail(error) else None

    def not_stored(self, answer: Any) -> Sending | None:
        """Return the next attempt, after an answer of a broker that did not store the message as it should.

        None if the end of this one was told before. Raises NotStored with the answer when there is no next
        attempt, or when the policy wants none. Nobody is blamed.
        """
        return self._next() if self._miss(answer) else None

    def _next(self) -> Sending:
        return Sending(self._log, self._select)


class AsyncSending(_Told):
    """One attempt, for callbacks in an event loop; see Sending."""

    __slots__ = ("_select",)

    def __init__(self, log: AttemptLog, begun: Begun, select: SelectLater) -> None:
        super().__init__(log, begun)
        self._select = select

    @classmethod
    async def begin(cls, log: AttemptLog, select: SelectLater) -> Self:
        """Return the first attempt; raises what `select` raises."""
        queue = await choose_later(log, select, monotonic())
        return cls(log, log.begin(queue, monotonic()), select)

    async def failed(self, error: BaseException) -> Self | None:
        """Return the next attempt, or None; raises as Sending.failed."""
        return await self.begin(self._log, self._select) if self._fail(error) else None

    async def not_stored(self, answer: Any) -> Self | None:
        """Return the next attempt, or None; raises as Sending.not_stored."""
        return await self.begin(self._log, self._select) if self._miss(answer) else None
