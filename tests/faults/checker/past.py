"""What several rules ask of a history: which faults lasted, how late the machine was, when leases lived."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, TypeGuard, TypeVar

from sharedroutes.registry import ChangeKind
from sharedroutes.registry.model import EXPIRED
from tests.faults.checker.history import (
    LISTED,
    STORE,
    Bounds,
    Change,
    Event,
    Expected,
    Fault,
    History,
    Late,
    Lease,
    Record,
    Replica,
    Route,
    Run,
    Started,
    TableContent,
)
from tests.faults.checker.lateness import Lateness, joined_windows

E = TypeVar("E", bound=Event)

NEVER_US: Final = 2**63
_BOTH_SIDES: Final = 2

_NOTHING: Final = TableContent()


class Violation(NamedTuple):
    """Something that must not be."""

    reason: str
    events: tuple[Event, ...]
    """What shows it, in the order of time."""


@dataclass(slots=True)
class Verdict:
    """What a rule found."""

    checked: int = 0
    """How often it had something to look at."""

    violations: list[Violation] = field(default_factory=list)

    def check(self, reason: str, *events: Event | None) -> None:
        """Note that something was looked at, and what is wrong with it; "" = nothing."""
        self.checked += 1
        if reason:
            self.violate(reason, *events)

    def violate(self, reason: str, *events: Event | None) -> None:
        """Note what is wrong, and what shows it."""
        shown = sorted((event for event in events if event is not None), key=at_us)
        self.violations.append(Violation(reason, tuple(shown)))


class FaultWindow(NamedTuple):
    """A fault from its begin to its end."""

    fault: Fault
    begin_us: int
    end_us: int
    """NEVER_US = it never ended."""


class Tenure(NamedTuple):
    """A lease of one owner at one address, from the look before the first that saw it."""

    replica: Replica
    epoch: int
    from_us: int
    seen_us: int
    """When it was seen last."""

    until_us: int
    """When it was first seen to be gone."""

    gone: Lease | None
    """The look that did not see it any more."""


class Past:
    """A history, and what follows from it."""

    def __init__(self, history: History) -> None:
        run = history[0]
        assert isinstance(run, Run)
        self.history: Final = history
        self.run: Final = run
        self.bounds: Final[Bounds] = run.bounds
        self.end_us: Final = history[-1].at_us
        self._of: dict[type, list[Event]] = defaultdict(list)
        for event in history:
            self._of[type(event)].append(event)
        self._calm_of: dict[str, list[tuple[int, int]]] = {}

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind, by time."""
        return self._of[kind]  # type: ignore[return-value]

    # --- faults ---------------------------------------------------------------------------------------------

    @cached_property
    def faults(self) -> list[FaultWindow]:
        """The faults, by their begin."""
        open_: dict[tuple[str, str], Fault] = {}
        windows = []
        for fault in self.of(Fault):
            key = (fault.name, fault.target)
            if fault.phase == "begin":
                open_[key] = fault
            elif key in open_:
                begin = open_.pop(key)
                windows.append(FaultWindow(begin, begin.at_us, fault.at_us))
        windows += [FaultWindow(begin, begin.at_us, NEVER_US) for begin in open_.values()]
        return sorted(windows, key=lambda window: window.begin_us)

    @cached_property
    def starts(self) -> dict[str, list[int]]:
        """By process, when it began, each time."""
        found: dict[str, list[int]] = defaultdict(list)
        for event in self.of(Started):
            found[event.who].append(event.at_us)
        return found

    def calm_since_us(self, who: str, at: int) -> int | None:
        """Return the end of the last fault that kept a process from the store; None = one lasts."""
        if who not in self._calm_of:
            self._calm_of[who] = joined_windows(sorted(self._disturbances(who)))
        windows = self._calm_of[who]
        index = bisect_right(windows, (at, NEVER_US)) - 1
        if index < 0:
            return 0
        end_us = windows[index][1]
        return None if at < end_us else end_us

    def begun_us(self, who: str, at: int) -> int:
        """Return when a process has had the time to begin that runs at a time."""
        starts = self.starts.get(who, [0])
        started_us = starts[max(0, bisect_right(starts, at) - 1)]
        return self.limit_us(started_us, self.bounds.back_ms, who)

    def _disturbances(self, who: str) -> Iterator[tuple[int, int]]:
        """Yield from when to when faults kept a process from the store, or from running."""
        for fault, begin_us, end_us in self.faults:
            if {who, STORE} & {*fault.disturbs}:
                yield begin_us, end_us
            elif who in fault.restarts:
                started = [at for at in self.starts.get(who, ()) if begin_us < at < end_us]
                yield begin_us, min(started, default=end_us)
                yield max(started, default=begin_us), end_us

    def faults_in(self, since_us: int, until_us: int) -> list[FaultWindow]:
        """Return the faults that lasted at some moment of that time."""
        return [of for of in self.faults if of.begin_us <= until_us and of.end_us >= since_us]

    def unreached(self, who: str, since_us: int, until_us: int) -> set[str]:
        """Return the brokers that faults kept a client from, at some moment of that time."""
        cuts = [
            of.fault.details["cuts"]
            for of in self.faults_in(since_us, until_us)
            if "cuts" in of.fault.details
        ]
        return {broker for client, broker in cuts if client == who}

    def may_have_lost(self, since_us: int, until_us: int) -> bool:
        """Whether the store may have forgotten what it held, in that time."""
        return any(window.fault.loses for window in self.faults_in(since_us, until_us))

    def stood_still(self, at: int) -> bool:
        """Whether the store was away for so long that leases have ended, then or shortly before."""
        lease_us = 1_000 * self.bounds.lease_ms
        return any(
            STORE in window.fault.disturbs and min(at, window.end_us) - window.begin_us >= lease_us
            for window in self.faults_in(at - lease_us, at)
        )

    def late_us(self, since_us: int, until_us: int, *who: str) -> int:
        """Return for how much of that time the machine did not run these, or what serves everybody."""
        return self._late.within_us(since_us, until_us, who)

    def limit_us(self, since_us: int, bound_ms: int, *who: str) -> int:
        """Return when a bound ends that begins then, and counts only while the machine runs these."""
        return self._late.limit_us(since_us, bound_ms, who)

    @property
    def everybody(self) -> Collection[str]:
        """Whoever had to wait for the machine: for bounds on what several do, one after the other."""
        return self._late.processes

    def was_starved(self, at_us: int, *who: str) -> bool:
        """Whether the machine did not run these for half of a lease before a time."""
        lease_us = 1_000 * self.bounds.lease_ms
        return 2 * self.late_us(at_us - lease_us, at_us, *who) >= lease_us

    @cached_property
    def _late(self) -> Lateness:
        return Lateness(self.of(Late))

    # --- truth ----------------------------------------------------------------------------------------------

    def expected_event(self, at: int) -> Expected | None:
        """Return what told last what is true."""
        events = self.of(Expected)
        index = bisect_right(events, at, key=at_us) - 1
        return events[index] if index >= 0 else None

    def expected_between(self, since_us: int, until_us: int) -> list[TableContent]:
        """Return what was true at a time, and what became true until another one."""
        later = [truth.table for truth in self.of(Expected) if since_us < truth.at_us <= until_us]
        return [self.expected_at(since_us), *later]

    def expected_at(self, at: int) -> TableContent:
        """Return what is true at a time."""
        event = self.expected_event(at)
        return event.table if event else _NOTHING

    def newest_change(self, at: int) -> Change | None:
        """Return the last change that had been seen by then."""
        index = bisect_right(self.of(Change), at, key=at_us) - 1
        return self.of(Change)[index] if index >= 0 else None

    def look_at(self, replica: Replica, since_us: int) -> Lease | None:
        """Return the first look at the lease of a replica after a time."""
        of = replica[:2]
        looks = self.of(Lease)
        return next((look for look in looks if look.at_us > since_us and (look.broker, look.id) == of), None)

    @cached_property
    def tenures(self) -> dict[tuple[str, int], list[Tenure]]:
        """By broker and id, the leases that were seen, by time."""
        return {replica: _tenures(of) for replica, of in self.looks.items()}

    @cached_property
    def looks(self) -> dict[tuple[str, int], list[Lease]]:
        """By broker and id, the looks at its lease, by time."""
        looks = defaultdict(list)
        for look in self.of(Lease):
            looks[look.broker, look.id].append(look)
        return looks

    def lives(self, replica: Replica, at: int) -> bool | None:
        """Whether a replica had a lease at a time; None = looks before and after it differ, or one lacks."""
        looks = self.looks.get(replica[:2], [])
        index = bisect_right(looks, at, key=at_us)
        around = looks[max(0, index - 1) : index + 1]
        seen = {look.epoch if look.address == replica.address else None for look in around}
        return None not in seen if len(around) == _BOTH_SIDES and len(seen) == 1 else None

    def is_coming(self, replica: Replica, at: int) -> bool:
        """Whether a replica had no lease when it was looked at last, and has one at the next look."""
        looks = self.looks.get(replica[:2], [])
        index = bisect_right(looks, at, key=at_us)
        return [of.address == replica.address for of in looks[max(0, index - 1) : index + 1]] == [False, True]

    @cached_property
    def arrivals(self) -> dict[Replica, list[int]]:
        """When the stream told of each replica that it has come."""
        found: dict[Replica, list[int]] = defaultdict(list)
        for change in self.of(Change):
            record = change.record
            if record is not None and record.kind == ChangeKind.UP:
                found[Replica(record.broker, record.id, record.address)].append(change.at_us)
        return found

    @cached_property
    def withdrawals(self) -> dict[tuple[str, int], list[int]]:
        """By broker and id, when it was seen that an owner, or a front, ended a lease."""
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for change in self.of(Change):
            if is_withdrawal(change.record):
                found[change.record.broker, change.record.id].append(change.at_us)
        return found


def at_us(event: Event) -> int:
    """Return when an event was."""
    return event.at_us


def said_between(routes: list[Route], since_us: int, until_us: int) -> list[Route]:
    """Return what a view was at a time, and what it became until another one."""
    first, end = (bisect_right(routes, at, key=at_us) for at in (since_us, until_us))
    return routes[max(0, first - 1) : end]


def is_withdrawal(record: Record | None) -> TypeGuard[Record]:
    """Whether a record tells that somebody ended a lease, and not time."""
    return record is not None and record.kind == ChangeKind.DOWN and record.reason != EXPIRED


def addresses_of(table: TableContent, topic: str) -> set[Replica]:
    """Return the live replicas that hold a topic; all of them for LISTED."""
    return {of for of in table.leases if topic == LISTED or topic in table.topics.get(of.broker, ())}


def _tenures(looks: list[Lease]) -> list[Tenure]:
    found: list[Tenure] = []
    before_us = 0
    for look in looks:
        last = found[-1] if found and found[-1].gone is None else None
        if last and (last.epoch, last.replica.address) == (look.epoch, look.address):
            found[-1] = last._replace(seen_us=look.at_us)
        else:
            if last:
                found[-1] = last._replace(until_us=look.at_us, gone=look)
            if look.epoch is not None:
                replica = Replica(look.broker, look.id, look.address)
                found.append(Tenure(replica, look.epoch, before_us, look.at_us, NEVER_US, None))
        before_us = look.at_us
    return found
