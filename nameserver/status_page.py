"""What a front says of itself on the page for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..daemon.status_page.model import FACTS, Cell, Fault, Process, Section, Table, Tile, length, number
from ..registry.wording import counted
from .status import ProcessStatus

_LATE_S: Final = 5.0
"""A front hears from the store every second."""

_FACTS: Final = {
    "Connections": "connections",
    "Connections of brokers that have registered": "sessions",
    "Requests that wait for the store": "in_flight",
    "Requests that were refused: too many waited for the store": "busy_total",
    "Requests that an unexpected error ended": "failures_total",
    "Frames that could not be read": "decode_errors_total",
    "Bytes that peers have not taken yet": "unread_bytes",
}
"""What is shown of the numbers, by the name of their family."""


def as_process(status: ProcessStatus) -> Process:
    """Return what stands on the page about a process of the front."""
    sessions = f"{_sum(status, 'sessions'):,.0f} of brokers"
    return Process(
        title="Name server front",
        place=f"at {status.listen}" if status.listen else "",
        version=status.version,
        uptime_s=status.uptime_s,
        store=status.store,
        namespace=status.namespace,
        unready=(*status.unhealthy, *status.unready),
        faults=[*_faults(status)],
        tiles=[
            Tile("Requests", f"{_sum(status, 'requests_total'):,.0f}", "since it started", "", "front"),
            Tile("Connections", f"{_sum(status, 'connections'):,.0f}", sessions, "", "front"),
        ],
        sections=[*_workers(status)],
        details=[_front(status)],
    )


def _faults(status: ProcessStatus) -> Iterator[Fault]:
    age_s = _sum(status, "feed_age_seconds")
    if age_s > _LATE_S:
        yield Fault("bad", "feed", f"the store was last heard of {length(age_s)} ago: routes may be old")
    held = int(_sum(status, "held"))
    if held:
        text = counted(held, "broker or topic is", "brokers and topics are")
        yield Fault("warn", "held", f"{text} served although the store lacks them, until that is sure")


def _front(status: ProcessStatus) -> Section:
    rows = [(Cell(words), number(_sum(status, name))) for words, name in _FACTS.items()]
    prober = "yes" if _sum(status, "prober") else "no"
    rows.append((Cell("Asks brokers that no agent watches"), Cell(prober, is_number=True)))
    if status.samples.get("feed_age_seconds"):
        age = f"{_sum(status, 'feed_age_seconds'):.1f} s ago"
        rows.append((Cell("Heard from the store"), Cell(age, is_number=True)))
    return Section("front", "This front", Table("What it does", FACTS, rows, ""))


def _workers(status: ProcessStatus) -> Iterator[Section]:
    if status.workers:
        heads = ("Worker", "Process", "Restarts", "State")
        rows = [
            (
                Cell(f"worker {one['number']}"),
                Cell(str(one.get("pid", "none"))),
                number(one["restarts"]),
                Cell("; ".join(one["unready"]), "bad") if one.get("unready") else Cell("ready", "good"),
            )
            for one in status.workers
        ]
        yield Section("workers", "Workers", Table("The processes of this front", heads, rows, ""))


def _sum(status: ProcessStatus, name: str) -> float:
    return sum(found for _, found in status.samples.get(name, ()))
