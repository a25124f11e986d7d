"""What the Java producer and the Java consumer say of each message, and when."""

from __future__ import annotations

import subprocess
import threading
from time import monotonic
from typing import Final, NamedTuple

_EXPECTED: Final = frozenset(("sent", "failed", "received"))


class Said(NamedTuple):
    """One line of Traffic.java."""

    at_s: float
    what: str
    """`sent`, `failed` or `received`."""

    message_id: int
    rest: str
    """The name of the broker; why, if it has failed."""


class Traffic:
    """Reads from a thread what the process says until it ends; its records are only ever appended to."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.said: list[Said] = []
        self.is_done = False
        """Whether no more messages are sent."""

        self._process = process
        self._thread = threading.Thread(target=self._read, name="traffic")
        self._thread.start()

    def stop_sending(self) -> None:
        """Ask the producer to end; `is_done` says when it has."""
        if self._process.stdin is not None:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """Wait for the reading to end, after the process has."""
        self._thread.join()

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def has_used(self, brokers: frozenset[str], since_s: float, *whats: str) -> bool:
        """Whether each of the brokers has done each of these things since a time of the monotonic clock."""
        found = {(one.what, one.rest) for one in self.said if one.at_s >= since_s}
        return all((what, broker) in found for what in whats for broker in brokers)

    def lost(self) -> set[int]:
        """Return the messages that a broker has acknowledged, and the consumer has not received."""
        sent, received = (
            {one.message_id for one in self.said if one.what == what} for what in ("sent", "received")
        )
        return sent - received

    def _read(self) -> None:
        if self._process.stdout is None:
            return
        for line in self._process.stdout:
            what, _, rest = line.decode(errors="replace").strip().partition(" ")
            number, _, rest = rest.partition(" ")
            if what in _EXPECTED:
                self.said.append(Said(monotonic(), what, int(number), rest))
            self.is_done = self.is_done or what == "done"
