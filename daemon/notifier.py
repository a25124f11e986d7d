"""Tells systemd what the process does: that it is ready, reloads, makes progress, ends."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

_LOG: Final = logging.getLogger("sharedroutes.daemon")


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
                sender.settimeout(0)  # a manager that does not read must not stop the process
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
