"""The stream of changes: in order, in pages, and honest about what is lost."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry import (
    Change,
    ChangeKind,
    InvalidInput,
    Registration,
    TopicConfig,
    plans,
)
from sharedroutes.registry.plans import ORIGIN
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, table, topics


async def changes_of(store: Store, count: int) -> Registration:
    """Write `count` changes."""
    held = await store.register(broker(), topics(1))
    for number in range(2, count):
        held = await store.register(broker(), topics(number), held=held)
    return held


def kinds(changes: tuple[Change, ...]) -> list[ChangeKind]:
    return [change.kind for change in changes]


async def test_a_life_is_told_in_order(store: Store) -> None:
    held = await store.register(broker(), topics(2))
    wanted = {"t1": table(2, queues=8)["t1"], "new": TopicConfig("new")}
    held = await store.register(broker(), wanted, held=held)
    await store.unregister(held)
    first, up, second, down = (await store.changes_since()).changes
    assert (first.kind, first.added, first.changed, first.removed) == (
        ChangeKind.TOPICS,
        ("t0", "t1"),
        (),
        (),
    )
    assert (up.kind, up.address, up.cluster) == (ChangeKind.UP, ADDRESS, "cluster-1")
    assert (up.lease_ttl_ms, up.lease_ended_ms) == (store.config.lease_ttl_ms, None)
    assert (second.added, second.changed, second.removed) == (("new",), ("t1",), ("t0",))
    assert (down.kind, down.reason) == (ChangeKind.DOWN, "unregistered")
    assert (down.lease_ttl_ms, down.lease_ended_ms) == (None, None)
    assert {change.epoch for change in (first, up, second, down)} == {held.epoch}
    ids = [change.change_id for change in (first, up, second, down)]
    assert ids == sorted(ids)


async def test_chunks_are_told_one_by_one(make_store: StoreMaker, redis_url: str) -> None:
    store = make_store(redis_url, chunk_topics=3)
    await store.register(broker(), topics(7))
    changes = (await store.changes_since()).changes
    assert [len(change.added) for change in changes] == [3, 3, 1, 0]


async def test_a_follower_gets_what_was_written_after_its_position_and_else_nothing(store: Store) -> None:
    held = await changes_of(store, 3)
    position = (await store.changes_since()).position
    page = await store.changes_since(position)
    assert (page.changes, page.position, page.lost, page.complete) == ((), position, False, True)
    await store.unregister(held)
    page = await store.changes_since(position)
    assert kinds(page.changes) == [ChangeKind.DOWN]
    assert page.position == page.changes[0].change_id
    assert not page.lost


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7])
async def test_pages_hold_at_most_the_limit_and_together_everything_once(store: Store, limit: int) -> None:
    await changes_of(store, 6)
    page = await store.changes_since(ORIGIN, limit)
    pages = [page]
    while not page.complete:
        page = await store.changes_since(page.position, limit)
        pages.append(page)
    assert max(len(page.changes) for page in pages) <= limit
    assert not any(page.lost for page in pages)
    found = [change for page in pages for change in page.changes]
    assert found == list((await store.changes_since()).changes)
    assert len(found) == 6


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_page_of_nothing_is_refused_as_it_would_never_end(store: Store, limit: int) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        await store.changes_since(ORIGIN, limit)


async def test_the_newest_id_is_the_position_to_begin_with_and_an_empty_stream_has_lost_nothing(
    store: Store,
) -> None:
    assert await store.run(plans.last_change_id(store.keys)) == ORIGIN
    page = await store.changes_since()
    assert (page.changes, page.position, page.lost, page.complete) == ((), ORIGIN, False, True)
    await changes_of(store, 3)
    assert await store.run(plans.last_change_id(store.keys)) == (await store.changes_since()).position


async def test_a_position_that_was_trimmed_away_is_lost(store: Store, admin: redis.Redis) -> None:
    await changes_of(store, 5)
    position = (await store.changes_since(limit=2)).position
    admin.xtrim(store.keys.changes, maxlen=1, approximate=False)
    page = await store.changes_since(position)
    assert page.lost
    assert len(page.changes) == 1


async def test_a_position_from_before_a_flush_is_lost(store: Store, admin: redis.Redis) -> None:
    await changes_of(store, 3)
    position = (await store.changes_since()).position
    admin.flushall()
    page = await store.changes_since(position)
    assert (page.lost, page.position) == (True, ORIGIN)
    await changes_of(store, 3)
    page = await store.changes_since(position)
    assert page.lost
    assert len(page.changes) == 3


async def test_a_position_that_the_store_was_rolled_back_behind_is_lost(
    store: Store, admin: redis.Redis
) -> None:
    held = await changes_of(store, 3)
    backup = admin.dump(store.keys.changes)
    assert backup is not None
    await store.unregister(held)
    position = (await store.changes_since()).position
    admin.restore(store.keys.changes, 0, backup, replace=True)
    page = await store.changes_since(position)
    assert (page.lost, page.changes) == (True, ())
    assert len((await store.changes_since(page.position)).changes) == 3


@pytest.mark.parametrize(("field", "record"), [("c", "garbage"), ("c", "{}"), ("x", "no record")])
async def test_an_entry_that_is_no_change_is_reported_and_the_rest_is_told(
    store: Store, admin: redis.Redis, field: str, record: str
) -> None:
    held = await changes_of(store, 3)
    admin.xadd(store.keys.changes, {field: record})
    entry = await store.run(plans.last_change_id(store.keys))
    await store.unregister(held)
    page = await store.changes_since()
    assert [bad.key for bad in page.corrupt] == [store.keys.changes]
    assert f"entry {entry}" in str(page.corrupt[0])
    assert kinds(page.changes)[-1] is ChangeKind.DOWN
    assert len(page.changes) == 4


@pytest.mark.parametrize(("min_age_s", "kept"), [(0, range(10, 121)), (60, range(250, 251))])
async def test_the_stream_is_trimmed_to_about_its_length_but_for_what_is_young(
    make_store: StoreMaker, redis_url: str, min_age_s: float, kept: range
) -> None:
    store = make_store(redis_url, feed_max_entries=10, feed_min_age_s=min_age_s)
    held = await store.register(broker(), [])
    for number in range(250):
        address = (ADDRESS, OTHER_ADDRESS)[number % 2]
        held = await store.register(broker(address=address), [], held=held)
    page = await store.changes_since()
    assert len(page.changes) in kept  # Redis cuts whole nodes of 100 entries


@pytest.mark.parametrize("position", ["", "abc", "-", "+", "(1-1", "1", "$"])
async def test_a_position_that_is_no_id_is_refused(store: Store, position: str) -> None:
    with pytest.raises(InvalidInput, match="position"):
        await store.changes_since(position)
