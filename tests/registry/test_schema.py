"""The schema number: written with the first registration, and a newer one is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
import redis

from sharedroutes.registry import NewerSchema
from sharedroutes.registry.scripts import SCHEMA
from tests.fix_redis import Plant, Store, StoreMaker
from tests.registry.builders import broker, topics
from tests.registry.probes import unchanged

WRITES: Final[dict[str, Callable[[Store], Awaitable[Any]]]] = {
    "register": lambda store: store.register(broker(), topics(1)),
    "wipe": lambda store: store.admin.wipe_write_perm("broker-a"),
    "delete topic": lambda store: store.admin.delete_topic("t0"),
    "put": lambda store: store.kv.put("ns", "k", "v"),
    "delete": lambda store: store.kv.delete("ns", "k"),
}


async def test_the_first_registration_writes_it(store: Store, admin: redis.Redis) -> None:
    await store.routes(["t0"])
    assert not admin.exists(store.keys.schema)
    await store.register(broker(), topics(1))
    assert admin.get(store.keys.schema) == str(SCHEMA).encode()


async def test_a_registry_of_a_newer_schema_is_not_read(store: Store, admin: redis.Redis) -> None:
    admin.set(store.keys.schema, SCHEMA + 1)
    for read in (store.routes(["t0"]), store.topics(), store.changes_since()):
        with pytest.raises(NewerSchema, match=f"schema {SCHEMA + 1}.*up to {SCHEMA}: upgrade"):
            await read


@pytest.mark.parametrize("write", WRITES)
async def test_a_schema_that_becomes_newer_ends_the_writes_of_those_who_do_not_know_it(
    store: Store, admin: redis.Redis, write: str
) -> None:
    await store.register(broker(), topics(1))
    admin.set(store.keys.schema, SCHEMA + 1)
    with unchanged(admin), pytest.raises(NewerSchema):
        await WRITES[write](store)


async def test_a_schema_that_is_no_number_does_not_stop_the_readers(
    make_store: StoreMaker, redis_url: str, plant: Plant
) -> None:
    store = make_store(redis_url)
    await store.register(broker(), topics(1))
    for kind in ("garbage", "list"):
        plant(store.keys.schema, kind)
        assert list(await make_store(redis_url).routes(["t0"])) == ["t0"]
