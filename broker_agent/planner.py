"""Decides what the agent does next: a pure state machine over events, with the time passed in."""

from __future__ import annotations

import logging
import random
from enum import Enum
from typing import Final, NamedTuple

from ..registry import (
    Broker,
    BrokerOwned,
    CorruptData,
    LeaseStatus,
    Registration,
    RegistryError,
    StaleEpoch,
    StoreTimeout,
    StoreUnavailable,
)
from .events import (
    Action,
    BrokerGone,
    BrokerUp,
    CallFailed,
    Done,
    Event,
    Heartbeat,
    HeartbeatAnswered,
    Register,
    Registered,
    Say,
    Stop,
    StoreCall,
    TopicsLoaded,
    Unregister,
    Unregistered,
    WakeAt,
    Woken,
)
from .topics import TopicsFile

__all__ = ["Planner"]

_FIRST_RETRY_S: Final = 0.1
_MOST_DOUBLINGS: Final = 20  # more would only overflow: the heartbeat interval is the cap
_REJOIN_JITTER_S: Final = 0.2
"""When the store loses its data, all agents come back at once; this spreads them out."""

_FOREIGN_RETRY_S: Final = 30.0
"""Topics whose keys hold foreign data are tried so often: nothing tells when somebody has moved it away."""

_JITTER: Final = 0.1
"""By this part of it an interval is shortened or a wait prolonged, so that agents do not fall into step."""

_NEVER: Final = float("inf")
_UNAVAILABLE: Final = "unavailable"


class _Lease(Enum):
    """What is known about the lease of this agent."""

    NONE = "none"
    UNKNOWN = "unknown"
    """A call that may have made it or ended it was not answered."""

    OURS = "ours"


class _Trouble(NamedTuple):
    """What keeps the agent from its work; equal ones are said once."""

    kind: str
    detail: str = ""
    stops_heartbeats: bool = True
    """If not, a heartbeat that succeeds does not mean that the trouble is over."""


class Planner:
    """One broker's life in the registry: register, heartbeat, register again, unregister.

    `step` takes one event and returns what to do, with one store call at a time: the edge answers it with
    Registered, HeartbeatAnswered, Unregistered or CallFailed. What fails is tried again, after 0.1 s at first
    and a heartbeat interval at last. A live lease is renewed even while a new table cannot be written.
    """

    def __init__(self, broker: Broker, *, heartbeat_s: float, rng: random.Random) -> None:
        self._broker = broker
        self._name = f"{broker.broker_name}:{broker.broker_id}"
        self._heartbeat_s = heartbeat_s
        self._rng = rng

        self._broker_up = False
        self._stopping = False
        self._file: TopicsFile | None = None

        self._held: Registration | None = None
        self._lease = _Lease.NONE
        self._written: TopicsFile | None = None
        """The table that the store holds as ours; None = it has to be written."""

        self._standby = False
        """Another agent took the broker over: wait for its lease to end, and do not take it back."""

        self._call: StoreCall | None = None
        self._call_began_s = 0.0
        self._write_at_s = 0.0
        self._heartbeat_at_s = 0.0
        self._mend_at_s = _NEVER

        self._failures = 0
        self._trouble: _Trouble | None = None
        self._trouble_since_s = 0.0
        self._says: list[Say] = []

    def step(self, event: Event, now: float) -> list[Action]:
        """Take note of an event at `now`, in seconds of a steady clock; return what to do."""
        match event:
            case TopicsLoaded(file):
                self._file = file
            case BrokerUp() | BrokerGone() | Stop():
                self._world_changed(event)
            case Registered(file, registration):
                self._registered(file, registration, now)
            case HeartbeatAnswered(status):
                self._heartbeat_answered(status, now)
            case Unregistered():
                self._unregistered(now)
            case CallFailed(error):
                self._call_failed(error, now)
            case Woken():
                pass
        says, self._says = self._says, []
        return [*says, *self._decide(now)]

    def _decide(self, now: float) -> list[Action]:
        if self._call is not None:
            return []
        at_s, call = self._next_call()
        if call is None:
            return [Done()] if self._stopping else []
        if at_s > now:
            return [WakeAt(at_s)]
        self._call, self._call_began_s = call, now
        return [call]

    def _next_call(self) -> tuple[float, StoreCall | None]:
        """Return when the next store call is due, and which it is."""
        if self._stopping or not self._broker_up:
            return self._write_at_s, self._unregister()
        renew_at_s = self._heartbeat_at_s if self._lease is _Lease.OURS else _NEVER
        write_at_s = self._write_at_s if self._must_write() else self._mend_at_s
        if self._file is not None and write_at_s < renew_at_s:  # at a tie the lease goes first
            return write_at_s, Register(self._file, self._held, take_over=not self._standby)
        if self._held is not None and self._lease is _Lease.OURS:
            return renew_at_s, Heartbeat(self._held)
        return _NEVER, None

    def _unregister(self) -> Unregister | None:
        if self._held is None or self._lease is _Lease.NONE:
            return None
        return Unregister(self._held, "agent stopped" if self._stopping else "broker gone")

    def _must_write(self) -> bool:
        return self._lease is not _Lease.OURS or self._written is not self._file

    def _world_changed(self, event: BrokerUp | BrokerGone | Stop) -> None:
        self._write_at_s = 0.0
        match event:
            case BrokerUp():
                self._broker_up = True
                self._say(logging.INFO, "the broker accepts connections")
            case BrokerGone(why):
                self._broker_up = False
                told = "waiting for it" if self._lease is _Lease.NONE else "clients are told so"
                self._say(logging.WARNING, f"the broker is gone, {told}: {why}")
            case Stop():
                self._stopping = True

    def _registered(self, file: TopicsFile, registration: Registration, now: float) -> None:
        self._recovered(now)
        if self._lease is not _Lease.OURS or self._written is not file:
            what = "wrote its changed table" if self._lease is _Lease.OURS else "registered"
            self._say(
                logging.INFO,
                f"{what}: {self._broker.address}, {len(file.topics)} topics, version {file.version.counter}",
                topics=len(file.topics),
                epoch=registration.epoch,
            )
        self._say_what_is_foreign(registration)
        self._mend_at_s = now + _FOREIGN_RETRY_S if registration.corrupt_keys else _NEVER
        self._held, self._written, self._lease, self._standby = registration, file, _Lease.OURS, False
        self._renewed()

    def _heartbeat_answered(self, status: LeaseStatus, now: float) -> None:
        if status is LeaseStatus.FENCED:
            self._fenced(now)
            return
        self._recovered(now)
        self._renewed()
        if status is LeaseStatus.OK:
            return
        if self._written is not None:
            lost = "lease" if status is LeaseStatus.LEASE_LOST else "table"
            self._say(logging.WARNING, f"the store has lost the {lost} of the broker: registering again")
        self._written = None
        if status is LeaseStatus.LEASE_LOST:
            self._lease = _Lease.NONE
        self._write_at_s = max(self._write_at_s, now + self._rng.uniform(0, _REJOIN_JITTER_S))

    def _unregistered(self, now: float) -> None:
        self._recovered(now)
        self._call, self._lease = None, _Lease.NONE
        self._say(logging.INFO, "unregistered")

    def _call_failed(self, error: RegistryError, now: float) -> None:
        match error:
            case StaleEpoch() if error.current_epoch < error.epoch:  # nobody's: the store lost data
                self._lost_ownership()
                self._write_at_s = now + self._rng.uniform(0, _REJOIN_JITTER_S)
            case StaleEpoch():
                self._fenced(now)
            case BrokerOwned():
                self._lost_ownership()
                self._complain(
                    _Trouble("owned", error.owner_address), str(error).removeprefix(self._name + " "), now
                )
                self._write_at_s = now + self._prolonged(min(self._heartbeat_s, error.remaining_ms / 1000))
            case _:
                self._try_again(error, now)

    def _try_again(self, error: RegistryError, now: float) -> None:
        call, self._call = self._call, None
        trouble = _trouble(error, call)
        if trouble.kind == _UNAVAILABLE and (isinstance(call, Unregister) or self._lease is _Lease.NONE):
            self._lease = _Lease.UNKNOWN
        if isinstance(call, Register):
            self._written = None
        self._failures += 1
        doublings = min(self._failures - 1, _MOST_DOUBLINGS)
        delay_s = min(self._heartbeat_s, _FIRST_RETRY_S * 2**doublings) * self._rng.uniform(0.5, 1)
        self._write_at_s = now + delay_s
        if trouble.stops_heartbeats:
            self._heartbeat_at_s = max(self._heartbeat_at_s, now + delay_s)
        self._complain(trouble, f"{error}; trying again until it works", now)

    def _fenced(self, now: float) -> None:
        self._lost_ownership()
        self._standby = True
        self._write_at_s = now + self._prolonged(self._heartbeat_s)
        text = "another agent has taken the broker over: on standby until it ends; only one is needed"
        self._complain(_Trouble("fenced"), text, now)

    def _lost_ownership(self) -> None:
        self._call, self._held, self._written, self._lease = None, None, None, _Lease.NONE

    def _renewed(self) -> None:
        interval_s = self._heartbeat_s * self._rng.uniform(1 - _JITTER, 1)
        self._heartbeat_at_s = self._call_began_s + interval_s
        self._call = None

    def _prolonged(self, wait_s: float) -> float:
        return wait_s * self._rng.uniform(1, 1 + _JITTER)

    def _recovered(self, now: float) -> None:
        """Forget the trouble that the call which has succeeded shows to be over."""
        if self._trouble is None:
            return
        if isinstance(self._call, Heartbeat) and not self._trouble.stops_heartbeats:
            return
        self._say(logging.INFO, f"works again, after {now - self._trouble_since_s:.1f} s")
        self._trouble, self._failures = None, 0

    def _complain(self, trouble: _Trouble, text: str, now: float) -> None:
        """Say what is wrong, once for each trouble."""
        if self._trouble is None:
            self._trouble_since_s = now
        if self._trouble is None or trouble[:2] != self._trouble[:2]:
            self._say(logging.WARNING, text)
        self._trouble = trouble

    def _say_what_is_foreign(self, registration: Registration) -> None:
        known = set(self._held.corrupt_keys) if self._held is not None else set()
        keys = sorted(set(registration.corrupt_keys) - known)
        if keys:
            text = f"foreign data stands in {', '.join(keys)}: these topics are not served; move it away"
            self._say(logging.ERROR, text, keys=keys)
        elif known and not registration.corrupt_keys:
            self._say(logging.INFO, "the foreign data is gone: all topics are served")

    def _say(self, level: int, text: str, **fields: object) -> None:
        self._says.append(Say(level, f"{self._name}: {text}", {"broker": self._name, **fields}))


def _trouble(error: RegistryError, call: StoreCall | None) -> _Trouble:
    """Return what tells one trouble from another; the numbers in messages change all the time."""
    if isinstance(error, StoreUnavailable):
        slow_write = isinstance(error, StoreTimeout) and isinstance(call, Register)
        return _Trouble(_UNAVAILABLE, stops_heartbeats=not slow_write)
    of_heartbeats = isinstance(call, Heartbeat)
    if isinstance(error, CorruptData):
        return _Trouble("corrupt", error.key, of_heartbeats)
    return _Trouble(type(error).__name__, str(error), of_heartbeats)
