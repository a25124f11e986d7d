"""The other process of the agent's benchmarks, a producer: `python -m benchmarks.chooser URL TOPIC QUEUES`.

It chooses queues of TOPIC, which has QUEUES of them at most, a whole turn at a time. Each line on standard
input is what to wait for: `without NAME,NAME,...` until none of these brokers is chosen any more, `with
NAME,...` until all of them are, `topic NAME` until that topic has a queue. The answers are `ready` when the
waiting begins, and the monotonic clock (ns) of each in turn: the end of the first turn in which it was so.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from sharedroutes.client import NoRoute, RouteClient

WITHOUT: Final = "without"
WITH: Final = "with"
TOPIC: Final = "topic"

_POLL_S: Final = 100e-6
_STAYS_S: Final = 0.03
"""What has come about counts when it has been so for this long."""

_DEADLINE_S: Final = 60.0


def main(url: str, topic: str, queues: int, commands: Iterable[str]) -> None:
    """Answer commands until there are no more; raises TimeoutError for what does not come."""
    with RouteClient.from_url(url) as client:
        client.select_queue(topic)
        for command in commands:
            what, _, words = command.strip().partition(" ")
            names = words.split(",")
            look = partial(_topics, client, names)
            if what != TOPIC:
                look = partial(_brokers, client, topic, queues, names, without=what == WITHOUT)
            _say("ready")
            _say(_await(names, look))


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def _brokers(
    client: RouteClient, topic: str, queues: int, names: Iterable[str], *, without: bool
) -> set[str]:
    """Return those of the brokers that a whole turn comes to, or does not come to."""
    chosen = {client.select_queue(topic).broker_name for _ in range(queues)}
    return {name for name in names if (name in chosen) is not without}


def _topics(client: RouteClient, names: Iterable[str]) -> set[str]:
    """Return those of the topics that have a queue."""
    return {name for name in names if _has_queue(client, name)}


def _has_queue(client: RouteClient, topic: str) -> bool:
    try:
        client.select_queue(topic)
    except NoRoute:
        return False
    return True


def _await(wanted: Sequence[str], look: Callable[[], set[str]]) -> str:
    """Return since when (ns) each name is among what `look` finds, when all of them have stayed there."""
    since: dict[str, int] = {}
    for now in _moments():
        found = look()
        at_ns = time.monotonic_ns()
        since = {name: since.get(name, at_ns) for name in wanted if name in found}
        if len(since) == len(wanted) and now - max(since.values()) / 1e9 >= _STAYS_S:
            break
    return " ".join(str(since[name]) for name in wanted)


def _moments() -> Iterator[float]:
    deadline = time.monotonic() + _DEADLINE_S
    while (now := time.monotonic()) < deadline:
        yield now
        time.sleep(_POLL_S)
    raise TimeoutError(f"it did not come about within {_DEADLINE_S} s")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.stdin)
