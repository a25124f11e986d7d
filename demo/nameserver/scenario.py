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


@dataclass(frozen=True, slots=True, kw_only=True)
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

    calm_s: float = 1.5
    """Until the next one, when its effect is there."""


SCENARIO: Final = (
    Event(
        name="brokers-start",
        title="two brokers of RocketMQ start; each is told of both fronts",
        short_title="two brokers start",
        effect="both fronts list both brokers",
        bound_s=90.0,
        original="as here",
    ),
    Event(
        name="topic-made",
        title="mqadmin updateTopic makes the topic",
        short_title="topic made",
        effect="both fronts have its route, with both brokers",
        bound_s=30.0,
        original="as here",
    ),
    Event(
        name="traffic-starts",
        title="a Java producer and a Java consumer start",
        short_title="clients start",
        effect="both brokers are sent to and received from",
        bound_s=30.0,
        original="as here",
    ),
    Event(
        name="front-killed",
        title="front-1 is killed (SIGKILL)",
        short_title="front-1 killed",
        effect=f"front-2 has kept the whole route for {FRONT_LIVES_S:g} s, and clients go on",
        bound_s=FRONT_LIVES_S + 5.0,
        original="as here",
        about=FRONTS[0],
    ),
    Event(
        name="front-back",
        title="front-1 is started again",
        short_title="front-1 back",
        effect="its first answer has the whole route",
        bound_s=10.0,
        original="up to 30 s",
        about=FRONTS[0],
    ),
    Event(
        name="store-empty",
        title="Redis is killed and comes back, empty",
        short_title="Redis back, empty",
        effect="the table is whole again, and the fronts have answered with the whole route all the while",
        bound_s=8.0,
        original="up to 30 s",
        # Then one front has been elected anew, and has an answer of each broker: without one it judges none.
        calm_s=6.0,
    ),
    Event(
        name="broker-stopped",
        title="broker-b hangs (SIGSTOP): its connections stay open",
        short_title="broker-b hangs",
        effect="out of the route at both fronts",
        bound_s=10.0,
        original="120 s",
        about=BROKERS[1],
    ),
    Event(
        name="broker-resumed",
        title="broker-b goes on (SIGCONT)",
        short_title="broker-b goes on",
        effect="in the route again at both fronts, and sent to",
        bound_s=10.0,
        original="1 s",
        about=BROKERS[1],
    ),
    Event(
        name="broker-killed",
        title="broker-a is killed (SIGKILL)",
        short_title="broker-a killed",
        effect="out of the route at both fronts",
        bound_s=1.0,
        original="at once",
        about=BROKERS[0],
    ),
    Event(
        name="broker-back",
        title="broker-a is started again",
        short_title="broker-a back",
        effect="in the route again at both fronts, and sent to",
        bound_s=30.0,
        original="as here",
        about=BROKERS[0],
    ),
)
