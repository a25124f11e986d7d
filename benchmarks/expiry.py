"""How soon is the end of a lease known, whatever else has a TTL?

All leases are real registrations of brokers without topics. Those that die were registered with a short TTL
and are left alone; they end one at a time. A delay is measured by the server's clock alone: from the
deadline of the lease to the id of its change record. Peers: Redis' own `expired` event, up to the TIME that
is asked for when it arrives, and RocketMQ's scan (computed). Ratio: each of them to the sweeper.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import redis

from sharedroutes.registry import EXPIRED, EmbeddedServer, RouteStore, Sweeper
from sharedroutes.registry.plans import last_change_id

from .kit.figures import Figure, Outcome, at_most, percentile, ratio
from .kit.workload import LASTING, broker

_SEED: Final = 20_260
_LATE_S: Final = 10.0
_POLL_S: Final = 0.05
_P99: Final = 0.99
_ROCKETMQ_SCAN_MS: Final = 5_000.0
"""NamesrvConfig.scanNotActiveBrokerInterval: a broker that times out after a scan waits for the next."""

_FILL: Final = """
for i = 1, ARGV[1] do
  redis.call('SET', 'other:' .. i, '', 'PX', 3600000 + i)
end
"""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    trials: int = 60
    few_leases: int = 1_000
    many_leases: int = 10_000
    other_keys: int = 100_000
    """Keys with a TTL in the same database that are not the registry's."""

    first_s: float = 1.0
    """When the first lease ends; above 0.6 s, for which the sweeper sleeps at most."""

    apart_s: float = 0.1
    event_wait_s: float = 10.0
    """For how long after the last deadline `expired` events are awaited."""

    idle_s: float = 10.0
    """For how long the sweeper is watched while no lease ends."""


QUICK: Final = Size(
    trials=12,
    few_leases=200,
    many_leases=1_000,
    other_keys=20_000,
    first_s=0.7,
    apart_s=0.05,
    event_wait_s=1.0,
    idle_s=1.5,
)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and RuntimeError for an end that is not announced."""
    few, many = f"{size.few_leases:,} leases", f"{size.many_leases:,} leases"
    others = f"{size.other_keys:,} other TTL keys"
    delays = {}
    with EmbeddedServer() as server, RouteStore.from_url(server.url, LASTING) as store:
        _register(store, 0, size.few_leases)
        delays[f"{few}, no other TTL key"] = _swept(server.url, store, size)
    with EmbeddedServer() as server, RouteStore.from_url(server.url, LASTING) as store:
        _fill(server.url, size.other_keys)
        _register(store, 0, size.few_leases)
        delays[f"{few}, {others}"] = _swept(server.url, store, size)
        _register(store, size.few_leases, size.many_leases)
        delays[f"{many}, {others}"] = _swept(server.url, store, size)
        cost = _idle(server.url, store, size.idle_s)
    unswept, seen = _told_by_redis(size)
    events = f"{seen} of {size.trials} expired events came within {size.event_wait_s:g} s after the last end"
    notes = [
        f"{events}; a missing one counts as so late as it was waited for",
        "the name server of RocketMQ scans every 5 s, and a broker times out there after 120 s, not 15 s",
    ]
    return Outcome([*_figures(delays, unswept), *cost], notes)


def _figures(delays: Mapping[str, Sequence[float]], unswept: Sequence[float]) -> list[Figure]:
    found, tails = [], []
    for name, values in delays.items():
        tails.append(Figure(f"{name}, p99", "ms", [percentile(values, _P99)], at_most(150)))
        found += [Figure(f"{name}, p50", "ms", values), tails[-1]]
    event = Figure("Redis' expired event, p99", "ms", [percentile(unswept, _P99)])
    rocketmq = Figure("RocketMQ's name server, worst case (computed)", "ms", [_ROCKETMQ_SCAN_MS])
    found += [Figure("Redis' expired event, p50", "ms", unswept), event, rocketmq]
    return [*found, ratio(event, tails[1]), ratio(rocketmq, tails[1])]


def _fill(url: str, keys: int) -> None:
    with redis.Redis.from_url(url) as client:
        client.eval(_FILL, 0, keys)


def _register(store: RouteStore, first: int, end: int) -> None:
    for number in range(first, end):
        store.register(broker(number), {})


def _register_dying(store: RouteStore, url: str, size: Size) -> dict[str, float]:
    """Register brokers whose leases end one at a time; return their deadlines (ms of the server) by name."""
    rng = random.Random(_SEED)
    ttl_s, deadlines = size.first_s, {}
    with redis.Redis.from_url(url) as client:
        for number in range(size.trials):
            dying = replace(broker(number), broker_name=f"dying-{size.trials}-{number}")
            short = RouteStore.from_client(client, replace(store.config, lease_ttl_s=ttl_s))
            short.register(dying, {})
            member = store.keys.lease_member(dying.broker_name, dying.broker_id)
            deadlines[dying.broker_name] = float(str(client.zscore(store.keys.deadlines, member)))
            ttl_s += size.apart_s * rng.uniform(0.5, 1.5)  # not in step with the sweeper
    return deadlines


@contextmanager
def _sweeping(url: str, store: RouteStore) -> Iterator[None]:
    """Run a sweeper, and wait until it is the one that sweeps: an earlier one keeps its lease for a while."""
    with redis.Redis.from_url(url) as client, RouteStore.from_url(url) as own:
        while client.exists(store.keys.sweeper):
            time.sleep(_POLL_S)
        with Sweeper(own):
            while not client.exists(store.keys.sweeper):
                time.sleep(_POLL_S)
            yield


def _swept(url: str, store: RouteStore, size: Size) -> list[float]:
    """Return the delays (ms) of the change records of leases that end while a sweeper runs."""
    with _sweeping(url, store):
        position = store.run(last_change_id(store.keys))
        deadlines = _register_dying(store, url, size)
        give_up_s = time.monotonic() + size.first_s + size.trials * size.apart_s + _LATE_S
        delays: list[float] = []
        while len(delays) < size.trials:
            if time.monotonic() > give_up_s:
                raise RuntimeError(f"{size.trials - len(delays)} leases have ended and were not announced")
            page = store.changes_since(position)
            position = page.position
            for change in page.changes:
                if change.reason == EXPIRED:
                    at_ms = float(change.change_id.partition("-")[0])
                    delays.append(at_ms - deadlines[change.broker_name])
            time.sleep(_POLL_S)
    return delays


def _told_by_redis(size: Size) -> tuple[list[float], int]:
    """Return the delays (ms) of the `expired` events of leases without a sweeper, and how many came."""
    with (
        EmbeddedServer("--notify-keyspace-events", "Ex") as server,
        RouteStore.from_url(server.url, LASTING) as store,
        redis.Redis.from_url(server.url) as client,
    ):
        _fill(server.url, size.other_keys)
        _register(store, 0, size.few_leases)
        subscriber: Any = client.pubsub(ignore_subscribe_messages=True)
        subscriber.subscribe("__keyevent@0__:expired")
        deadlines = {
            store.keys.lease(name, 0).encode(): deadline_ms
            for name, deadline_ms in _register_dying(store, server.url, size).items()
        }
        give_up_ms = max(deadlines.values()) + size.event_wait_s * 1000
        delays: list[float] = []
        while deadlines and _clock_ms(client) < give_up_ms:
            message = subscriber.get_message(timeout=_POLL_S)
            if message is not None and message["data"] in deadlines:
                delays.append(_clock_ms(client) - deadlines.pop(message["data"]))
        subscriber.close()
        now_ms = _clock_ms(client)
    return [*delays, *(now_ms - deadline_ms for deadline_ms in deadlines.values())], len(delays)


def _idle(url: str, store: RouteStore, for_s: float) -> list[Figure]:
    """Return the costs of sweeping while no lease ends."""
    with _sweeping(url, store), redis.Redis.from_url(url) as client:
        begin_s = time.monotonic()
        calls, busy_us = _scripts(client)
        time.sleep(for_s)
        calls_after, busy_us_after = _scripts(client)
        took_s = time.monotonic() - begin_s
    calls, busy_us = calls_after - calls, busy_us_after - busy_us
    return [
        Figure("sweeps while nobody dies", "a second", [calls / took_s]),
        Figure("the server's CPU for one of them", "us", [busy_us / calls]),
    ]


def _scripts(client: redis.Redis) -> tuple[float, float]:
    """Return how many scripts a server has run, and the us it spent on them."""
    stats: Any = client.info("commandstats").get("cmdstat_evalsha", {"calls": 0, "usec": 0})
    return float(stats["calls"]), float(stats["usec"])


def _clock_ms(client: redis.Redis) -> float:
    seconds, us = client.time()
    return float(seconds * 1000 + us / 1000)
