"""A planner on the desk of a test: a clock, what it did last, and what it said."""

from __future__ import annotations

import random
from typing import Any, Final

from sharedroutes.broker_agent.planner.events import (
    Action,
    BrokerGone,
    Event,
    Register,
    Registered,
    Say,
    WakeAt,
    Woken,
)
from sharedroutes.broker_agent.planner.planner import Planner
from sharedroutes.broker_agent.rocketmq.topics import TopicTable
from sharedroutes.registry import Broker, Registration, TopicConfig

BROKER: Final = Broker("broker-a", "10.0.0.1:10911")
HEARTBEAT_S: Final = 5.0
TTL_S: Final = 15.0
NAME: Final = "broker-a:0"
SLOW_S: Final = 3.0
GONE: Final = BrokerGone("10.0.0.1:10911: refused")


def file_of(*names: str) -> TopicTable:
    return TopicTable({name: TopicConfig(name) for name in names})


FILE: Final = file_of("a")


class Desk:
    """A planner with a clock, and what it did last."""

    def __init__(self) -> None:
        self.planner = Planner(
            BROKER, name=NAME, heartbeat_s=HEARTBEAT_S, lease_ttl_s=TTL_S, rng=random.Random(1)
        )
        self.broker = BROKER
        self.now = 100.0
        self.said: list[str] = []
        self.actions: list[Action] = []
        self.all_actions: list[Action] = []

    def send(self, *events: Event) -> Action | None:
        """Send the events; return what the last one led to besides words."""
        for event in events:
            self.note(self.planner.step(event, self.now))
        return self.actions[0] if self.actions else None

    def note(self, actions: list[Action]) -> None:
        """Keep what the planner does and says."""
        self.said += [action.text for action in actions if isinstance(action, Say)]
        self.actions = [action for action in actions if not isinstance(action, Say)]
        assert len(self.actions) <= 1
        self.all_actions += self.actions

    def wait(self) -> Action | None:
        """Let the time pass until the planner wants to be woken; return what it does then."""
        (wake,) = self.actions
        assert isinstance(wake, WakeAt)
        assert wake.at_s > self.now
        self.now = wake.at_s
        return self.send(Woken())

    def waited_s(self) -> float:
        """Return how long the planner wants to wait."""
        (wake,) = self.actions
        assert isinstance(wake, WakeAt)
        return wake.at_s - self.now

    def answer(self, register: Action | None, epoch: int = 1) -> Action | None:
        """Let a registration succeed."""
        assert isinstance(register, Register)
        return self.send(Registered(register.file, held_of(register.file, epoch, broker=self.broker)))


def held_of(file: TopicTable, epoch: int = 1, broker: Broker = BROKER, **fields: Any) -> Registration:
    return Registration(broker, epoch, f"{epoch}.1", file.topics, **fields)
