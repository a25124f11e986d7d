"""Somebody who writes changes: `python -m benchmarks.spark.feeder URL KEY`.

Each line on standard input is a rate, in changes a second, and for how many seconds. The answers are `ready`
when the writing begins, and the number of changes when it ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from typing import Final

import redis

from sharedroutes.registry import Change, ChangeKind
from sharedroutes.registry.codec import encode_change

_TICK_S: Final = 0.01
_BROKERS: Final = 300
_AT_ONCE: Final = 1_000


def main(url: str, key: str, commands: Iterable[str]) -> None:
    """Answer commands until there are no more."""
    with redis.Redis.from_url(url) as client:
        for command in commands:
            rate, duration_s = map(float, command.split())
            _say("ready")
            _say(_feed(client, key, rate, duration_s))


def add(client: redis.Redis, key: str, count: int) -> None:
    """Add changes to a stream as fast as it goes."""
    records = _records()
    for start in range(0, count, _AT_ONCE):
        _write(client, key, list(islice(records, min(_AT_ONCE, count - start))))


def _feed(client: redis.Redis, key: str, rate: float, duration_s: float) -> int:
    """Write evenly; what a pause of this process left out is written after it."""
    records, written, begin_s = _records(), 0, time.monotonic()
    while (passed_s := time.monotonic() - begin_s) < duration_s:
        due = round(rate * passed_s) - written
        _write(client, key, list(islice(records, due)))
        written += due
        time.sleep(_TICK_S)
    return written


def _write(client: redis.Redis, key: str, records: list[bytes]) -> None:
    with client.pipeline(transaction=False) as pipeline:
        for record in records:
            pipeline.xadd(key, {"c": record})
        pipeline.execute()


def _records() -> Iterator[bytes]:
    """Return what brokers write when one of their topics is new, again and again."""
    return cycle(
        encode_change(
            Change(
                kind=ChangeKind.TOPICS,
                broker_name=f"broker-{number}",
                epoch=1_790_000_000_000_000 + number,
                cluster="cluster",
                added=(f"topic-of-broker-{number}",),
            )
        )
        for number in range(_BROKERS)
    )


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.stdin)
