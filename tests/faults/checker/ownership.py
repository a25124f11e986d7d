"""Who may be sent to, and whose word counts: rules (a), (b) and (g)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

from sharedroutes.registry import ChangeKind
from tests.faults.checker.endings import FRONT, has_lived, is_left_alone
from tests.faults.checker.history import (
    FAILOVER,
    Change,
    Event,
    Item,
    Lease,
    Record,
    Replica,
    Route,
    Sent,
    Started,
    State,
)
from tests.faults.checker.past import Past, Tenure, Verdict
from tests.faults.checker.returns import check_that_nothing_goes_back
from tests.faults.checker.roles import check_that_one_speaks_for_each, check_that_the_promoted_serve
from tests.faults.checker.wipes import check_that_agents_give_back, check_that_wipes_hold

_BY_AN_OWNER: Final = (ChangeKind.UP, ChangeKind.DOWN, ChangeKind.TOPICS)


def _is_by_an_owner(record: Record) -> bool:
    """Whether an owner wrote a record: a repair of an operator has no epoch."""
    return record.kind in _BY_AN_OWNER and record.epoch > 0


# --- (a) no address is used longer after the end of its lease than promised ---------------------------------


class _Use(NamedTuple):
    """A client holds an address for alive at a time."""

    event: Route | Sent
    broker: str
    address: str
    at_us: int
    held: bool


def addresses_end_with_their_lease(past: Past) -> Verdict:
    """Check what clients and lookups name against the leases that the primary had.

    Of `docs/design.md`, what must always hold: 1, "a lookup never returns an address whose lease has ended",
    and of clients 6 and 7: they know within 1 s, and hold back longer only what they say that they hold. A
    client that says that it does not reach the store serves what it knew, for as long as (d) lets it.
    """
    verdict = Verdict()
    tenures_of: dict[tuple[str, str], list[Tenure]] = defaultdict(list)
    for tenure in chain.from_iterable(past.tenures.values()):
        tenures_of[tenure.replica.broker, tenure.replica.address].append(tenure)
    for use in _uses(past):
        calm_since = past.calm_since_us(use.event.who, use.at_us)
        if calm_since is None:
            continue
        if use.event.stale and use.at_us <= past.limit_us(calm_since, past.bounds.converge_ms, use.event.who):
            continue
        last = _last_before(tenures_of[use.broker, use.address], use.at_us)
        why = "has had no lease yet" if last is None else _used_too_late(past, use, last, calm_since)
        reason = f"{use.event.who} uses {use.broker} at {use.address}, which {why}"
        verdict.check(why and reason, last.gone if last else None, use.event)
    check_that_nothing_goes_back(past, verdict)
    check_that_one_speaks_for_each(past, verdict)
    check_that_the_promoted_serve(past, verdict)
    return verdict


def _uses(past: Past) -> Iterator[_Use]:
    for event in past.history:
        if isinstance(event, Sent):
            yield _Use(event, event.broker, event.address, event.began_us or event.at_us, event.held)
        elif isinstance(event, Route):
            for broker, _, address in event.brokers or ():
                yield _Use(event, broker, address, event.at_us, broker in event.held)


def _last_before(tenures: list[Tenure], at: int) -> Tenure | None:
    """Return the lease that ended last, of those that had begun."""
    return max((found for found in tenures if found.from_us <= at), key=attrgetter("until_us"), default=None)


def _used_too_late(past: Past, use: _Use, tenure: Tenure, calm_since: int) -> str:
    """Return what is wrong about this use of an address; empty = nothing."""
    began_us = use.event.began_us if isinstance(use.event, Route) and use.event.fresh else use.at_us
    if (began_us or use.at_us) <= tenure.until_us:
        return ""
    if isinstance(use.event, Route) and use.event.fresh:
        if _began_between_looks(past, tenure.replica, use.at_us):
            return ""
        said_us = began_us - 1_000 * past.bounds.confirm_ms
        said_us -= past.late_us(said_us, began_us, use.event.who)
        failed_over = any(window.fault.name == FAILOVER for window in past.faults_in(said_us, use.at_us))
        return "" if failed_over else "has no lease any more, as the store said before this lookup"
    bounds, withdrawn = past.bounds, _was_withdrawn(past, tenure)
    holds_ms = bounds.hold_ms if use.held and not withdrawn else 0
    limit_us = tenure.until_us + 1_000 * (bounds.stale_ms + holds_ms)
    since_us = tenure.until_us
    if calm_since + 1_000 * bounds.converge_ms > limit_us and calm_since:
        limit_us, since_us = calm_since + 1_000 * bounds.converge_ms, calm_since
    if not withdrawn and use.event.who.startswith("front-"):  # which does not say whom it holds back
        limit_us = max(limit_us, _held_until_us(past, tenure))
    if use.at_us <= limit_us + past.late_us(since_us, use.at_us, use.event.who):
        return ""
    how = "was withdrawn" if withdrawn else "lost its lease"
    ago_s, allowed_s = (use.at_us - tenure.until_us) / 1e6, (limit_us - tenure.until_us) / 1e6
    return f"{how} {ago_s:.3f} s before; {allowed_s:.3f} s are allowed"


def _held_until_us(past: Past, tenure: Tenure) -> int:
    """Return until when who ended after the store had lost changes may be held back; 0 = it had not."""
    hold_us = 1_000 * (past.bounds.hold_ms + past.bounds.stale_ms)
    windows = past.faults_in(tenure.until_us - hold_us, tenure.until_us)
    return max((window.end_us + hold_us for window in windows if window.fault.loses), default=0)


def _began_between_looks(past: Past, replica: Replica, at: int) -> bool:
    """Whether the stream tells of a lease that began since the last look, and that no look has seen perhaps.

    The auditor reads the stream after the leases: what it tells is there when it looks the next time but one.
    """
    looks = [look.at_us for look in past.looks[replica[:2]]]
    next_one = bisect_right(looks, at)
    since_us, until_us = looks[max(0, next_one - 1)], [*looks[next_one + 1 :], past.end_us][0]
    return any(since_us < came_us <= until_us for came_us in past.arrivals.get(replica, ()))


def _was_withdrawn(past: Past, tenure: Tenure) -> bool:
    """Whether the owner ended the lease: then a client does not hold it back."""
    found = past.withdrawals.get((tenure.replica.broker, tenure.replica.id), ())
    return any(tenure.seen_us <= at <= tenure.until_us + 1_000 * past.bounds.stale_ms for at in found)


# --- (b) no older epoch after a newer one -------------------------------------------------------------------


class _Newest:
    """The newest epoch of each replica that somebody has seen."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, int], tuple[int, Event]] = {}

    def forget(self) -> None:
        """Begin anew."""
        self._of.clear()

    def before(self, broker: str, broker_id: int, epoch: int, event: Event) -> Event | None:
        """Take in an epoch; return the event that showed a newer one, or None."""
        newest, shown_by = self._of.get((broker, broker_id), (0, event))
        self._of[broker, broker_id] = (epoch, event)
        return shown_by if newest > epoch else None


_EMPTIES: Final = ("flushall", "begin-after-loss", "delete-for-good", "delete-lease", "delete-table")
"""The names of faults that delete, and put nothing in the place of what was there."""


def _may_go_back(past: Past, since_us: int, until_us: int) -> bool:
    """Whether the store may be as it was before, at some moment of that time, or its clock go back."""
    lasting = past.faults_in(since_us, until_us)
    return any(of.fault.loses and of.fault.name not in _EMPTIES for of in lasting)


def epochs_grow(past: Past) -> Verdict:
    """Check that leases, and what followers are told, go from older owners to newer ones only.

    Of `docs/design/table.md`: "epochs are max(previous + 1, server time in us)", also across a FLUSHALL, so
    that only a store that comes back as it was before may show an older one after a newer one.
    """
    verdict = Verdict()
    leases, told = _Newest(), defaultdict[str, _Newest](_Newest)
    for event in past.history:
        if isinstance(event, Lease) and event.epoch is not None:
            newer = leases.before(event.broker, event.id, event.epoch, event)
            lost = newer is not None and _may_go_back(past, newer.at_us, event.at_us)
            reason = f"the lease of {event.broker}:{event.id} went back to epoch {event.epoch}"
            verdict.check("" if newer is None or lost else reason, newer, event)
        elif isinstance(event, Started) or (isinstance(event, Item) and event.kind == "reset"):
            told[event.who].forget()
        elif isinstance(event, Item) and event.record and _is_by_an_owner(event.record):
            record = event.record
            newer = told[event.who].before(record.broker, record.id, record.epoch, event)
            told_of = f"epoch {record.epoch} of {record.broker}:{record.id}"
            reason = f"{event.who} was told of {told_of} after a newer one"
            verdict.check("" if newer is None else reason, newer, event)
    return verdict


# --- (g) who was fenced changed nothing ---------------------------------------------------------------------


def the_fenced_change_nothing(past: Past) -> Verdict:
    """Check that nobody writes under an older epoch than others did, or goes on owning what others have.

    Of `docs/design.md`, what must always hold: 3, "a write or an unregister with another epoch than the
    owner's changes nothing". Only operators write without an epoch, and here they do after data was lost.
    Of `docs/design/table.md`: a live lease of the same address is refused to an agent that was fenced, and
    one of another address yields only to an election, or if its owner is gone.
    """
    verdict = Verdict()
    _check_writes(past, verdict)
    _check_that_none_comes_twice(past, verdict)
    for who in {state.who for state in past.of(State)}:
        _check_claims(past, who, verdict)
        _check_that_none_is_taken_back(past, who, verdict)
    _check_that_none_is_thrown_out(past, verdict)
    check_that_wipes_hold(past, verdict)
    check_that_agents_give_back(past, verdict)
    return verdict


def _check_writes(past: Past, verdict: Verdict) -> None:
    written = _Newest()
    for change in past.of(Change):
        record = change.record
        if record is None or record.kind not in _BY_AN_OWNER:
            continue
        if not record.epoch:
            _check_repair(past, change, record, verdict)
            continue
        newer = written.before(record.broker, record.id, record.epoch, change)
        lost = newer is not None and past.may_have_lost(newer.at_us, change.at_us)
        reason = f"epoch {record.epoch} of {record.broker}:{record.id} wrote a change after a newer owner had"
        if newer is None or lost:
            verdict.check("")
        else:
            verdict.check(reason, newer, *_fenced(past, record, change), change)


def _check_that_none_comes_twice(past: Past, verdict: Verdict) -> None:
    """Check that an owner whose lease goes on is told once to have come: a registration can be repeated."""
    ups: dict[tuple[str, int], Change] = {}
    for change in past.of(Change):
        record = change.record
        if record is None or record.kind not in (ChangeKind.UP, ChangeKind.DOWN):
            continue
        replica = (record.broker, record.id)
        before = ups.pop(replica, None)
        if record.kind == ChangeKind.UP:
            ups[replica] = change
            lost = past.may_have_lost(change.at_us - 1_000 * past.bounds.lease_ms, change.at_us)
            lost = lost or past.stood_still(change.at_us)  # its lease has ended, and nobody has told so yet
            is_same = before is not None and before.record == record and not lost
            reason = f"{record.broker}:{record.id} has come twice under one epoch"
            verdict.check(reason if is_same and _goes_on(past, change, record) else "", before, change)


def _goes_on(past: Past, change: Change, record: Record) -> bool:
    """Whether the lease of an owner was there for a while, and is, when it is told to have come."""
    tenures = past.tenures.get((record.broker, record.id), ())
    since_us = change.at_us - 1_000 * past.bounds.stale_ms
    return any(
        of.epoch == record.epoch and of.from_us < since_us and of.seen_us > change.at_us for of in tenures
    )


def _check_repair(past: Past, change: Change, record: Record, verdict: Verdict) -> None:
    """Check that who wrote without an epoch began no lease, and had lost data to repair."""
    since_us = change.at_us - 1_000 * (past.bounds.lease_ms + past.bounds.told_ms)
    is_repair = record.kind != ChangeKind.UP and past.may_have_lost(since_us, change.at_us)
    reason = f"somebody without an epoch wrote that {record.broker}:{record.id} has changed: {record.kind}"
    verdict.check("" if is_repair else reason, change)


def _fenced(past: Past, record: Record, change: Change) -> list[State]:
    """Return where the owner that wrote this had said that it is fenced."""
    owner = (record.broker, record.id, record.epoch, "fenced")
    return [
        state
        for state in past.of(State)
        if (state.broker, state.id, state.epoch, state.state) == owner and state.at_us <= change.at_us
    ]


def _check_claims(past: Past, who: str, verdict: Verdict) -> None:
    """Check that a process does not say for longer than a lease that it owns what another one has."""
    events = [event for event in past.of(State) if event.who == who]
    ends = [event for event in past.history if event.who == who and isinstance(event, State | Started)]
    for state in events:
        if state.state != "owner" or state.epoch is None:
            continue
        until_us = next(
            (end.at_us for end in ends if end.at_us > state.at_us and _ends(end, state)), past.end_us
        )
        rival = _rival(past, state, until_us)
        owned = f"{state.broker}:{state.id} with epoch {state.epoch}"
        reason = f"{who} says that it owns {owned}, and another one does"
        verdict.check("" if rival is None else reason, state, rival)


def _ends(event: Event, state: State) -> bool:
    """Whether a process said with this that what it said before is over."""
    if not isinstance(event, State):
        return isinstance(event, Started)
    is_of_it = (event.broker, event.id) == (state.broker, state.id)
    return is_of_it and (event.state, event.epoch) != (state.state, state.epoch)


def _rival(past: Past, state: State, until_us: int) -> Lease | None:
    """Return a look at a newer owner, if somebody still said for longer than a lease that it owns."""
    assert state.epoch is not None
    for tenure in past.tenures.get((state.broker, state.id), ()):
        if tenure.epoch <= state.epoch:
            continue
        since_us = max(tenure.from_us, state.at_us)
        calm_since = past.calm_since_us(state.who, min(until_us, tenure.seen_us))
        if calm_since is None:
            continue
        since_us = max(since_us, calm_since)
        overlap_us = min(until_us, tenure.seen_us) - since_us
        if overlap_us > 1_000 * past.bounds.lease_ms + past.late_us(since_us, until_us, state.who):
            return _look_at(past, tenure)
    return None


def _check_that_none_is_taken_back(past: Past, who: str, verdict: Verdict) -> None:
    """Check that an agent that was fenced owns the broker again only when the lease was given up."""
    fenced: dict[tuple[str, int], State] = {}
    for event in past.history:
        if event.who != who:
            continue
        if isinstance(event, Started):
            fenced.clear()
        elif isinstance(event, State) and event.state == "fenced":
            fenced[event.broker, event.id] = event
        elif isinstance(event, State) and event.state == "owner":
            before = fenced.pop((event.broker, event.id), None)
            if before is not None:
                taken = _taken_alive(past, before, event)
                reason = f"{who} was fenced, and took the live lease of {event.broker}:{event.id} back"
                verdict.check("" if taken is None else reason, before, taken, event)


def _taken_alive(past: Past, fenced: State, owner: State) -> Lease | None:
    """Return a look at the lease of the owner in between, if half of it or more was left when it ended.

    An owner at work renews it by then; of one that has given it up, the last quarter may be taken over.
    """
    of = (owner.broker, owner.id)
    looks = [
        look for look in past.looks.get(of, ()) if look.epoch not in (None, owner.epoch) and look.left_ms
    ]
    began_us = next((look.at_us for look in past.looks.get(of, ()) if look.epoch == owner.epoch), owner.at_us)
    last = max((look for look in looks if look.at_us < began_us), key=attrgetter("at_us"), default=None)
    if (
        last is None
        or last.epoch == fenced.epoch
        or past.may_have_lost(min(last.at_us, fenced.at_us), began_us)
    ):
        return None
    seen_us = past.limit_us(began_us, past.bounds.stale_ms)  # its end is perhaps seen after what came of it
    withdrawn = any(last.at_us <= at <= seen_us for at in past.withdrawals.get(of, ()))
    left_us = last.at_us + 1_000 * last.left_ms - began_us
    return last if left_us * 2 > 1_000 * past.bounds.lease_ms and not withdrawn else None


def _check_that_none_is_thrown_out(past: Past, verdict: Verdict) -> None:
    """Check that nobody registers elsewhere a broker that lives, and that no fault concerns.

    Whose lease no agent says to be its own has it by fronts.
    """
    owners = {(of.broker, of.id, of.epoch): of for of in past.of(State) if of.state == "owner"}
    fronts = [who for who in past.starts if who.startswith(FRONT)]
    for change in past.of(Change):
        record = change.record
        if record is None or record.kind != ChangeKind.UP:
            continue
        at = [of for of in past.expected_at(change.at_us).leases if of[:2] == (record.broker, record.id)]
        tenures = [of for of in past.tenures.get((record.broker, record.id), ()) if of.replica in at]
        before = _last_before(tenures, change.at_us)
        if before is None or not has_lived(past, record, change.at_us, past.bounds.lease_ms):
            continue
        owner = owners.get((record.broker, record.id, before.epoch))
        speak = [owner.who] if owner else fronts
        if speak and all(is_left_alone(past, who, change.at_us) for who in (*speak, record.broker)):
            starved = past.was_starved(change.at_us, *speak)
            reason = f"{record.broker}:{record.id} lives at {before.replica.address}, and was registered at "
            is_right = starved or record.address == before.replica.address
            verdict.check("" if is_right else reason + record.address, owner, change)


def _look_at(past: Past, tenure: Tenure) -> Lease | None:
    return next(
        (
            look
            for look in past.of(Lease)
            if (look.broker, look.id, look.epoch) == (tenure.replica.broker, tenure.replica.id, tenure.epoch)
        ),
        None,
    )
