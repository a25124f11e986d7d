"""Runs `sharedroutes pipeline ...` in this process, in the Spark session that is there."""

from __future__ import annotations

from typing import NamedTuple

from click.testing import CliRunner

from sharedroutes.cli.pipeline.group import pipeline


class Ran(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    """Standard output: results."""

    err: str
    """Standard error: what is for people who watch, and why it failed."""


def run(*words: object) -> Ran:
    """Run a command; raises what it did not turn into an exit status."""
    result = CliRunner().invoke(pipeline, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)
