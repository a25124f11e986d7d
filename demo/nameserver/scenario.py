"""The events of the name server demo, and how long each takes with RocketMQ's own name server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TOPIC: Final = "orders"
BROKERS: Final = ("broker-a", "broker-b")
FRONTS: Final = ("front-1", "front-2")
MESSAGES_PER_S: Final = 10

FRONT_LIVES_S: Final = 5.0
"""So long the routes are watched after a front was killed: the others notice it after 3 s."""

RECEIVED_S: Final = 20.0
"""A message that is not received by then, when all has ended, is lost."""


@dataclass(frozen=True, slots=True)
class Event:
    """One step of the demo."""

    name: str
    """For programs; the stage knows by it what to do."""

    title: str
    short_title: str
    effect: str
    """What is awaited."""

    bound_s: float
    """An effect that is not there by then was not seen."""

    original: str
    """The same with RocketMQ's name servers."""

    about: str = ""
    """The front or the broker to which it happens."""


SCENARIO: Final = (
    Event(
        "brokers-start",
        "two brokers of RocketMQ start; each is told of both fronts",
        "two brokers start",
        "both fronts list both brokers",
        90.0,
        "as here",
    ),
    Event(
        "topic-made",
        "mqadmin updateTopic makes the topic",
        "topic made",
        "both fronts have its route, with both brokers",
        30.0,
        "as here",
    ),
    Event(
        "traffic-starts",
        "a Java producer and a Java consumer start",
        "clients start",
        "both brokers are sent to and received from",
        30.0,
        "as here",
    ),
    Event(
        "front-killed",
        "front-1 is killed (SIGKILL)",
        "front-1 killed",
        f"front-2 has kept the whole route for {FRONT_LIVES_S:g} s, and clients go on",
        FRONT_LIVES_S + 5.0,
        "as here",
        FRONTS[0],
    ),
    Event(
        "front-back",
        "front-1 is started again",
        "front-1 back",
        "its first answer has the whole route",
        10.0,
        "up to 30 s",
        FRONTS[0],
    ),
    Event(
        "store-empty",
        "Redis is killed and comes back, empty",
        "Redis back, empty",
        "the table is whole again, and the fronts have answered with the whole route all the while",
        8.0,
        "up to 30 s",
    ),
    Event(
        "broker-stopped",
        "broker-b hangs (SIGSTOP): its connections stay open",
        "broker-b hangs",
        "out of the route at both fronts",
        10.0,
        "120 s",
        BROKERS[1],
    ),
    Event(
        "broker-resumed",
        "broker-b goes on (SIGCONT)",
        "broker-b goes on",
        "in the route again at both fronts, and sent to",
        10.0,
        "1 s",
        BROKERS[1],
    ),
    Event(
        "broker-killed",
        "broker-a is killed (SIGKILL)",
        "broker-a killed",
        "out of the route at both fronts",
        1.0,
        "at once",
        BROKERS[0],
    ),
    Event(
        "broker-back",
        "broker-a is started again",
        "broker-a back",
        "in the route again at both fronts, and sent to",
        30.0,
        "as here",
        BROKERS[0],
    ),
)
