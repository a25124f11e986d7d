"""The entry of `sharedroutes`, which works without any extra: it says then what to install."""

from __future__ import annotations

import sys
from typing import Final

from .extras import lacking

__all__ = ["main"]

_USAGE: Final = 2


def main() -> None:
    """Run the command line and exit with its status; with 2 when the extra `cli` is not installed."""
    problem = lacking("cli", "click")
    if problem is not None:
        sys.stderr.write(f"sharedroutes: {problem}\n")
        sys.exit(_USAGE)
    from .commands import sharedroutes  # noqa: PLC0415 - cannot be imported without the extra

    sharedroutes(prog_name="sharedroutes")
