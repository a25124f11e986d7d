"""The other process of the propagation benchmark: `python -m benchmarks.watcher URL TOPIC CHANNEL`.

Each line on standard input is a thing to wait for: `ping`, or a number of write queues that the topic is to
show. The answers are `ready` when the waiting begins, and the monotonic clock (ns) when it ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any, Final

import redis

from sharedroutes.client import RouteClient

PING: Final = "ping"
POLL_S: Final = 20e-6
"""How often the route is looked at; a thread that never pauses would keep the client's own from running."""

_DEADLINE_S: Final = 10.0


def main(url: str, topic: str, channel: str, commands: Iterable[str]) -> None:
    """Answer commands until there are no more; raises TimeoutError for what does not come."""
    with RouteClient.from_url(url) as routes, redis.Redis.from_url(url) as client:
        subscriber: Any = client.pubsub(ignore_subscribe_messages=True)
        subscriber.subscribe(channel)
        subscriber.get_message(timeout=_DEADLINE_S)  # the confirmation: from here on nothing is missed
        routes.route(topic)
        for command in commands:
            _say("ready")
            if command.strip() == PING:
                _await_ping(subscriber)
            else:
                _await_queues(routes, topic, int(command))
            _say(time.monotonic_ns())


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def _await_ping(subscriber: Any) -> None:
    if subscriber.get_message(timeout=_DEADLINE_S) is None:
        raise TimeoutError(f"no ping within {_DEADLINE_S} s")


def _await_queues(routes: RouteClient, topic: str, wanted: int) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while routes.route(topic).queue_datas[0].write_queue_nums != wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"topic {topic!r} did not show {wanted} write queues within {_DEADLINE_S} s")
        time.sleep(POLL_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.stdin)
