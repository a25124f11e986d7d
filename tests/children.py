"""Forked children of a test: each does one piece of work; one that hangs says where, and is ended."""

from __future__ import annotations

import contextlib
import faulthandler
import math
import os
import signal
import traceback
from collections.abc import Callable
from typing import Final, NoReturn, Self

from tests.support import wait_until

_REPORT_BYTES: Final = 65_536


class Child:
    """A fork of this process that runs `work` and nothing else of the test run.

    The end of the block waits for it, and raises AssertionError with what went wrong in it.
    """

    def __init__(self, work: Callable[[], object], within_s: float = 40.0) -> None:
        self._within_s = within_s
        self._exit_code: int | None = None
        self._report, told = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _run(work, told, within_s)
        os.close(told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                # By then it has ended itself, unless it hangs in what runs before its work.
                wait_until(self._ended, timeout_s=self._within_s + 2, description="the child has ended")
                assert self._exit_code == 0, f"in the child:\n{self._told()}"
        finally:
            if not self._ended():
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            os.close(self._report)

    def _ended(self) -> bool:
        if self._exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self._exit_code is not None

    def _told(self) -> str:
        os.set_blocking(self._report, False)
        with contextlib.suppress(BlockingIOError):
            return os.read(self._report, _REPORT_BYTES).decode()
        return "nothing was told"


def _run(work: Callable[[], object], told: int, within_s: float) -> NoReturn:
    exit_code = 1
    try:
        # Not dump_traceback_later(): what it starts is not there in a child of this child, which then hangs.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGALRM, file=told, chain=True)
        signal.alarm(math.ceil(within_s))
        work()
        exit_code = 0
    except BaseException:  # noqa: BLE001 - it is reported, and the child must never run the parent's code
        os.write(told, traceback.format_exc().encode())
    finally:
        os._exit(exit_code)
