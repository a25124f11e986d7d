"""What supervisors of the process see: notifications to systemd, and whether its agents make progress."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from ..planner.status import AgentStatus, Phase

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_WORKING: Final = frozenset((Phase.SERVING, Phase.HANDING_OVER, Phase.REGISTERING))
"""Phases in which an agent calls the store again and again, or has tried to."""

_CALLS: Final = 6
_PATIENCE_S: Final = 60.0
"""One registration may take hundreds of calls, of which the counters show the last."""


class Notifier:
    """Sends to the socket in NOTIFY_SOCKET; without one it does nothing.

    A message that cannot be sent is reported once: the manager of services then sees to the consequences.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        if path and path[0] not in "/@":
            _LOG.warning(
                "NOTIFY_SOCKET: %r is neither a path nor an abstract socket: systemd is not notified", path
            )
            path = ""
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        self._status = ""
        self._complained = False
        self.watchdog_s = _watchdog_s(environment) if path else None
        """The interval in which systemd expects a sign of progress; None = it expects none."""

    def ready(self) -> None:
        """Say that the process works, at its start and after a reload."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Say that settings are being read anew; `ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, within_s: float) -> None:
        """Say that the process is about to end, and how long that may take, whatever TimeoutStopSec says."""
        self._send(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={round(within_s * 1_000_000)}")

    def progress(self) -> None:
        """Say that the process is not stuck."""
        if self.watchdog_s is not None:
            self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Give the line that `systemctl status` shows; the same one is sent once."""
        line = " ".join(text.split())
        if line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(0)  # a manager that does not read must not stop the agent
                sender.connect(self._address)
                sender.sendall(message.encode())
        except OSError as error:
            if not self._complained:
                self._complained = True
                _LOG.warning("NOTIFY_SOCKET: cannot send %s to systemd: %s", message.partition("=")[0], error)


def _watchdog_s(environment: Mapping[str, str]) -> float | None:
    """Return the interval of the watchdog if it is meant for this process (sd_watchdog_enabled(3))."""
    process = environment.get("WATCHDOG_PID", "")
    text = environment.get("WATCHDOG_USEC", "")
    if process not in ("", str(os.getpid())) or not (text.isascii() and text.isdecimal()):
        return None
    return int(text) / 1_000_000 or None


class _Look(NamedTuple):
    calls: tuple[int, ...]
    unchanged_s: float


class Progress:
    """Finds the agents that should have called the store, and have not for too long.

    Only time between two looks counts that are no more than `longest_s` apart: a process that was stopped, or
    whose machine slept, is given time to go on.
    """

    def __init__(self, *, longest_s: float = 5.0, patience_s: float = _PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._longest_s = longest_s
        self._seen: dict[str, _Look] = {}
        self._at_s: float | None = None
        self._stuck: dict[str, str] = {}

    def look(self, agents: list[tuple[AgentStatus, float]], now: float) -> None:
        """Compare each status with the last one; it comes with the longest time between calls."""
        passed_s = 0.0 if self._at_s is None else min(now - self._at_s, self._longest_s)
        self._at_s = now
        before, self._seen, self._stuck = self._seen, {}, {}
        for status, call_s in agents:
            calls = (status.heartbeats, status.registrations, status.failures, status.fenced)
            last = before.get(status.name)
            same = last is not None and last.calls == calls and status.phase in _WORKING
            unchanged_s = last.unchanged_s + passed_s if same and last is not None else 0.0
            self._seen[status.name] = _Look(calls, unchanged_s)
            if unchanged_s > max(self._patience_s, _CALLS * call_s):
                self._stuck[status.name] = (
                    f"{status.name}: {status.phase}, and has not called the store for {unchanged_s:.0f} s"
                )

    def stuck(self, name: str) -> str:
        """Return why the agent of this name counts as not working; empty = it works."""
        return self._stuck.get(name, "")

    @property
    def any_stuck(self) -> tuple[str, ...]:
        """Why agents count as not working."""
        return tuple(self._stuck.values())
