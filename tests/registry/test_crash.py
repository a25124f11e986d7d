"""A writer that dies between any two steps leaves nothing that lies, and nothing that is in the way."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry import StaleEpoch, plans
from sharedroutes.registry.plans import Batch, Call
from sharedroutes.registry.scripts import PUT_TOPICS
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import OTHER_ADDRESS, broker, table, topics
from tests.registry.probes import Crash, interrupted, observed

NAMES = [f"t{number}" for number in range(10)]
STEPS_BEFORE_THE_LEASE = range(1, 7)  # claim, read, four chunks of three topics


@pytest.fixture
def chunked(make_store: StoreMaker, redis_url: str) -> Store:
    """Return a store that writes ten topics in four chunks."""
    return make_store(redis_url, chunk_topics=3)


async def queues_of(store: Store) -> dict[str, int]:
    routes = await store.routes(NAMES)
    return {topic: route.queue_datas[0].read_queue_nums for topic, route in routes.items()}


@pytest.mark.parametrize("steps", STEPS_BEFORE_THE_LEASE)
async def test_a_first_registration_that_dies_shows_no_address_and_the_next_completes_it(
    chunked: Store, steps: int
) -> None:
    with pytest.raises(Crash):
        await chunked.run(interrupted(plans.register(chunked.config, broker(), table(10)), steps))
    assert await chunked.routes(NAMES) == {}
    assert await chunked.brokers() == []
    assert await chunked.topics() == []
    await chunked.register(broker(), topics(10))
    assert await queues_of(chunked) == dict.fromkeys(NAMES, 4)


@pytest.mark.parametrize(
    ("restarted", "count", "queues"),
    [(False, 9, 8), (True, 10, 2)],
    ids=["the same owner", "a restarted one"],
)
@pytest.mark.parametrize("steps", range(1, 5))
async def test_an_update_that_dies_is_completed(
    chunked: Store, steps: int, count: int, queues: int, *, restarted: bool
) -> None:
    held = await chunked.register(broker(), topics(10))
    plan = plans.register(chunked.config, broker(), table(9, queues=8), held=held)
    with pytest.raises(Crash):
        await chunked.run(interrupted(plan, steps))
    wanted = topics(count, queues=queues)
    held = await chunked.register(broker(), wanted, held=None if restarted else held)
    assert await queues_of(chunked) == dict.fromkeys(NAMES[:count], queues)
    await chunked.register(broker(), topics(10), held=held)
    assert await queues_of(chunked) == dict.fromkeys(NAMES, 4)


async def test_a_chunk_whose_answer_was_lost_is_not_written_twice(chunked: Store, admin: redis.Redis) -> None:
    held = await chunked.register(broker(), topics(10))
    plan = plans.register(chunked.config, broker(), table(10, queues=8), held=held)
    with pytest.raises(Crash):
        await chunked.run(interrupted(plan, 2))
    before = admin.xlen(chunked.keys.changes)
    await chunked.register(broker(), topics(10, queues=8), held=held)
    assert admin.xlen(chunked.keys.changes) == before + 2  # the two chunks that were missing


@pytest.mark.parametrize("chunks_before", [1, 2, 3, 4])
async def test_an_owner_that_is_superseded_between_two_steps_writes_nothing_more(
    chunked: Store, admin: redis.Redis, chunks_before: int
) -> None:
    held = await chunked.register(broker(), topics(10))
    written = 0
    epoch_key = chunked.keys.broker("broker-a")

    def take_over(batch: Batch) -> None:
        nonlocal written
        written += isinstance(batch, Call) and batch.script is PUT_TOPICS
        if written == chunks_before:
            admin.hset(epoch_key, "epoch:0", held.epoch + 1)

    plan = plans.register(chunked.config, broker(address=OTHER_ADDRESS), table(10, queues=8), held=held)
    with pytest.raises(StaleEpoch) as stale:
        await chunked.run(observed(plan, take_over))
    assert stale.value.current_epoch == held.epoch + 1
    assert list((await queues_of(chunked)).values()).count(8) == min(3 * chunks_before, 10)
    (found,) = await chunked.brokers()
    assert found.master_address != OTHER_ADDRESS
