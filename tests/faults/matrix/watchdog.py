"""Writes down how late its own timer is, which is for how long the machine let nobody run: FOLDER."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from tests.faults.checker.history import LEAST_LATE_MS, Late, Writer

_TICK_S: Final = 0.01


def main(folder: str) -> None:
    """Watch until killed."""
    with Writer(Path(folder, "history"), "watchdog") as history:
        before_s = time.monotonic()
        while True:
            time.sleep(_TICK_S)
            now_s = time.monotonic()
            late_s = now_s - before_s - _TICK_S
            if late_s * 1_000 >= LEAST_LATE_MS:
                history.write(Late(late_ms=round(late_s * 1_000)))
            before_s = now_s


if __name__ == "__main__":
    main(*sys.argv[1:])
