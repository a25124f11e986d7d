"""What an agent process says of itself on the page for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...daemon.status_page.model import Cell, Fault, Level, Process, Section, Table, Tile, cut, length, number
from ...registry.wording import counted
from ..planner.status import AgentStatus, Phase
from .process_status import ProcessStatus

_MOST_BROKERS: Final = 50
_SERVING: Final = (Phase.SERVING, Phase.HANDING_OVER)
_LEVELS: Final[dict[Phase, Level]] = {
    Phase.SERVING: "good",
    Phase.STANDBY: "good",
    Phase.HANDING_OVER: "good",
    Phase.BROKER_GONE: "bad",
}
"""How good a phase is; the others are on the way to one of these."""

_UP: Final = {True: Cell("alive", "good"), False: Cell("gone", "bad"), None: Cell("not known", "warn")}


def as_process(status: ProcessStatus) -> Process:
    """Return what stands on the page about an agent process."""
    served = sum(one.phase in _SERVING for one in status.brokers)
    brokers = len(status.brokers) + len(status.awaited)
    return Process(
        title="Broker agent",
        place=f"for {counted(brokers, 'broker')}",
        version=status.version,
        uptime_s=status.uptime_s,
        store=status.store,
        namespace=status.namespace,
        unready=(*status.unhealthy, *status.unready),
        faults=[*_faults(status)],
        tiles=[Tile("Served here", f"{served:,} of {brokers:,}", "brokers of this agent", "", "agent")],
        sections=[_brokers(status)],
    )


def _faults(status: ProcessStatus) -> Iterator[Fault]:
    if status.clock_problem is not None:
        yield Fault("bad", "clock of the store", status.clock_problem)
    for one in status.brokers:
        if one.trouble and not one.unready:  # else it stands there
            yield Fault("bad", one.name, one.trouble)
        doubts = (one.source_trouble, one.advice, one.waiting)
        yield from (Fault("warn", one.name, text) for text in doubts if text)
        if one.corrupt_keys:
            keys = cut(", ".join(one.corrupt_keys))
            yield Fault("bad", one.name, f"foreign keys that its registration left out: {keys}")


def _brokers(status: ProcessStatus) -> Section:
    heads = ("Broker", "Role", "Process", "Phase", "Since", "Lease confirmed", "Topics", "Table in store")
    rows = [_row(one) for one in status.brokers[:_MOST_BROKERS]]
    left_out = len(status.brokers) > len(rows)
    note = f"The first {_MOST_BROKERS} of {len(status.brokers):,}." if left_out else ""
    table = Table("What the agent does for each broker", heads, rows, "It has no broker yet.")
    return Section("agent", "Brokers of this agent", table, note)


def _row(one: AgentStatus) -> tuple[Cell, ...]:
    beat = "no lease" if one.last_heartbeat_s is None else f"{one.last_heartbeat_s:.1f} s ago"
    return (
        Cell(one.name),
        Cell(one.role),
        _UP[one.broker_up],
        Cell(one.phase, _LEVELS.get(one.phase, "warn")),
        Cell(f"{length(int(one.phase_s))} ago"),
        Cell(beat),
        number(one.topics),
        Cell("the same", "good") if one.in_step else Cell("another", "warn"),
    )
