"""The guard after each test on the shared server: it knows the keys of the design and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from sharedroutes.registry import RouteStore
from sharedroutes.registry.plans import fronts
from tests.fix_redis import offences
from tests.registry.builders import broker, topics

Plant = Callable[[redis.Redis], object]

OFFENCES: dict[str, Plant] = {
    "{other}:unknown": lambda admin: admin.set("{other}:unknown", 1),
    "unknown": lambda admin: admin.set("unknown", 1),
    "{ns}:topic:": lambda admin: admin.set("{ns}:topic:", 1),
    "{ns}:topic:t": lambda admin: admin.hset("{ns}:topic:t", "f", "v"),
    "{ns}:lease:b:0": lambda admin: admin.set("{ns}:lease:b:0", "1 h:1"),
    "{ns}:hints": lambda admin: admin.zadd("{ns}:hints", {"broker-a client-1": 1}),
    "{ns}:broker:b": lambda admin: admin.hset("{ns}:broker:b", "f", "v") and admin.expire("{ns}:broker:b", 9),
}


def test_what_the_registry_writes_is_no_offence(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin)
    store.register(broker(), topics(2))
    store.kv.put("ns", "k", "v")
    store.hint("client-1", ["broker-a"], ttl_s=60.0)
    store.run(fronts.front_beat(store.config, "f1", 60_000))
    store.run(fronts.vouch(store.config, broker(), "f1.1", anew=True))
    assert len(admin.keys()) == 16
    assert offences(admin) == []


@pytest.mark.parametrize("key", OFFENCES)
def test_a_key_of_no_known_kind_type_or_lifetime_is_an_offence(
    admin: redis.Redis, foreign_keys: list[str], key: str
) -> None:
    OFFENCES[key](admin)
    (sentence,) = offences(admin)
    assert sentence.startswith(f"{key}: ")
    foreign_keys.append(key)
    assert offences(admin, foreign_keys) == []


def test_a_name_may_hold_a_line_feed(admin: redis.Redis) -> None:
    admin.hset("{sharedroutes}:kv:\nnamespace", "key", "value")
    assert offences(admin) == []
