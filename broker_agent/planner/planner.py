"""Decides what the agent does next: a pure state machine over events, with the time passed in.

Each step notes one event, lets a drain or a hand-over go on, and asks for one store call at most.
"""

from __future__ import annotations

import logging
import random
from collections import Counter

from ...registry import (
    MASTER_ID,
    Broker,
    BrokerOwned,
    BrokerWithdrawn,
    DataVersion,
    LeaseStatus,
    Registration,
    RegistryError,
    StaleEpoch,
)
from ...remoting.broker.probing import BrokerGone, BrokerUp
from .events import (
    Answered,
    CallFailed,
    Drain,
    Event,
    HandOver,
    Heartbeat,
    OwnerLeft,
    OwnerProbed,
    Pause,
    Register,
    Resume,
    RoleFound,
    RoleUnknown,
    SetWritePerm,
    Step,
    Stop,
    StoreCall,
    TopicsLoaded,
    Unregister,
    Withdraw,
    Woken,
)
from .intent import LEAST_WATCH_S, Intent, is_same_replica
from .journal import Journal, Trouble
from .ownership import Lease, OtherOwner
from .schedule import NEVER, Pace, Schedule
from .status import AgentStatus, Phase


class Planner:
    """One broker's life in the registry: register, heartbeat, register again, unregister.

    `step` takes one event and returns what to do, with one store call at a time, which Answered or CallFailed
    ends. What fails is tried again. A live lease is renewed even while a new table cannot be written.
    """

    def __init__(
        self,
        broker: Broker | None,
        *,
        name: str,
        heartbeat_s: float,
        lease_ttl_s: float,
        stop_deadline_s: float,
        rng: random.Random,
    ) -> None:
        self._lease_ttl_s = lease_ttl_s
        self._stop_deadline_s = stop_deadline_s
        self._journal = Journal(name)
        self._pace = Pace(heartbeat_s, rng)
        self._intent = Intent(broker)
        self._lease = Lease()
        self._other = OtherOwner(self._journal, heartbeat_s=heartbeat_s, lease_ttl_s=lease_ttl_s)
        self._schedule = Schedule(self._intent, self._lease, self._other, self._journal, self._pace)
        self._call: StoreCall | None = None
        self._gives_up_at_s = NEVER
        self._counts = Counter[str]()
        self._phase: Phase | None = None
        self._phase_since_s = 0.0

    @property
    def is_standby(self) -> bool:
        """Whether another agent owns the broker, and this one waits for its end."""
        return self._journal.is_elsewhere and not self._intent.why_out()

    def step(self, event: Event, now: float) -> Step:
        """Note an event at `now`, in seconds of a steady clock; return what to do."""
        in_heartbeat = isinstance(self._call, Heartbeat)
        self._journal.stood_still(self._pace.stood_still_s(now, in_heartbeat=in_heartbeat))
        match event:
            case Answered():
                self._answered(event, now)
            case CallFailed(error):
                self._call_failed(error, now)
            case TopicsLoaded(table):
                self._schedule.loaded = table
            case OwnerLeft():
                self._pace.owner_left(now, waiting=self._call is None and self._journal.is_elsewhere)
            case OwnerProbed():
                loaded = self._schedule.loaded
                if self._other.probed(event, loaded.version if loaded else DataVersion()):
                    self._pace.write_at_s = now
            case BrokerUp() | BrokerGone() | RoleFound() | RoleUnknown():
                self._broker_changed(event)
            case Drain() | Pause() | Resume() | Stop() | HandOver():
                self._operator_wants(event, now)
            case Woken():
                pass
        self._go_on_draining(now)
        self._go_on_handing_over(now)
        step = self._next_step(now)
        self._note_phase(now)
        return step

    def status(self, now: float) -> AgentStatus:
        """Return the state of the agent at `now`."""
        phase = self._note_phase(now)
        intent, lease, journal, counts = self._intent, self._lease, self._journal, self._counts
        table = self._schedule.loaded
        held = lease.registration if lease.is_held else None
        confirmed_s = lease.confirmed_s
        return AgentStatus(
            name=journal.name,
            broker=intent.broker,
            phase=phase,
            phase_s=max(0.0, now - self._phase_since_s),
            epoch=held.epoch if held is not None else None,
            may_be_served=lease.to_end is not None or intent.to_withdraw() is not None,
            topics=len(table.topics) if table else 0,
            version=table.version.counter if table else 0,
            in_step=not self._schedule.must_write,
            broker_up=intent.broker_up,
            why_gone=intent.why_gone,
            trouble=journal.text,
            trouble_s=now - journal.since_s if journal.trouble else 0.0,
            corrupt_keys=held.corrupt_keys if held is not None else (),
            last_heartbeat_s=None if confirmed_s is None else max(0.0, now - confirmed_s),
            registrations=counts["registrations"],
            heartbeats=self._schedule.heartbeats,
            failures=counts["failures"],
            fenced=counts["fenced"],
        )

    def _note_phase(self, now: float) -> Phase:
        phase = self._phase_at(now)
        if phase is not self._phase:
            self._phase, self._phase_since_s = phase, now
        return phase

    def _phase_at(self, now: float) -> Phase:
        """Return the phase of the first line that is true."""
        intent, confirmed_s = self._intent, self._lease.confirmed_s
        is_fresh = confirmed_s is not None and now - confirmed_s < self._lease_ttl_s
        is_served = self._schedule.serves and is_fresh
        lines = (
            (intent.stopping, Phase.STOPPING),
            (intent.out_because or self._journal.is_kept_out, Phase.PAUSED),
            (intent.broker is None or intent.broker_up is False, Phase.BROKER_GONE),
            (intent.broker_up is None or self._schedule.table is None, Phase.STARTING),
            (intent.draining, Phase.DRAINING),  # also a broker that another agent serves
            (is_served and intent.hands_over_at_s is not None, Phase.HANDING_OVER),
            (is_served, Phase.SERVING),
            (self._journal.is_elsewhere, Phase.STANDBY),
        )
        return next((phase for is_true, phase in lines if is_true), Phase.REGISTERING)

    # What to do next.

    def _next_step(self, now: float) -> Step:
        intent, pace = self._intent, self._pace
        probe, self._other.wanted = self._other.wanted, None
        due_s, call = self._schedule.next_call() if self._call is None else (NEVER, self._call)
        if (intent.stopping and call is None) or self._gives_up(now):
            pace.wake_at_s = NEVER
            return Step(NEVER, done=True)
        is_due = call is not None and due_s <= now
        if is_due:
            self._call = call
            pace.call_begins(now)
        waits_s = (due_s, intent.drained_at_s, intent.hands_over_at_s, self._gives_up_at_s)
        pace.wake_at_s = min((at_s for at_s in waits_s if at_s is not None and at_s > now), default=NEVER)
        return Step(pace.wake_at_s, call if is_due else None, probe)

    def _gives_up(self, now: float) -> bool:
        """Whether the agent ends although the store has not answered its last calls: see stop_deadline_s."""
        is_leaving = self._intent.stopping or self._intent.watch_is_over(now)
        if is_leaving and self._gives_up_at_s == NEVER:
            self._gives_up_at_s = now + self._stop_deadline_s
        if now < self._gives_up_at_s:
            return False
        what = "not unregistered" if self._intent.stopping else "handed over without a last heartbeat"
        text = f"{what}, the store does not answer; the lease ends within {self._lease_ttl_s} s by itself"
        self._journal.say(logging.WARNING, text)
        return True

    # What the broker does, and what its operator wants.

    def _broker_changed(self, event: BrokerUp | BrokerGone | RoleFound | RoleUnknown) -> None:
        self._pace.write_at_s = 0.0
        intent = self._intent
        match event:
            case BrokerUp():
                intent.broker_up, intent.why_gone = True, ""
                self._journal.say(logging.INFO, "the broker is up")
            case BrokerGone(why):
                intent.broker_up, intent.why_gone = False, why
                self._report_gone("the broker is gone", why)
            case RoleUnknown(why):
                intent.broker, intent.why_gone = None, why
                self._report_gone("the broker's role is not known", why)
            case RoleFound(broker):
                if broker != intent.broker:
                    self._role_changed(broker)

    def _report_gone(self, what: str, why: str) -> None:
        consequence = "waiting for it" if self._lease.to_end is None else "clients are told so"
        self._journal.say(logging.WARNING, f"{what}, {consequence}: {why}")

    def _role_changed(self, broker: Broker) -> None:
        before, self._intent.broker = self._intent.broker, broker
        if before is not None and before.address != broker.address:
            self._intent.broker_up = None  # nobody has looked for it there yet
        self._journal.name = f"{broker.broker_name}:{broker.broker_id}"
        if is_same_replica(broker, before):
            self._journal.say(logging.INFO, f"the broker's settings have changed: {broker}")
            return
        self._lease.yields = False  # another agent took over what the broker was before, not what it is
        was = f", it was {before.broker_id} at {before.address}" if before is not None else ""
        self._journal.say(logging.INFO, f"the broker is {broker.broker_id} at {broker.address}{was}")

    def _operator_wants(self, event: Drain | Pause | Resume | Stop | HandOver, now: float) -> None:
        self._pace.write_at_s = 0.0
        intent, say = self._intent, self._journal.say
        match event:
            case Drain(wait_s):
                if intent.drain(wait_s):
                    when = f"out of the registry {wait_s:g} s later"
                    say(logging.WARNING, f"draining: no write permission from now on, {when}")
            case Pause():
                intent.leave("paused")
                say(logging.WARNING, "paused: the broker is taken out of the registry until a resume")
            case Resume():
                intent.resume()
                self._pace.heartbeat_at_s = 0.0  # it may be out already, by another agent
                say(logging.INFO, "resumed")
            case Stop():
                intent.stop()
            case HandOver(watch_s):
                intent.hand_over(now, watch_s)
                if watch_s >= LEAST_WATCH_S and not (intent.why_out() or self._journal.is_decided_elsewhere):
                    text = f"watching it for {watch_s:g} s, a second signal ends that"
                    say(logging.INFO, f"told to end while the broker is up: {text}")

    def _go_on_draining(self, now: float) -> None:
        """End a drain with its wait, or with the lease, which is not made anew for it."""
        intent, broker = self._intent, self._intent.broker
        if not intent.draining:
            return
        if intent.drained_at_s is None and broker is not None and broker.broker_id != MASTER_ID:
            intent.write_perm_taken("", now)  # a slave has none, and its master's is not its own to take
        is_over = intent.drained_at_s is not None and now >= intent.drained_at_s
        is_up_elsewhere = (
            broker is not None and intent.broker_up is True and self._journal.is_served_at(broker.address)
        )
        if is_over or not (self._lease.is_held or is_up_elsewhere):
            intent.leave("drained")
            self._pace.write_at_s = now

    def _go_on_handing_over(self, now: float) -> None:
        """Take a broker out that ends; else renew its lease at the end of the watch, and leave it behind."""
        intent, lease = self._intent, self._lease
        if intent.hands_over_at_s is None or intent.stopping:
            return
        is_over, is_busy = intent.watch_is_over(now), self._call is not None
        is_out = intent.why_out() or (intent.draining and is_over)
        # A registration that is under way may still be granted.
        if is_out or (self._journal.is_decided_elsewhere and not is_busy):
            intent.stop()
        elif not is_over or is_busy:
            return
        elif lease.is_held and (lease.confirmed_s is None or lease.confirmed_s < intent.hands_over_at_s):
            if self._pace.call_began_s < intent.hands_over_at_s:  # else this has been tried already
                self._pace.heartbeat_at_s = min(self._pace.heartbeat_at_s, now)
        else:
            if lease.is_held:
                text = "handed over: the broker stays registered for the next agent, until its lease ends"
                self._journal.say(logging.INFO, text)
            lease.lost()
            intent.stop()

    # What the store answers.

    def _answered(self, event: Answered, now: float) -> None:
        call, self._call = self._call, None
        match call, event.answer:
            case Register(), Registration() as registration:
                self._registered(call, registration, now)
                if event.wiped and not self._intent.wiped:
                    self._journal.wiped()
            case Heartbeat(), LeaseStatus.FENCED:
                self._fenced(now)
            case Heartbeat(), LeaseStatus() as status:
                self._recovered(call, now)
                self._heartbeat_answered(status, now)
            case Unregister(), _:
                self._recovered(call, now)
                self._lease.ended()
                self._journal.say(logging.INFO, "unregistered")
            case Withdraw(), _:
                self._withdrawn(call, now)
            case SetWritePerm(), bool() as changed:
                self._write_perm_set(call, now, changed=changed)

    def _registered(self, call: Register, registration: Registration, now: float) -> None:
        self._recovered(call, now)
        self._intent.admit = False
        self._counts["registrations"] += 1
        lease, table = self._lease, call.table
        if not self._schedule.serves or not lease.has_written(table):
            what = "wrote its changed table" if self._schedule.serves else "registered"
            self._journal.say(
                logging.INFO,
                f"{what}: {registration.broker.address}, {len(table.topics)} topics, "
                f"version {table.version.counter}",
                topics=len(table.topics),
                epoch=registration.epoch,
            )
        known = lease.registration.corrupt_keys if lease.registration else ()
        self._journal.foreign(known, registration.corrupt_keys)
        self._pace.mend(now, found=bool(registration.corrupt_keys))
        lease.granted(registration, table, self._pace.call_began_s)
        self._pace.renewed()
        self._other.forget()

    def _heartbeat_answered(self, status: LeaseStatus, now: float) -> None:
        self._schedule.heartbeats += 1
        lease = self._lease
        lease.confirmed_s = self._pace.call_began_s
        self._pace.renewed()
        if status in (LeaseStatus.OK, LeaseStatus.UNLISTED):
            self._intent.admit = False
        if status is LeaseStatus.UNLISTED:
            if lease.registration is not None and not lease.registration.corrupt_keys:  # else it is known
                self._pace.mend_at_s = now
        elif status is not LeaseStatus.OK:
            if lease.lost_table():
                lost = "lease" if status is LeaseStatus.LEASE_LOST else "table"
                text = f"the store has lost the {lost} of the broker: registering again"
                self._journal.say(logging.WARNING, text)
            if status is LeaseStatus.LEASE_LOST:
                lease.ended()
            self._pace.rejoin(now)

    def _withdrawn(self, call: Withdraw, now: float) -> None:
        self._journal.settled()
        self._recovered(call, now)
        self._intent.withdrawn = call.broker
        self._lease.withdrawn(call.broker)
        self._journal.say(logging.INFO, f"is out of the registry: {call.reason}; no agent brings it back")

    def _write_perm_set(self, call: SetWritePerm, now: float, *, changed: bool) -> None:
        if not self._journal.is_elsewhere:  # which this does not end
            self._recovered(call, now)
        if call.allowed:
            self._intent.wiped = ""
        else:
            self._intent.write_perm_taken(call.broker_name if changed else "", now)

    def _call_failed(self, error: RegistryError, now: float) -> None:
        call, self._call = self._call, None
        self._counts["failures"] += 1
        match error:
            case StaleEpoch() if error.current_epoch < error.epoch:  # nobody's: the store has lost data
                self._lease.lost()
                self._pace.rejoin(now)
            case StaleEpoch():
                self._fenced(now)
            case BrokerWithdrawn():
                self._lease.lost()
                self._lease.yields = True  # to whoever brings it back
                self._journal.kept_out(now)
                self._pace.refused(now)
            case BrokerOwned():
                self._owned(call, error, now)
            case _:
                self._try_again(call, error, now)

    def _fenced(self, now: float) -> None:
        self._lease.lost()
        self._counts["fenced"] += 1
        self._lease.yields = True
        self._journal.fenced(now)
        self._pace.refused(now)

    def _owned(self, call: StoreCall | None, error: BrokerOwned, now: float) -> None:
        if isinstance(call, Withdraw) and self._intent.stopping:
            self._intent.withdrawn = call.broker  # another agent's: this one does not wait for it
        self._lease.lost()
        self._intent.admit = False
        address = self._intent.broker.address if self._intent.broker else ""
        self._journal.owned(error, address, now)
        self._pace.refused(now, self._other.free_in_s(error, address))
        if isinstance(call, Register) and self._other.refused(call, error, now):
            self._pace.write_at_s = now

    def _try_again(self, call: StoreCall | None, error: RegistryError, now: float) -> None:
        trouble = Trouble.of(error, call)
        if isinstance(call, Register):
            self._lease.lost_table()
        if trouble.is_silence:
            self._lease.in_doubt(call)
            if isinstance(call, SetWritePerm) and not call.allowed:  # it may have been taken
                self._intent.wiped = call.broker_name
        elif isinstance(call, SetWritePerm) and not call.allowed and self._intent.draining:
            self._journal.say(logging.WARNING, f"leaving without a wait, its write permission stays: {error}")
            self._intent.leave("drained")
            return
        self._pace.failed(now, delays_heartbeats=trouble.stops_heartbeats)
        self._journal.complain(trouble, f"{error}; trying again until it works", now)

    def _recovered(self, call: StoreCall, now: float) -> None:
        if self._journal.recovered(call, now):
            self._pace.recovered()
