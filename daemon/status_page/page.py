"""What the page says: of a process and of its registry, with what is wrong first; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...registry.plans.changes import order
from ...registry.plans.overview import Overview
from ...registry.wording import counted
from .model import Cell, Fault, Level, Page, Process, Section, Table, Tile, ago, cut, length, names
from .registry_sections import sections

_MOST_FAULTS: Final = 50


@dataclass(frozen=True, slots=True)
class Look:
    """What the last look at the registry found, and how it went."""

    found: Overview | None = None
    """What was found when the store last answered; None = it never has."""

    age_s: float = 0.0
    """How long ago that was."""

    error: str = ""
    """Why the store does not answer now; empty = it does."""

    @property
    def now_ms(self) -> int:
        """The time by the clock of the store, as far as it is known."""
        return self.found.now_ms + round(1_000 * self.age_s) if self.found is not None else 0


def page_of(process: Process, look: Look, part: str = "") -> Page:
    """Return the page about a process and about the registry that it uses."""
    faults = _most(list(_faults(process, look)))
    found = look.found
    lines = (
        process.place,
        f"registry {process.namespace} at {process.store}",
        f"version {process.version}, up for {length(process.uptime_s)}",
    )
    registry = [] if found is None else sections(found, look.now_ms)
    return Page(
        title=process.title,
        lines=[cut(line) for line in lines if line],
        part=cut(part),
        tiles=[*_tiles(process, look, faults)],
        sections=[_fault_section(faults), *process.sections, *registry, *process.details],
    )


# --- faults ---


def _faults(process: Process, look: Look) -> Iterator[Fault]:
    """Yield what is wrong with the process, with its look at the store, and in the registry."""
    yield from (Fault("bad", "not ready", reason) for reason in process.unready)
    yield from process.faults
    if look.error:
        known = f"; below is what it said {length(look.age_s)} ago" if look.found is not None else ""
        yield Fault("bad", "store", f"{look.error}{known}")
    if look.found is not None:
        yield from _faults_of_registry(look.found)


def _faults_of_registry(found: Overview) -> Iterator[Fault]:
    yield from (Fault("bad", "foreign key", str(error)) for error in found.corrupt)
    for name, clients in sorted(found.hints.items(), key=lambda hint: (-len(hint[1]), hint[0])):
        who = names(sorted(clients)).text
        yield Fault("warn", name, f"{counted(len(clients), 'client')} cannot reach it: {who}")
    if found.away:
        who = names([name for name in found.brokers.first if name not in found.table.alive]).text
        text = f"{counted(found.away, 'broker has', 'brokers have')} no live replica"
        yield Fault("warn", "away", f"{text}: {who}" if who else text)


def _most(faults: list[Fault]) -> list[Fault]:
    """Return the faults, the worst first, and how many are left out."""
    faults.sort(key=lambda fault: fault.level != "bad")
    left_out = len(faults) - _MOST_FAULTS
    more = [Fault("warn", "more", f"{left_out:,} more are not shown")] if left_out > 0 else []
    return faults[:_MOST_FAULTS] + more


def _fault_section(faults: Sequence[Fault]) -> Section:
    rows = [(Cell(cut(about), level), Cell(cut(text))) for level, about, text in faults]
    heads = ("About", "What is known")
    return Section("faults", "Faults", Table("What is not as it should be", heads, rows, "None."))


# --- at a glance ---


def _tiles(process: Process, look: Look, faults: Sequence[Fault]) -> Iterator[Tile]:
    bad = sum(fault.level == "bad" for fault in faults)
    level: Level = "bad" if bad else "warn" if faults else "good"
    why = counted(len(faults), "fault") if faults else "no fault is known"
    yield Tile("State", "not ready" if process.unready else "ready", why, level, "faults")
    found = look.found
    if found is not None:
        alive = found.brokers.total - found.away
        note = f"{counted(found.leases, 'live replica')}, {found.away:,} away" if found.away else ""
        note = note or f"{counted(found.leases, 'live replica')}, none away"
        yield Tile("Brokers", f"{alive:,}", note, "warn" if found.away else "", "brokers")
        yield Tile("Topics", f"{found.topics.total:,}", "in the registry", "", "topics")
        yield _last_change(found, look.now_ms)
    yield from process.tiles


def _last_change(found: Overview, now_ms: int) -> Tile:
    at = order(found.feed.last_id)
    if at is None or not found.feed.entries:
        return Tile("Last change", "none", "in the feed", "", "changes")
    value = ago(at[0], now_ms).text
    return Tile(
        "Last change", value, f"of {counted(found.feed.entries, 'change')} in the feed", "", "changes"
    )
