"""A planner on the desk of a test: a clock, what it did last, and what it logged."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import Any, Final, NamedTuple, Self, TypeAlias

from sharedroutes.broker_agent.planner.events import (
    Answered,
    CallFailed,
    Event,
    Heartbeat,
    ProbeOwner,
    Register,
    StoreCall,
    TopicsLoaded,
    Woken,
)
from sharedroutes.broker_agent.planner.planner import Planner
from sharedroutes.broker_agent.planner.schedule import NEVER
from sharedroutes.broker_agent.planner.status import AgentStatus, Phase
from sharedroutes.broker_agent.rocketmq.topics import TopicTable
from sharedroutes.registry import (
    Broker,
    BrokerOwned,
    LeaseStatus,
    Registration,
    SeenLease,
    StaleEpoch,
    StoreUnavailable,
    TopicConfig,
)
from sharedroutes.remoting.broker.probing import BrokerGone, BrokerUp
from tests.broker_agent.follower import logged

BROKER: Final = Broker("broker-a", "10.0.0.1:10911")
SLAVE: Final = replace(BROKER, broker_id=1, enable_acting_master=True)
MOVED: Final = replace(BROKER, address="10.0.0.9:10911")
HEARTBEAT_S: Final = 5.0
TTL_S: Final = 15.0
STOP_DEADLINE_S: Final = 1.0

GONE: Final = BrokerGone("10.0.0.1:10911: refused")
DOWN: Final = CallFailed(StoreUnavailable("down"))
STALE: Final = CallFailed(StaleEpoch("broker-a", 0, 1, 2))
DONE: Final = Answered()
OK: Final = Answered(LeaseStatus.OK)
FENCED: Final = Answered(LeaseStatus.FENCED)
LEASE_LOST: Final = Answered(LeaseStatus.LEASE_LOST)
CHANGED: Final = Answered(answer=True)
UNCHANGED: Final = Answered(answer=False)


def table_of(*names: str) -> TopicTable:
    return TopicTable({name: TopicConfig(name) for name in names})


TABLE: Final = table_of("a")
OTHER_TABLE: Final = table_of("a", "b")


def held_of(
    table: TopicTable = TABLE, epoch: int = 1, broker: Broker = BROKER, **fields: Any
) -> Registration:
    return Registration(broker, epoch, f"{epoch}.1", table.topics, **fields)


def granted(table: TopicTable = TABLE, epoch: int = 1, **fields: Any) -> Answered:
    return Answered(held_of(table, epoch, **fields))


def refused(
    by: str = BROKER.address, remaining_ms: int = 12_000, lease: SeenLease | None = None
) -> CallFailed:
    return CallFailed(BrokerOwned("broker-a", 0, by, remaining_ms, lease=lease))


START: Final = (BrokerUp(), TopicsLoaded(TABLE))
HELD: Final = held_of()
REGISTER: Final = Register(BROKER, TABLE, None, take_over=True)
STAND_BY: Final = replace(REGISTER, take_over=False)


class WakeAt(NamedTuple):
    """The planner wants to be woken then, and asks for nothing."""

    at_s: float


class Done(NamedTuple):
    """The agent ends."""


Action: TypeAlias = StoreCall | WakeAt | Done


class Desk:
    """A planner with a clock, and what it did last."""

    def __init__(self, *events: Event) -> None:
        self.planner = Planner(
            BROKER,
            name="broker-a:0",
            heartbeat_s=HEARTBEAT_S,
            lease_ttl_s=TTL_S,
            stop_deadline_s=STOP_DEADLINE_S,
            rng=random.Random(1),
        )
        self.now = 100.0
        self.said: list[str] = []
        self.actions: list[Action] = []
        self.all_actions: list[Action] = []
        self.probes: list[ProbeOwner] = []
        self.send(*events)

    @classmethod
    def registered(cls) -> Self:
        """Return a planner whose broker has just been registered."""
        desk = cls(*START, granted())
        desk.said.clear()
        return desk

    def status(self) -> AgentStatus:
        return self.planner.status(self.now)

    def phase(self) -> Phase:
        return self.status().phase

    def send(self, *events: Event) -> Action | None:
        """Send the events; return the call or the wait that the last one led to."""
        for event in events:
            records: list[logging.LogRecord] = []
            with logged(records):
                step = self.planner.step(event, self.now)
            self.said += [record.getMessage() for record in records]
            self.probes += [step.probe] if step.probe else []
            self.actions = [step.call] if step.call else []
            self.actions += [WakeAt(step.wake_at_s)] if step.wake_at_s < NEVER else []
            self.actions += [Done()] if step.done else []
            self.all_actions += self.actions
        return self.actions[0] if self.actions else None

    def wait(self) -> Action | None:
        """Let the time pass until the planner wants to be woken; return what it does then."""
        self.now += self.waited_s()
        return self.send(Woken())

    def waited_s(self) -> float:
        """Return how long the planner wants to wait."""
        (wake,) = self.actions
        assert isinstance(wake, WakeAt)
        assert wake.at_s > self.now
        return wake.at_s - self.now

    def until(self, kind: type[Action]) -> Action:
        """Answer heartbeats until another call is made; return it."""
        for _ in range(100):
            action = self.actions[0]
            if isinstance(action, kind):
                return action
            if isinstance(action, Heartbeat):
                self.send(OK)
            else:
                self.wait()
        raise AssertionError(f"no {kind}")

    def heard(self, text: str) -> int:
        """Return how many messages hold a text."""
        return sum(text in said for said in self.said)
