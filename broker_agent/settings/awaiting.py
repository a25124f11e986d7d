"""Waits for a broker.conf that cannot be read yet: nobody orders the starts of broker and agent."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...registry import InvalidInput
from ..config import AgentConfig
from ..daemon_threads import in_thread
from .brokers import twins
from .sidecar_config import AwaitedBroker, BrokerSettings

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")


@dataclass(slots=True)
class _Waiting:
    broker: AwaitedBroker
    why: str


class Awaiting:
    """Looks at files that could not be read; each trouble with one is logged once."""

    def __init__(self) -> None:
        self._waiting: dict[Path, _Waiting] = {}

    @property
    def why(self) -> tuple[str, ...]:
        """Why brokers are waited for: a sentence each."""
        return tuple(f"{one.why}: waiting for it" for one in self._waiting.values())

    def wait_for(self, brokers: Sequence[AwaitedBroker]) -> None:
        """Wait for these, and for no others any more."""
        before, self._waiting = self._waiting, {}
        for broker in brokers:
            known = before.get(broker.path)
            if known is None:
                _LOG.warning("%s: waiting for it", broker.why)
            self._waiting[broker.path] = _Waiting(broker, known.why if known else broker.why)

    async def look(self, agents: Callable[[], Iterable[AgentConfig]]) -> AsyncGenerator[BrokerSettings, None]:
        """Look at every file once, and yield the brokers that can be started besides those `agents`."""
        for path, waiting in list(self._waiting.items()):
            try:
                read = await in_thread(waiting.broker.read)
            except InvalidInput as error:
                self._say(waiting, "; ".join(str(error).splitlines()))
                continue
            if self._waiting.get(path) is not waiting:  # a reload came between
                continue
            if isinstance(read, AwaitedBroker):
                self._say(waiting, read.why)
            elif same := twins((*agents(), read.config)):
                self._say(waiting, same[0])
            else:
                del self._waiting[path]
                yield read

    def _say(self, waiting: _Waiting, why: str) -> None:
        if why != waiting.why:
            waiting.why = why
            _LOG.warning("%s: waiting for it", why)
