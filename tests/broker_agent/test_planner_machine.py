"""The planner against a model of the store, under faults in any order."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharedroutes.broker_agent.planner.events import (
    Answered,
    CallFailed,
    Drain,
    Event,
    HandOver,
    Heartbeat,
    OwnerLeft,
    OwnerProbed,
    Pause,
    ProbeOwner,
    Register,
    Resume,
    RoleFound,
    RoleUnknown,
    SetWritePerm,
    Stop,
    StoreCall,
    TopicsLoaded,
    Unregister,
    Withdraw,
    Woken,
)
from sharedroutes.broker_agent.planner.intent import LEAST_WATCH_S
from sharedroutes.broker_agent.planner.planner import Planner
from sharedroutes.broker_agent.planner.schedule import NEVER
from sharedroutes.broker_agent.planner.status import Phase
from sharedroutes.broker_agent.rocketmq.topics import TopicTable
from sharedroutes.registry import (
    Broker,
    BrokerOwned,
    BrokerWithdrawn,
    CorruptData,
    LeaseStatus,
    Registration,
    SeenLease,
    StaleEpoch,
    StoreRefused,
    StoreUnavailable,
)
from sharedroutes.remoting.broker.owner import OwnerAnswer
from sharedroutes.remoting.broker.probing import BrokerGone, BrokerUp
from tests.broker_agent.desk import BROKER, HEARTBEAT_S, MOVED, SLAVE, TTL_S
from tests.support import examples

ROLES: Final = (BROKER, SLAVE, MOVED)
OTHER_ADDRESS: Final = "10.0.0.2:10911"
CALLS_TO_CONVERGE: Final = 100
_FAULTS: Final = {
    "request lost": StoreUnavailable("down"),
    "corrupt": CorruptData("key", "foreign"),
    "refused": StoreRefused("WRONGPASS"),
}


@dataclass
class Replica:
    """One (broker, id) in the store."""

    epoch: int = 0
    owner: int | None = None
    lease: tuple[int, str] | None = None
    lease_ends_s: float = 0.0
    kept_out: str = ""

    def seen(self) -> SeenLease | None:
        """Return the lease as who is refused is told of it."""
        return SeenLease(*self.lease, round(self.lease_ends_s * 1000)) if self.lease else None

    def expire(self, now: float) -> None:
        if now >= self.lease_ends_s:
            self.lease = None


@dataclass
class ModelStore:
    """What the registry's scripts do for the replicas of one group, in a dozen lines each."""

    replicas: dict[int, Replica] = field(default_factory=lambda: {0: Replica(), 1: Replica()})
    table: TopicTable | None = None
    writable: bool = True

    def expire(self, now: float) -> None:
        for replica in self.replicas.values():
            replica.expire(now)

    def lose(self) -> None:
        for replica in self.replicas.values():
            replica.owner = replica.lease = None
            replica.kept_out = ""
        self.writable = True

    def claim(
        self,
        broker: Broker,
        *,
        take_over: bool,
        admit: bool,
        now: float,
        instead_of: SeenLease | None = None,
    ) -> int:
        replica = self.replicas[broker.broker_id]
        lease = replica.lease
        gone = lease is not None and instead_of == replica.seen()
        if lease is not None and not gone and (lease[1] != broker.address or not take_over):
            self.refuse(broker, replica, now)
        if replica.kept_out == broker.address and not admit:
            raise BrokerWithdrawn(broker.broker_name, broker.broker_id, broker.address)
        replica.epoch += 1
        replica.owner = replica.epoch
        return replica.epoch

    def formers(self, broker: Broker) -> list[Replica]:
        """Return what the same address is under other ids: a registration ends it, a withdrawal does not."""
        return [
            replica
            for number, replica in self.replicas.items()
            if number != broker.broker_id and replica.lease is not None and replica.lease[1] == broker.address
        ]

    def end_formers(self, broker: Broker) -> None:
        for former in self.formers(broker):
            former.epoch += 1
            former.owner, former.lease = former.epoch, None

    def refuse(self, broker: Broker, replica: Replica, now: float) -> None:
        assert replica.lease is not None
        remaining_ms = round((replica.lease_ends_s - now) * 1000)
        # What the address has under another id is not to be taken over.
        owner = replica.lease[1]
        lease = replica.seen() if replica is self.replicas[broker.broker_id] else None
        raise BrokerOwned(broker.broker_name, broker.broker_id, owner, remaining_ms, lease=lease)

    def register(self, call: Register, now: float) -> Registration:
        broker = call.broker
        if call.held is not None:
            assert call.held.broker == broker
        if call.held:
            epoch = call.held.epoch
        else:
            for former in self.formers(broker) if not call.take_over else ():
                self.refuse(broker, former, now)
            epoch = self.claim(
                broker, take_over=call.take_over, admit=call.admit, instead_of=call.instead_of, now=now
            )
        self.check_owner(broker, epoch)
        self.end_formers(broker)
        replica = self.replicas[broker.broker_id]
        self.table, replica.lease, replica.lease_ends_s = call.table, (epoch, broker.address), now + TTL_S
        replica.kept_out = "" if replica.kept_out == broker.address else replica.kept_out
        return Registration(broker, epoch, str(epoch), call.table.topics)

    def heartbeat(self, held: Registration, now: float) -> LeaseStatus:
        replica = self.replicas[held.broker.broker_id]
        if replica.owner is not None and replica.owner != held.epoch:
            return LeaseStatus.FENCED
        if replica.owner is None or replica.lease is None or replica.lease[0] != held.epoch:
            return LeaseStatus.LEASE_LOST
        replica.lease_ends_s = now + TTL_S
        same_table = self.table is not None and self.table.topics is held.topics
        return LeaseStatus.OK if same_table else LeaseStatus.TABLE_LOST

    def unregister(self, held: Registration) -> None:
        self.check_owner(held.broker, held.epoch)
        self.replicas[held.broker.broker_id].lease = None

    def withdraw(self, broker: Broker, now: float) -> None:
        epoch = self.claim(broker, take_over=True, admit=True, now=now)
        replica = self.replicas[broker.broker_id]
        replica.owner, replica.lease, replica.kept_out = epoch, None, broker.address

    def set_write_perm(self, *, allowed: bool) -> bool:
        changed, self.writable = self.writable != allowed, allowed
        return changed

    def check_owner(self, broker: Broker, epoch: int) -> None:
        owner = self.replicas[broker.broker_id].owner
        if owner != epoch:
            raise StaleEpoch(broker.broker_name, broker.broker_id, epoch, owner or 0)


class PlannerUnderFaults(RuleBasedStateMachine):
    """Any faults, in any order; what must hold all the time, and what must hold once they end."""

    def __init__(self) -> None:
        super().__init__()
        self.store = ModelStore()
        self.now = 0.0
        self.role: Broker | None = BROKER
        self.broker_up = False
        self.stopped = False
        self.hands_over_at_s: float | None = None  # the agent was told to, and watches until then
        self.goes_on = False  # the broker has been up, and wanted, since then
        self.done = False
        self.out = False  # as the operator wants it
        self.resumed = False  # and nobody has drained the broker since, nor has another owner had it
        self.latest: TopicTable | None = None
        self.call: StoreCall | None = None
        self.wake_at_s: float | None = None
        self.told: Registration | None = None  # the lease that the planner may believe in
        self.look: ProbeOwner | None = None
        self.found_gone: set[SeenLease] = set()

    @initialize(seed=st.integers(0, 1000), started=st.booleans(), stops=st.sampled_from([False, False, True]))
    def start(self, seed: int, started: bool, stops: bool) -> None:  # noqa: FBT001 - hypothesis names them
        self.planner = Planner(
            BROKER,
            name="broker-a:0",
            heartbeat_s=HEARTBEAT_S,
            lease_ttl_s=TTL_S,
            stop_deadline_s=float("inf"),
            rng=random.Random(seed),
        )
        self.stops = stops
        if started:
            self.topics_change()
            self.broker_comes_or_goes()
            self.store_answers("truth")

    def send(self, event: Event) -> None:
        step = self.planner.step(event, self.now)
        assert step.wake_at_s > self.now
        self.wake_at_s = step.wake_at_s if step.wake_at_s < NEVER else None
        if step.probe is not None:
            assert self.look is None, "two looks at the same time"
            assert step.probe.lease.address != step.probe.own_address
            self.look = step.probe
        if step.done:
            assert self.stopped or self.hands_over_at_s is not None
            self.done = True
        if step.call is not None:
            self.begin(step.call)

    def begin(self, call: StoreCall) -> None:
        assert self.call is None, "two store calls at the same time"
        assert not self.done
        match call:
            case Heartbeat(held):
                assert held is self.told, "a heartbeat without a registration"
                assert self.broker_up
                assert held.broker == self.role, "the lease of a former role is renewed"
            case Register(broker, file):
                assert call.instead_of is None or self.may_be_taken_over(call.instead_of)
                assert broker == self.role
                assert file is self.latest
                assert self.broker_up
                assert not self.stopped
                assert not (self.out and self.planner.status(self.now).phase is Phase.PAUSED)
            case Unregister(held):
                assert self.stopped or not self.goes_on or held.broker != self.role, "a broker that goes on"
            case Withdraw(broker):
                assert broker == self.role
                assert self.out, "a withdrawal that nobody asked for"
        self.call = call

    def may_be_taken_over(self, lease: SeenLease) -> bool:
        """Whether its owner was found gone, or is another agent of this broker that has left it behind."""
        is_late = lease.ends_ms / 1000 - self.now <= TTL_S / 4 + 0.001
        return lease in self.found_gone or (is_late and lease.address != OTHER_ADDRESS)

    @precondition(lambda self: not self.done)
    @rule()
    def topics_change(self) -> None:
        self.latest = TopicTable({})
        self.send(TopicsLoaded(self.latest))

    @precondition(lambda self: not self.done)
    @rule()
    def broker_comes_or_goes(self) -> None:
        self.broker_up = not self.broker_up
        self.goes_on = False
        self.send(BrokerUp() if self.broker_up else BrokerGone("refused"))

    @precondition(lambda self: not self.done)
    @rule(role=st.sampled_from([*ROLES, None]))
    def the_role_changes(self, role: Broker | None) -> None:
        known = self.planner.status(self.now).broker
        self.role, self.goes_on, self.resumed = role, False, False
        if role is not None and known is not None and role.address != known.address:
            self.broker_up = False  # nobody has looked for it there yet
        self.send(RoleFound(role) if role is not None else RoleUnknown("an election"))

    @precondition(lambda self: not self.done)
    @rule(wish=st.sampled_from([Pause(), Drain(0.0), Drain(1.0), Drain(30.0), Resume(), Resume()]))
    def the_operator_wants(self, wish: Pause | Drain | Resume) -> None:
        self.out = not isinstance(wish, Resume)
        self.resumed = not self.out
        self.goes_on = False
        self.send(wish)

    @precondition(lambda self: self.call is not None)
    @rule(
        how=st.sampled_from(["truth", "truth", "truth", "request lost", "answer lost", "corrupt", "refused"])
    )
    def store_answers(self, how: str) -> None:
        event = CallFailed(_FAULTS[how]) if how in _FAULTS else self.carry_out()
        self.finish(CallFailed(StoreUnavailable("down")) if how == "answer lost" else event)

    @precondition(lambda self: self.look is not None and not self.done)
    @rule(answer=st.sampled_from([OwnerAnswer.NONE, OwnerAnswer.SOME, OwnerAnswer.UNKNOWN]))
    def the_look_ends(self, answer: OwnerAnswer) -> None:
        assert self.look is not None
        lease, self.look = self.look.lease, None
        if answer is OwnerAnswer.NONE:
            self.found_gone.add(lease)
        self.send(OwnerProbed(lease, answer, "found"))

    @rule(broker_id=st.sampled_from([0, 1]))
    def another_owner_renews_its_lease(self, broker_id: int) -> None:
        self.store.expire(self.now)
        replica = self.store.replicas[broker_id]
        if replica.lease is not None and replica.lease[1] == OTHER_ADDRESS:
            replica.lease_ends_s = self.now + TTL_S

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
            self.store.lose()

    @rule(address=st.sampled_from([BROKER.address, OTHER_ADDRESS]), broker_id=st.sampled_from([0, 1]))
    def another_agent_starts(self, address: str, broker_id: int) -> None:
        self.store.expire(self.now)
        other, replica = replace(BROKER, address=address, broker_id=broker_id), self.store.replicas[broker_id]
        if replica.lease is None or replica.lease[1] == address:
            epoch = self.store.claim(other, take_over=True, admit=True, now=self.now)
            self.store.end_formers(other)
            replica.lease, replica.lease_ends_s = (epoch, address), self.now + TTL_S
            replica.kept_out = "" if replica.kept_out == address else replica.kept_out
            self.store.table = None

    @rule(address=st.sampled_from([BROKER.address, OTHER_ADDRESS]), broker_id=st.sampled_from([0, 1]))
    def an_operator_drains_at_another_agent(self, address: str, broker_id: int) -> None:
        self.store.expire(self.now)
        other = replace(BROKER, address=address, broker_id=broker_id)
        lease = self.store.replicas[broker_id].lease
        if lease is None or lease[1] == address:
            self.resumed = False
            self.store.withdraw(other, self.now)

    @precondition(lambda self: not self.done)
    @rule()
    def an_owner_leaves(self) -> None:
        self.send(OwnerLeft())

    @precondition(lambda self: self.stops and not self.stopped and not self.done)
    @rule()
    def the_agent_is_stopped(self) -> None:
        self.stopped = True
        self.send(Stop())

    @precondition(lambda self: self.stops and not self.stopped and not self.done)
    @rule(watch_s=st.sampled_from([0.0, 1.0, 20.0]))
    def the_agent_hands_over(self, watch_s: float) -> None:
        if self.hands_over_at_s is None:
            self.goes_on = self.broker_up and self.role is not None and not self.out
        ends_at_s = self.now + max(watch_s, LEAST_WATCH_S)
        self.hands_over_at_s = min(ends_at_s, self.hands_over_at_s or ends_at_s)
        self.send(HandOver(watch_s))

    @invariant()
    def there_is_always_something_to_wait_for(self) -> None:
        wanted = self.broker_up and self.role is not None and self.latest is not None and not self.out
        assert self.done or self.stopped or not wanted or self.call or self.wake_at_s is not None

    def wake(self) -> None:
        assert self.wake_at_s is not None
        self.now, self.wake_at_s = self.wake_at_s, None
        self.send(Woken())

    def carry_out(self) -> Event:
        self.store.expire(self.now)
        try:
            match self.call:
                case Register() as call:
                    return Answered(self.store.register(call, self.now))
                case Heartbeat(held):
                    return Answered(self.store.heartbeat(held, self.now))
                case SetWritePerm(_, allowed):
                    return Answered(self.store.set_write_perm(allowed=allowed))
                case Withdraw(broker):
                    self.store.withdraw(broker, self.now)
                case Unregister(held):
                    self.store.unregister(held)
        except (StaleEpoch, BrokerOwned, BrokerWithdrawn) as error:
            return CallFailed(error)
        return Answered()

    def finish(self, event: Event) -> None:
        call, self.call = self.call, None
        match call, event:
            case Register(), Answered(Registration() as registration):
                self.told = registration
            case Withdraw(broker), Answered():
                if self.told is not None and self.told.broker.broker_id == broker.broker_id:
                    self.told = None
            case (
                (Unregister(), Answered())
                | (Heartbeat(), Answered(LeaseStatus.LEASE_LOST | LeaseStatus.FENCED))
                | (_, CallFailed(StaleEpoch() | BrokerOwned() | BrokerWithdrawn()))
            ):
                self.told = None
        if isinstance(event, CallFailed) and isinstance(event.error, BrokerOwned):
            self.resumed = False
        self.send(event)
        if self.done and not self.stopped and event == Answered(LeaseStatus.OK):
            self.the_next_agent_finds_a_fresh_lease()

    def the_next_agent_finds_a_fresh_lease(self) -> None:
        assert self.told is not None
        assert self.hands_over_at_s is not None
        replica = self.store.replicas[self.told.broker.broker_id]
        assert replica.lease == (self.told.epoch, self.told.broker.address)
        assert replica.lease_ends_s >= self.hands_over_at_s + TTL_S

    def teardown(self) -> None:
        """End all faults; then the registry has to say what is true, soon."""
        if not self.done and self.role is None:
            self.the_role_changes(ROLES[1])
        if not self.stopped and not self.broker_up:
            self.broker_comes_or_goes()
        quiet_at_s = self.now + 3 * TTL_S
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
        self.the_registry_says_what_is_true()

    def the_registry_says_what_is_true(self) -> None:
        ours = {
            number: replica
            for number, replica in self.store.replicas.items()
            if replica.lease is not None and replica.lease[1] in {role.address for role in ROLES}
        }
        assert self.store.writable, "a write permission that was taken and not given back"
        if self.stopped:
            assert self.done
            assert self.told is None
        elif self.hands_over_at_s is not None:
            assert self.done
        elif self.out:
            assert self.told is None
        elif self.latest is not None and self.role is not None:
            replica = self.store.replicas[self.role.broker_id]
            if replica.kept_out == self.role.address:  # by somebody else
                assert not self.resumed, "a resume that was not heeded"
                assert replica.lease is None
                assert self.told is None
                return
            assert list(ours) == [self.role.broker_id]
            assert replica.lease == (replica.owner, self.role.address)
            assert self.store.table is self.latest
            assert self.told is not None


TestPlannerUnderFaults = PlannerUnderFaults.TestCase
TestPlannerUnderFaults.settings = settings(max_examples=examples(300), stateful_step_count=40)
