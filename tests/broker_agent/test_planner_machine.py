"""The planner against a model of the store, under faults in any order."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharedroutes.broker_agent.events import (
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
from sharedroutes.broker_agent.planner import Planner
from sharedroutes.broker_agent.topics import TopicsFile
from sharedroutes.registry import (
    Broker,
    BrokerOwned,
    CorruptData,
    LeaseStatus,
    Registration,
    StaleEpoch,
    StoreRefused,
    StoreUnavailable,
)

BROKER: Final = Broker("broker-a", "10.0.0.1:10911")
OTHER_ADDRESS: Final = "10.0.0.2:10911"
HEARTBEAT_S: Final = 5.0
TTL_S: Final = 15.0
CALLS_TO_CONVERGE: Final = 100
_FAULTS: Final = {
    "request lost": StoreUnavailable("down"),
    "corrupt": CorruptData("key", "foreign"),
    "refused": StoreRefused("WRONGPASS"),
}


@dataclass
class ModelStore:
    """What the registry's scripts do for one (broker, id), in a dozen lines each."""

    epoch: int = 0
    owner: int | None = None
    lease: tuple[int, str] | None = None
    lease_ends_s: float = 0.0
    table: TopicsFile | None = None

    def expire(self, now: float) -> None:
        if now >= self.lease_ends_s:
            self.lease = None

    def claim(self, address: str, *, take_over: bool, now: float) -> int:
        if self.lease is not None and (self.lease[1] != address or not take_over):
            remaining_ms = round((self.lease_ends_s - now) * 1000)
            raise BrokerOwned("broker-a", 0, self.lease[1], remaining_ms)
        self.epoch += 1
        self.owner = self.epoch
        return self.epoch

    def register(self, call: Register, now: float) -> Registration:
        epoch = (
            call.held.epoch if call.held else self.claim(BROKER.address, take_over=call.take_over, now=now)
        )
        self.check_owner(epoch)
        self.table, self.lease, self.lease_ends_s = call.file, (epoch, BROKER.address), now + TTL_S
        return Registration(BROKER, epoch, str(epoch), call.file.topics)

    def heartbeat(self, held: Registration, now: float) -> LeaseStatus:
        if self.owner is not None and self.owner != held.epoch:
            return LeaseStatus.FENCED
        if self.owner is None or self.lease is None or self.lease[0] != held.epoch:
            return LeaseStatus.LEASE_LOST
        self.lease_ends_s = now + TTL_S
        same_table = self.table is not None and self.table.topics is held.topics
        return LeaseStatus.OK if same_table else LeaseStatus.TABLE_LOST

    def unregister(self, held: Registration) -> None:
        self.check_owner(held.epoch)
        self.lease = None

    def check_owner(self, epoch: int) -> None:
        if self.owner != epoch:
            raise StaleEpoch("broker-a", 0, epoch, self.owner or 0)


class PlannerUnderFaults(RuleBasedStateMachine):
    """Any faults, in any order; what must hold all the time, and what must hold once they end."""

    def __init__(self) -> None:
        super().__init__()
        self.store = ModelStore()
        self.now = 0.0
        self.broker_up = False
        self.stopped = False
        self.done = False
        self.latest: TopicsFile | None = None
        self.call: StoreCall | None = None
        self.wake_at_s: float | None = None
        self.leased = False  # as the planner has been told

    @initialize(seed=st.integers(0, 1000), started=st.booleans(), stops=st.sampled_from([False, False, True]))
    def start(self, seed: int, started: bool, stops: bool) -> None:  # noqa: FBT001 - hypothesis names them
        self.planner = Planner(BROKER, heartbeat_s=HEARTBEAT_S, rng=random.Random(seed))
        self.stops = stops
        if started:
            self.topics_change()
            self.broker_comes_or_goes()
            self.store_answers("truth")

    def send(self, event: Event) -> None:
        for action in self.planner.step(event, self.now):
            match action:
                case Say():
                    pass
                case WakeAt(at_s):
                    assert at_s > self.now
                    self.wake_at_s = at_s
                case Done():
                    assert self.stopped
                    self.done = True
                case Register() | Heartbeat() | Unregister():
                    self.begin(action)

    def begin(self, call: StoreCall) -> None:
        assert self.call is None, "two store calls at the same time"
        assert not self.done
        match call:
            case Heartbeat():
                assert self.leased, "a heartbeat without a registration"
                assert self.broker_up
            case Register(file):
                assert file is self.latest
                assert self.broker_up
                assert not self.stopped
            case Unregister():
                assert self.stopped or not self.broker_up
        self.call = call

    @precondition(lambda self: not self.done)
    @rule()
    def topics_change(self) -> None:
        self.latest = TopicsFile({})
        self.send(TopicsLoaded(self.latest))

    @precondition(lambda self: not self.done)
    @rule()
    def broker_comes_or_goes(self) -> None:
        self.broker_up = not self.broker_up
        self.send(BrokerUp() if self.broker_up else BrokerGone("refused"))

    @precondition(lambda self: self.call is not None)
    @rule(
        how=st.sampled_from(["truth", "truth", "truth", "request lost", "answer lost", "corrupt", "refused"])
    )
    def store_answers(self, how: str) -> None:
        event = CallFailed(_FAULTS[how]) if how in _FAULTS else self.carry_out()
        self.finish(CallFailed(StoreUnavailable("down")) if how == "answer lost" else event)

    @rule(seconds=st.floats(0.01, 20.0))
    def time_passes(self, seconds: float) -> None:
        until_s = self.now + seconds
        while self.wake_at_s is not None and self.wake_at_s <= until_s:
            self.wake()
        self.now = until_s

    @rule(everything=st.booleans())
    def store_loses_data(self, everything: bool) -> None:  # noqa: FBT001 - hypothesis names it
        self.store.table = None
        if everything:
            self.store.owner = self.store.lease = None

    @rule(address=st.sampled_from([BROKER.address, OTHER_ADDRESS]))
    def another_agent_starts(self, address: str) -> None:
        self.store.expire(self.now)
        if self.store.lease is None or self.store.lease[1] == address:
            epoch = self.store.claim(address, take_over=True, now=self.now)
            self.store.lease, self.store.lease_ends_s = (epoch, address), self.now + TTL_S
            self.store.table = None

    @precondition(lambda self: self.stops and not self.stopped)
    @rule()
    def the_agent_is_stopped(self) -> None:
        self.stopped = True
        self.send(Stop())

    @invariant()
    def there_is_always_something_to_wait_for(self) -> None:
        wanted = self.broker_up and self.latest is not None and not self.stopped
        assert self.done or not wanted or self.call is not None or self.wake_at_s is not None

    def wake(self) -> None:
        assert self.wake_at_s is not None
        self.now, self.wake_at_s = self.wake_at_s, None
        self.send(Woken())

    def carry_out(self) -> Event:
        self.store.expire(self.now)
        try:
            match self.call:
                case Register(file) as call:
                    return Registered(file, self.store.register(call, self.now))
                case Heartbeat(held):
                    return HeartbeatAnswered(self.store.heartbeat(held, self.now))
                case Unregister(held):
                    self.store.unregister(held)
        except (StaleEpoch, BrokerOwned) as error:
            return CallFailed(error)
        return Unregistered()

    def finish(self, event: Event) -> None:
        self.call = None
        match event:
            case Registered():
                self.leased = True
            case Unregistered() | HeartbeatAnswered(LeaseStatus.LEASE_LOST | LeaseStatus.FENCED):
                self.leased = False
            case CallFailed(StaleEpoch() | BrokerOwned()):
                self.leased = False
        self.send(event)

    def teardown(self) -> None:
        """End all faults; then the registry has to say what is true, soon."""
        if not self.stopped and not self.broker_up:
            self.broker_comes_or_goes()
        quiet_at_s = self.now + 2 * TTL_S
        for _ in range(CALLS_TO_CONVERGE):
            if self.now >= quiet_at_s or self.done:
                break
            if self.call is not None:
                self.finish(self.carry_out())
            elif self.wake_at_s is not None:
                self.wake()
            else:
                break
        self.store.expire(self.now)
        if self.stopped:
            assert self.done
            assert not self.leased
        elif self.latest is not None:
            assert self.store.lease == (self.store.owner, BROKER.address)
            assert self.store.table is self.latest
            assert self.leased


TestPlannerUnderFaults = PlannerUnderFaults.TestCase
TestPlannerUnderFaults.settings = settings(max_examples=300, stateful_step_count=40)
