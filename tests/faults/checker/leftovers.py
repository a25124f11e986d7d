"""What is left in the end, in the store, in the processes and in their logs: rules (h), (i) and (j)."""

from __future__ import annotations

import re
from typing import Final

from sharedroutes.registry.keys import Keys as KeyTable
from tests.faults.checker.history import Bounds, Keys, Log, Usage
from tests.faults.checker.past import Past, Verdict

COUNTS: Final = ("rss_kb", "threads", "descriptors", "connections")
_OF_NOTIFICATIONS: Final = ("threads", "descriptors")
_NO_NOTIFICATIONS: Final = "no notifications, looking every"
"""What an agent says where the machine has no inotify instance left; once it gets one, it takes more."""

_ERRORS: Final = ("ERROR", "CRITICAL")
_CLOCK_OF_STORE: Final = "store-clock"
"""What the names of faults begin with in which the clock of the store jumps."""

_JUMP: Final = r"clock of the store's server"
_ASKED_FOR: Final = (
    (
        re.compile(
            r"key of the registry is corrupt|something else than the registry wrote|holds another type"
            r"|foreign|does not hold what the registry wrote|entries of the change stream cannot be read"
        ),
        ("corrupt-", "delete-"),
    ),
    (re.compile(r"topics\.json has a problem"), ("topics-",)),
    (re.compile(r"command not allowed when used memory"), ("full",)),
    (re.compile(_JUMP), (_CLOCK_OF_STORE,)),
)
"""What is logged at ERROR, and the faults that ask for it."""


def keys_are_known(past: Past) -> Verdict:
    """Check that each key is of the key table, with its type and its TTL, and that `verify` finds nothing.

    Of `docs/design/table.md`: the table in Redis.
    """
    verdict = Verdict()
    for event in past.of(Keys):
        table = KeyTable(event.namespace)
        for name, type_name, ttl_ms in event.keys:
            why = _wrong_key(table, name, type_name, ttl_ms)
            verdict.check(why and f"the key {name} {why}", event)
        verdict.checked += 1
        for finding in event.verify:
            verdict.violate(f"verify: {finding}", event)
    return verdict


def _wrong_key(table: KeyTable, name: str, type_name: str, ttl_ms: int | None) -> str:
    found = table.kind_of(name)
    if found is None:
        return "is not in the key table"
    kind, _ = found
    if kind.type_name != type_name:
        return f"is a {type_name}, not a {kind.type_name}"
    if kind.expires and ttl_ms is None:
        return "has no TTL"
    if not kind.expires and ttl_ms is not None:
        return "has a TTL"
    return ""


def processes_return_to_where_they_were(past: Past) -> Verdict:
    """Check what each process takes in the end against what it took before the first fault.

    No sentence of the design: what grows with each fault ends a process some day. The last look counts:
    what a process has for a moment it gives back, on a busy machine later, and the run waits for that.
    """
    verdict = Verdict()
    before, after = (
        {usage.process: usage for usage in past.of(Usage) if usage.phase == phase}
        for phase in ("before", "after")
    )
    looking = {log.process for log in past.of(Log) if _NO_NOTIFICATIONS in log.text}
    for process in before.keys() & after.keys():
        names = [name for name in COUNTS if process not in looking or name not in _OF_NOTIFICATIONS]
        for name in names:
            reason = grown(before[process], after[process], name, past.bounds)
            verdict.check(reason, before[process], after[process])
    return verdict


def grown(first: Usage, last: Usage, name: str, bounds: Bounds) -> str:
    """Return by how much too much a count of a process has grown; empty = it has not."""
    had, has, more = getattr(first, name), getattr(last, name), getattr(bounds, name)
    reason = f"{last.process} has {name} {has}, and had {had}; {more} more are allowed"
    return reason if has > had + more else ""


def logs_are_clean(past: Past) -> Verdict:
    """Check that no process logged a traceback, or an ERROR that no fault of that time asks for.

    Of `docs/design.md`, what must always hold: 10, foreign data is "reported with the key"; and 2, a clock of
    the store that jumps is reported.
    """
    verdict = Verdict()
    for log in past.of(Log):
        why = ""
        if "Traceback (most recent call last)" in log.text:
            why = "a traceback"
        elif log.level in _ERRORS and not _is_asked_for(past, log):
            why = f"at {log.level}"
        verdict.check(why and f"{log.process} logged {why}: {log.text.splitlines()[0][:200]}", log)
    for window in past.faults:
        if window.fault.name.startswith(_CLOCK_OF_STORE):
            told = [log for log in past.of(Log) if re.search(_JUMP, log.text)]
            is_told = any(window.begin_us <= log.at_us <= window.end_us for log in told)
            verdict.check("" if is_told else "nobody says that the clock of the store jumped", window.fault)
    return verdict


def _is_asked_for(past: Past, log: Log) -> bool:
    """Whether a fault that is on, or has just been, breaks what is logged."""
    lasting = past.faults_in(log.at_us - 1_000 * past.bounds.converge_ms, log.at_us)
    names = [window.fault.name for window in lasting]
    return any(
        name.startswith(of_faults)
        for text, of_faults in _ASKED_FOR
        if text.search(log.text)
        for name in names
    )
