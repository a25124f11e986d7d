"""The entry of `sharedroutes`; `--help` and `--version` need no extra, so not even click."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from ..extras import lacking
from .places import ABOUT, COMMANDS, no_such_command, problem_of

_USAGE: Final = 2
_INTERRUPTED: Final = 130
"""As shells count: 128 and the number of SIGINT."""


def main() -> None:
    """Run the command line and exit with its status; with 2 when a command lacks its extras."""
    if find_spec("click") is None:
        sys.exit(_without_click(sys.argv[1:]))
    try:
        from .commands import sharedroutes  # noqa: PLC0415 - cannot be imported without click

        sharedroutes(prog_name="sharedroutes")
    except KeyboardInterrupt:  # while it is imported
        sys.exit(_INTERRUPTED)


def _without_click(words: Sequence[str]) -> int:
    """Answer `--version` and `--help`; return the exit status."""
    match words:
        case ["--version", *_]:
            from .. import __version__  # noqa: PLC0415 - looked up when it is asked for

            sys.stdout.write(f"sharedroutes, version {__version__}\n")
            return 0
        case ["--help" | "-h", *_]:
            sys.stdout.write(_help())
            return 0
        case []:
            sys.stderr.write(_help())
        case [name, *_] if name in COMMANDS:
            sys.stderr.write(f"Error: {problem_of(words) or lacking(f'`{name}`', 'cli')}\n")
        case [name, *_] if name.startswith("-"):
            sys.stderr.write(f"Error: No such option {name!r}.\n")
        case [name, *_]:
            sys.stderr.write(f"Error: {no_such_command(name, COMMANDS)}\n")
    return _USAGE


def _help() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        (
            "Usage: sharedroutes [OPTIONS] COMMAND [ARGS]...",
            f"\n  {ABOUT}",
            "\nOptions:",
            "  --version   Show the version and exit.",
            "  -h, --help  Show this message and exit.",
            "\nCommands:",
            *(f"  {name.ljust(width)}  {place.short_help}" for name, place in COMMANDS.items()),
            f"\n{lacking('A command', 'cli')}\n",
        )
    )
