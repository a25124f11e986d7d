"""Decides what the agent does next: a pure state machine over events, with the time passed in."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import Final

from ...registry import (
    MASTER_ID,
    Broker,
    BrokerOwned,
    BrokerWithdrawn,
    LeaseStatus,
    Registration,
    RegistryError,
    StaleEpoch,
)
from ..rocketmq.topics import TopicTable
from .counters import Tally
from .events import (
    Action,
    BrokerGone,
    BrokerUp,
    CallFailed,
    Done,
    Drain,
    Event,
    FormerFound,
    HandOver,
    Heartbeat,
    HeartbeatAnswered,
    OwnerLeft,
    Pause,
    Register,
    Registered,
    Resume,
    RoleFound,
    RoleUnknown,
    SetWritePerm,
    Stop,
    StoreCall,
    TopicsLoaded,
    Unregister,
    Unregistered,
    WakeAt,
    Withdraw,
    Withdrawn,
    Woken,
    WritePermSet,
)
from .former_owner import Former
from .hand_over import HandingOver
from .intent import Intent, is_same_replica
from .journal import Journal, trouble_of
from .lease import Holding
from .pace import Pacing
from .status import AgentStatus, Phase

_FOREIGN_RETRY_S: Final = 30.0
"""What foreign data stands in the way of is tried so often: nothing tells when it has been moved away."""

_NEVER: Final = float("inf")
_NO_TOPICS: Final = TopicTable({})


class Planner:
    """One broker's life in the registry: register, heartbeat, register again, unregister.

    `step` takes one event and returns what to do, with one store call at a time: the edge answers it with
    Registered, HeartbeatAnswered, Unregistered, Withdrawn, WritePermSet or CallFailed. What fails is tried
    again, after 0.1 s at first and a heartbeat interval at last. A live lease is renewed even while a new
    table cannot be written.
    """

    def __init__(
        self,
        broker: Broker | None,
        *,
        name: str,
        heartbeat_s: float,
        lease_ttl_s: float,
        rng: random.Random,
    ) -> None:
        self._lease_ttl_s = lease_ttl_s
        self._journal = Journal(name)
        self._tally = Tally()
        self._pacing = Pacing(heartbeat_s, rng)
        self._former = Former(self._journal, heartbeat_s, lease_ttl_s)
        self._intent = Intent(broker)
        self._file: TopicTable | None = None

        self._holding = Holding()
        self.handing_over = HandingOver(self._intent, self._holding, self._journal)
        self._wiped = ""
        """The broker whose write permission this agent took away, and has to give back."""

        self._call: StoreCall | None = None
        self._call_began_s = 0.0
        self._write_at_s = 0.0
        self._heartbeat_at_s = 0.0
        self._mend_at_s = _NEVER
        self._wake_at_s = _NEVER

    @property
    def is_standby(self) -> bool:
        """Whether another agent has registered the broker, and this one waits for its end."""
        return self._journal.is_elsewhere and not self._intent.why_out()

    def step(self, event: Event, now: float) -> list[Action]:
        """Take note of an event at `now`, in seconds of a steady clock; return what to do."""
        self._notice_standstill(now)
        match event:
            case TopicsLoaded(file):
                self._file = file
            case Registered(file, registration, wiped):
                self._registered(file, registration, now)
                self._journal.wiped(by_others=wiped and not self._wiped)
            case HeartbeatAnswered(status):
                self._heartbeat_answered(status, now)
            case Unregistered():
                self._unregistered(now)
            case Withdrawn():
                self._withdrawn(now)
            case WritePermSet(changed):
                self._write_perm_set(now, changed=changed)
            case CallFailed(error):
                self._call_failed(error, now)
            case OwnerLeft() | FormerFound():
                self._perhaps_free(event, now)
            case Woken():
                pass
            case _:
                self._world_changed(event, now)
        self._go_on_draining(now)
        self._go_on_handing_over(now)
        decided = self._decide(now)
        self._tally.phase_is(self._phase(now), now)
        return [*self._journal.take(), *self._former.take(), *decided]

    def status(self, now: float) -> AgentStatus:
        """Return what can be said of the agent at `now`."""
        tally, intent = self._tally, self._intent
        held = self._holding.held if self._holding.is_leased else None
        tally.phase_is(self._phase(now), now)
        return AgentStatus(
            name=self._journal.name,
            broker=intent.broker,
            phase=tally.phase,
            phase_s=tally.ago_s(tally.since_s, now) or 0.0,
            epoch=held.epoch if held is not None else None,
            may_be_served=self._holding.to_end is not None or intent.to_withdraw() is not None,
            topics=len(self._file.topics) if self._file else 0,
            version=self._file.version.counter if self._file else 0,
            in_step=not self._must_write(),
            broker_up=intent.broker_up,
            why_gone=intent.why_gone,
            trouble=self._journal.text,
            trouble_s=now - self._journal.since_s if self._journal.trouble else 0.0,
            corrupt_keys=held.corrupt_keys if held is not None else (),
            last_heartbeat_s=tally.ago_s(tally.confirmed_s, now),
            registrations=tally.registrations,
            heartbeats=tally.heartbeats,
            failures=tally.failures,
            fenced=tally.fenced,
        )

    def _phase(self, now: float) -> Phase:
        intent = self._intent
        if intent.stopping:
            return Phase.STOPPING
        if intent.out_because or self._journal.is_kept_out:
            return Phase.PAUSED
        if intent.broker is None or intent.broker_up is False:
            return Phase.BROKER_GONE
        if intent.broker_up is None or self._table() is None:
            return Phase.STARTING
        if intent.draining:  # also what another agent serves
            return Phase.DRAINING
        return self._phase_of_wanted(now)

    def _phase_of_wanted(self, now: float) -> Phase:
        """Return the phase while nothing keeps the broker out."""
        confirmed_s = self._tally.ago_s(self._tally.confirmed_s, now)
        if self._serves() and confirmed_s is not None and confirmed_s < self._lease_ttl_s:
            return Phase.SERVING if self.handing_over.ends_at_s is None else Phase.HANDING_OVER
        return Phase.STANDBY if self._journal.is_elsewhere else Phase.REGISTERING

    def _decide(self, now: float) -> list[Action]:
        self._wake_at_s = _NEVER
        if self._call is not None:
            return []
        at_s, call = self._next_call()
        if call is not None and at_s <= now:
            self._call, self._call_began_s = call, now
            self._pacing.call_begins()
            return [call]
        if call is None and self._intent.stopping:
            return [Done()]
        waits_s = [_NEVER if call is None else at_s, self._intent.drained_at_s, self.handing_over.ends_at_s]
        self._wake_at_s = min(wait_s for wait_s in waits_s if wait_s is not None and wait_s > now)
        return [WakeAt(self._wake_at_s)] if self._wake_at_s < _NEVER else []

    def _next_call(self) -> tuple[float, StoreCall | None]:
        """Return when the next store call is due, and which it is."""
        why_out = self._intent.why_out()
        if self._has_moved and self._intent.broker_up is not False and not self._intent.stopping:
            why_out = why_out if self._intent.out_because else "moved to another address"
        if why_out:
            return self._write_at_s, self._leave(why_out)
        never: tuple[float, StoreCall | None] = (_NEVER, None)
        return min([*self._due(), never], key=lambda due: due[0])  # at a tie the first: the lease goes before

    @property
    def _has_moved(self) -> bool:
        return self._intent.broker is not None and self._holding.misleads(self._intent.broker)

    def _leave(self, why: str) -> StoreCall | None:
        withdrawn = self._intent.to_withdraw()
        if withdrawn is not None:
            return Withdraw(withdrawn, self._intent.out_because)
        if self._holding.to_end is not None:
            return Unregister(self._holding.to_end, why)
        return SetWritePerm(self._wiped, allowed=True) if self._wiped else None

    def _due(self) -> Iterator[tuple[float, StoreCall]]:
        """Yield what a broker that belongs into the registry needs, what must not wait first."""
        broker, table, draining = self._intent.broker, self._table(), self._intent.draining
        held = self._holding.of_role(broker)
        if held is not None and self._holding.is_leased:
            yield self._heartbeat_at_s, Heartbeat(held, listings=self._tally.wants_listings)
        if draining and self._intent.drained_at_s is None and broker is not None:
            yield self._write_at_s, SetWritePerm(broker.broker_name, allowed=False)
        gives_back = bool(self._wiped) and not draining
        if gives_back and self._journal.is_elsewhere:  # else it would wait for the end of the owner
            yield self._write_at_s, SetWritePerm(self._wiped, allowed=True)
        if broker is not None and table is not None and (self._holding.is_leased or not draining):
            at_s = self._write_at_s if self._must_write() else self._mend_at_s
            take_over, admit = not self._holding.standby, self._intent.admit
            gone = self._former.gone
            yield at_s, Register(broker, table, held, take_over=take_over, admit=admit, instead_of=gone)
        if gives_back:
            yield self._write_at_s, SetWritePerm(self._wiped, allowed=True)

    def _table(self) -> TopicTable | None:
        """Return the topics to register: a slave from before acting masters (RocketMQ 5) brings none."""
        broker = self._intent.broker
        if broker is not None and broker.broker_id != MASTER_ID and broker.enable_acting_master is None:
            return _NO_TOPICS
        return self._file

    def _serves(self) -> bool:
        return self._holding.serves(self._intent.broker)

    def _must_write(self) -> bool:
        return not self._serves() or not self._holding.has_written(self._table())

    def _world_changed(self, event: Event, now: float) -> None:
        self._write_at_s = 0.0
        intent, say = self._intent, self._journal.say
        match event:
            case BrokerUp():
                intent.broker_up, intent.why_gone = True, ""
                say(logging.INFO, "the broker is up")
            case BrokerGone(why):
                intent.broker_up, intent.why_gone = False, why
                self._broker_left(f"the broker is gone, {{}}: {why}")
            case RoleFound(broker):
                self._role_found(broker)
            case RoleUnknown(why):
                intent.broker, intent.why_gone = None, why
                self._broker_left(f"the broker's role is not known, {{}}: {why}")
            case Drain(wait_s):
                self._drain(wait_s)
            case Pause():
                intent.leave("paused")
                say(logging.WARNING, "paused: the broker is taken out of the registry until a resume")
            case Resume():
                intent.resume()
                say(logging.INFO, "resumed")
            case Stop():
                intent.stop()
            case HandOver(watch_s):
                self.handing_over.begin(now, watch_s)

    def _broker_left(self, text: str) -> None:
        told = "waiting for it" if self._holding.to_end is None else "clients are told so"
        self._journal.say(logging.WARNING, text.format(told))

    def _role_found(self, broker: Broker) -> None:
        if broker == self._intent.broker:
            return
        before, self._intent.broker = self._intent.broker, broker
        if before is not None and before.address != broker.address:
            self._intent.broker_up = None  # nobody has looked for it there yet
        self._journal.name = f"{broker.broker_name}:{broker.broker_id}"
        if is_same_replica(broker, before):
            self._journal.say(logging.INFO, f"the broker says something else of itself: {broker}")
            return
        self._holding.standby = False  # it was another role of which this agent lost the ownership
        was = f", it was {before.broker_id} at {before.address}" if before is not None else ""
        self._journal.say(logging.INFO, f"the broker is {broker.broker_id} at {broker.address}{was}")

    def _drain(self, wait_s: float) -> None:
        if self._intent.draining or self._intent.out_because:
            return
        self._intent.drain(wait_s)
        text = f"draining: no write permission from now on, out of the registry {wait_s:g} s later"
        self._journal.say(logging.WARNING, text)

    def _go_on_draining(self, now: float) -> None:
        """Let a drain go its way: it ends with its wait, or with the lease, which is not made anew for it."""
        intent, broker = self._intent, self._intent.broker
        if not intent.draining:
            return
        if intent.drained_at_s is None and broker is not None and broker.broker_id != MASTER_ID:
            intent.write_perm_taken(now)  # a slave has none, and its master's is not its own to take
        intent.pass_time(now)
        if not self._holding.is_leased and not self._is_served_by_another():
            intent.leave("drained")
        if intent.out_because:
            self._write_at_s = now

    def _is_served_by_another(self) -> bool:
        """Whether another agent serves this very broker: who drains it here waits, too."""
        broker, is_up = self._intent.broker, self._intent.broker_up is True
        return broker is not None and is_up and self._journal.is_served_at(broker.address)

    def _go_on_handing_over(self, now: float) -> None:
        if self.handing_over.wants_renewal(now, self._tally.confirmed_s, busy=self._call is not None):
            self._heartbeat_at_s = min(self._heartbeat_at_s, now)

    def _registered(self, file: TopicTable, registration: Registration, now: float) -> None:
        self._recovered(now)
        self._intent.admit = False
        self._tally.registrations += 1
        if not self._serves() or not self._holding.has_written(file):
            what = "wrote its changed table" if self._serves() else "registered"
            table = f"{len(file.topics)} topics, version {file.version.counter}"
            self._journal.say(
                logging.INFO,
                f"{what}: {registration.broker.address}, {table}",
                topics=len(file.topics),
                epoch=registration.epoch,
            )
        before = self._holding.held
        self._journal.foreign(before.corrupt_keys if before else (), registration.corrupt_keys)
        self._mend_at_s = now + _FOREIGN_RETRY_S if registration.corrupt_keys else _NEVER
        self._holding.took(registration, file)
        self._former.forget()
        self._renewed()

    def _heartbeat_answered(self, status: LeaseStatus, now: float) -> None:
        if status is LeaseStatus.FENCED:
            self._fenced(now)
            return
        self._recovered(now)
        self._tally.heartbeats += 1
        self._renewed()
        if status is LeaseStatus.OK:
            return
        if status is LeaseStatus.UNLISTED:
            held = self._holding.held
            if held is not None and not held.corrupt_keys:  # else it is known, and tried again
                self._mend_at_s = now
            return
        if self._holding.lost_table():
            lost = "lease" if status is LeaseStatus.LEASE_LOST else "table"
            self._journal.say(
                logging.WARNING, f"the store has lost the {lost} of the broker: registering again"
            )
        if status is LeaseStatus.LEASE_LOST:
            self._holding.ended()
            self._tally.confirmed_s = None
        self._write_at_s = max(self._write_at_s, self._pacing.rejoin_s(now))

    def _unregistered(self, now: float) -> None:
        self._recovered(now)
        self._holding.ended()
        self._call, self._tally.confirmed_s = None, None
        self._journal.say(logging.INFO, "unregistered")

    def _withdrawn(self, now: float) -> None:
        call = self._call
        self._journal.settled()
        self._recovered(now)
        self._call = None
        if not isinstance(call, Withdraw):
            return
        self._intent.withdrawn = call.broker
        self._holding.withdrawn(call.broker)
        self._tally.confirmed_s = None
        self._journal.say(logging.INFO, f"is out of the registry: {call.reason}; no agent brings it back")

    def _perhaps_free(self, event: OwnerLeft | FormerFound, now: float) -> None:
        if isinstance(event, FormerFound):
            if self._former.found(event, (self._file or _NO_TOPICS).version):
                self._write_at_s = now
            return
        look_at_s = self._pacing.owner_left(now)
        if self._call is None and self._journal.is_elsewhere:
            self._write_at_s = min(self._write_at_s, look_at_s)

    def _write_perm_set(self, now: float, *, changed: bool) -> None:
        if not self._journal.is_elsewhere:  # which this does not end
            self._recovered(now)
        call, self._call = self._call, None
        if isinstance(call, SetWritePerm) and call.allowed:
            self._wiped = ""
        elif isinstance(call, SetWritePerm):
            self._wiped = call.broker_name if changed else self._wiped
            self._intent.write_perm_taken(now)

    def _call_failed(self, error: RegistryError, now: float) -> None:
        self._tally.failures += 1
        match error:
            case StaleEpoch() if error.current_epoch < error.epoch:  # nobody's: the store lost data
                self._lost_ownership()
                self._write_at_s = self._pacing.rejoin_s(now)
            case StaleEpoch():
                self._fenced(now)
            case BrokerWithdrawn():
                self._lost_ownership()
                self._holding.standby = True  # whoever brings it back has it
                self._journal.kept_out(now)
                self._look_again(now, _NEVER)
            case BrokerOwned():
                if isinstance(self._call, Withdraw) and self._intent.stopping:
                    self._intent.withdrawn = self._call.broker  # the other is not this agent's to wait for
                call = self._call
                self._lost_ownership()
                address = self._intent.broker.address if self._intent.broker else ""
                self._journal.owned(error, address, now)
                self._look_again(now, self._former.free_in_s(error, address))
                if isinstance(call, Register) and self._former.refused(call, error, now):
                    self._write_at_s = now
            case _:
                self._try_again(error, now)

    def _try_again(self, error: RegistryError, now: float) -> None:
        call, self._call = self._call, None
        trouble = trouble_of(error, call)
        if isinstance(call, Register):
            self._holding.lost_table()
        if trouble.is_silence:
            self._holding.in_doubt(call)
            self._wiped = self._perhaps_wiped(call)
        elif isinstance(call, SetWritePerm) and not call.allowed and self._intent.draining:
            self._journal.say(logging.WARNING, f"leaving without a wait, its write permission stays: {error}")
            self._intent.leave("drained")
            return
        self._write_at_s = self._pacing.next_try_s(now)
        if trouble.stops_heartbeats:
            self._heartbeat_at_s = max(self._heartbeat_at_s, self._write_at_s)
        self._journal.complain(trouble, f"{error}; trying again until it works", now)

    def _perhaps_wiped(self, call: StoreCall | None) -> str:
        if isinstance(call, SetWritePerm) and not call.allowed:
            return call.broker_name
        return self._wiped

    def _fenced(self, now: float) -> None:
        self._lost_ownership()
        self._tally.fenced += 1
        self._holding.standby = True
        self._journal.fenced(now)
        self._look_again(now, _NEVER)

    def _look_again(self, now: float, ends_in_s: float) -> None:
        """Try to own the broker when the other has lost it; look before in case that it leaves."""
        self._write_at_s = self._pacing.next_look_s(now, ends_in_s)

    def _lost_ownership(self) -> None:
        self._intent.admit = False
        self._holding.lost()
        self._call, self._tally.confirmed_s = None, None

    def _renewed(self) -> None:
        self._heartbeat_at_s = self._pacing.next_heartbeat_s(self._call_began_s)
        self._tally.confirmed_s, self._call = self._call_began_s, None

    def _recovered(self, now: float) -> None:
        if self._journal.recovered(self._call, now):
            self._pacing.recovered()

    def _notice_standstill(self, now: float) -> None:
        """Say that this process was not allowed to run: it explains a lease that has ended."""
        # A heartbeat is answered, or has failed, within the deadline of a call: a heartbeat interval at most.
        in_flight = isinstance(self._call, Heartbeat)
        late_s = now - (self._call_began_s + self._pacing.heartbeat_s if in_flight else self._wake_at_s)
        if late_s >= self._pacing.heartbeat_s:
            text = f"this process stood still for at least {late_s:.1f} s: stopped, or the machine slept"
            self._journal.say(logging.WARNING, text)
