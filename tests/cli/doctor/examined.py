"""What `doctor` says of a registry, by check."""

from __future__ import annotations

import json
from typing import NamedTuple

from sharedroutes.cli.doctor.finding import Level
from tests.cli.terminal import run

OK, SKIPPED, WARNING, ERROR = Level.OK, Level.SKIPPED, Level.WARNING, Level.ERROR
UNSEEN = ("not looked at: ", "unknown: ")


class Said(NamedTuple):
    """One finding."""

    level: Level
    what: str
    why: str
    advice: str


def doctor(url: str, *words: str) -> dict[str, Said]:
    """Return the findings, the worst of each check; its exit status has to be that of the worst."""
    done = run(url, "doctor", *words, "--output", "ndjson")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines, done.output
    levels = [Level(line["level"]) for line in lines]
    assert done.exit_code == max(level.status for level in levels) == levels[0].status, done.output
    harmless = [line for line in lines if not Level(line["level"]).status]
    assert all(line["what"].startswith(UNSEEN) is (line["level"] == SKIPPED) for line in harmless), lines
    found: dict[str, Said] = {}
    for line in lines:
        said = Said(Level(line["level"]), line["what"], line["why"], line["advice"])
        found.setdefault(line["check"], said)
    assert all(bool(said.why) is bool(said.advice) for said in found.values() if said.level.status)
    return found
