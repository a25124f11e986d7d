"""A registration makes a table visible as a whole, sends what differs, and can be repeated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import redis

from sharedroutes.registry import (
    Broker,
    BrokerData,
    LeaseStatus,
    QueueData,
    RegistryConfig,
    RouteStore,
    TopicConfig,
    plans,
    scripts,
)
from sharedroutes.registry.plans import Batch, Call, Command, Reads
from sharedroutes.registry.scripts import PUT_TOPICS
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, table, topics
from tests.registry.probes import dump, observed, one_batch, paused_before, puts, recorded, unchanged

NAMES = [f"t{number}" for number in range(10)]


async def test_a_registered_topic_is_found_with_its_queues_and_the_address(store: Store) -> None:
    await store.register(Broker("a", "h:1", 0, "c"), [TopicConfig("orders", 4, 8, 6, 1)])
    (route,) = (await store.routes(["orders", "unknown"])).values()
    assert route.topic == "orders"
    assert route.queue_datas == (QueueData("a", 4, 8, 6, 1),)
    assert route.broker_datas == (BrokerData("c", "a", {0: "h:1"}),)


async def test_brokers_that_share_a_topic_stand_in_one_route(store: Store) -> None:
    await store.register(broker("a"), topics(2))
    await store.register(broker("b", address=OTHER_ADDRESS), topics(1, queues=8))
    routes = await store.routes(["t0", "t1"])
    assert [row.broker_name for row in routes["t0"].queue_datas] == ["a", "b"]
    assert [data.master_address for data in routes["t0"].broker_datas] == [ADDRESS, OTHER_ADDRESS]
    assert [row.broker_name for row in routes["t1"].queue_datas] == ["a"]


async def test_the_last_topic_that_is_given_up_leaves_no_key(store: Store, admin: redis.Redis) -> None:
    held = await store.register(broker(), topics(3))
    await store.register(broker(), [], held=held)
    assert not [key for key in dump(admin) if ":topic:" in key or key.endswith(":topics")]


@pytest.mark.parametrize("restarted", [False, True], ids=["running owner", "restarted owner"])
async def test_a_registration_sends_only_what_differs_from_the_table_before(
    store: Store, *, restarted: bool
) -> None:
    former = await store.register(broker(), topics(10))
    wanted = {**table(9), "t3": table(4, queues=8)["t3"], "new": TopicConfig("new")}
    batches: list[Batch] = []
    plan = plans.register(store.config, broker(), wanted, held=None if restarted else former)
    held = await store.run(recorded(plan, batches))
    assert [sorted(names) for names in puts(batches)] == [["new", "t3", "t9"]]
    assert any(isinstance(batch, Reads) for batch in batches) is restarted
    assert held.topics == wanted
    assert await store.topics() == sorted(wanted)


async def test_a_restarted_owner_with_the_same_table_writes_no_topic(store: Store) -> None:
    await store.register(broker(), topics(10))
    batches: list[Batch] = []
    await store.run(recorded(plans.register(store.config, broker(), table(10)), batches))
    assert puts(batches) == []


@pytest.mark.parametrize("lost", ["index", "list"])
async def test_a_restarted_owner_gives_up_a_topic_whose_row_was_lost(
    store: Store, admin: redis.Redis, lost: str
) -> None:
    await store.register(broker(), topics(2))
    admin.delete(store.keys.topic("t1") if lost == "index" else store.keys.topics)
    await store.register(broker(), topics(1))
    assert admin.hkeys(store.keys.broker_topics("broker-a")) == [b"t0"]
    assert list(await store.routes(["t0", "t1"])) == ["t0"]
    assert [*await store.topics()] == ["t0"]


async def test_a_repeated_registration_changes_nothing_and_announces_nothing(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(broker(), topics(10))
    with unchanged(admin, but=store.keys.deadlines):
        assert await store.register(broker(), topics(10), held=held) == held


async def test_an_owner_changes_topics_in_one_round_trip(store: Store) -> None:
    held = await store.register(broker(), topics(10))
    plan = plans.register(store.config, broker(), table(9, queues=8), held=held)
    replies = await store.run(one_batch(next(plan)))
    with pytest.raises(StopIteration):
        plan.send(replies)
    assert (await store.routes(["t0"]))["t0"].queue_datas[0].read_queue_nums == 8
    assert await store.topics() == NAMES[:9]


async def test_a_large_table_is_written_in_chunks_and_then_complete(
    make_store: StoreMaker, redis_url: str
) -> None:
    store = make_store(redis_url, chunk_topics=3)
    batches: list[Batch] = []
    held = await store.run(recorded(plans.register(store.config, broker(), table(10)), batches))
    assert [len(names) for names in puts(batches)] == [3, 3, 3, 1]
    assert sorted(await store.routes(NAMES)) == NAMES
    batches.clear()
    mixed = {**table(6, queues=8), "new-0": TopicConfig("new-0"), "new-1": TopicConfig("new-1")}
    await store.run(recorded(plans.register(store.config, broker(), mixed, held=held), batches))
    assert [len(names) for names in puts(batches)] == [3, 3, 3, 3]
    assert await store.topics() == sorted(mixed)


async def test_a_front_sends_forty_chunks_in_one_round_trip(make_store: StoreMaker, redis_url: str) -> None:
    store = make_store(redis_url, chunk_topics=3)
    plan = plans.register(store.config, broker(), table(130), joint=True)
    first = await paused_before(store, plan, PUT_TOPICS)
    assert isinstance(first, Call)
    assert [len(names) for names in puts([first, *first.following])] == [3] * 40
    await store.run(one_batch(first))
    plan.close()
    await store.run(plans.register(store.config, broker(), table(130), joint=True))
    assert sorted(await store.routes([*table(130)])) == sorted(table(130))


async def test_of_chunks_that_travel_together_none_is_written_after_one_that_was_not(
    make_store: StoreMaker, redis_url: str, admin: redis.Redis
) -> None:
    store = make_store(redis_url, chunk_topics=3)
    plan = plans.register(store.config, broker(), table(10))
    first = await paused_before(store, plan, PUT_TOPICS)
    assert isinstance(first, Call)
    assert [len(names) for names in puts([first, *first.following])] == [3, 3, 3, 1]
    _, *others = first.following
    assert others[-1].script is scripts.ACTIVATE
    replies = await store.run(one_batch(replace(first, following=others)))
    assert [reply[0] for reply in replies] == [b"ok", b"moved", b"moved", b"moved"]
    assert admin.hlen(store.keys.broker_topics("broker-a")) == 3
    assert not admin.exists(store.keys.lease("broker-a", 0))
    plan.close()


async def test_nothing_follows_a_chunk_that_somebody_else_wrote_under_the_same_epoch(
    make_store: StoreMaker, redis_url: str, admin: redis.Redis
) -> None:
    """Two fronts share the epoch of a broker, and may hear of different tables."""
    store = make_store(redis_url, chunk_topics=3)
    held = await store.register(broker(), [])
    one = plans.register(store.config, broker(), table(3), held=held)
    other = plans.register(store.config, broker(), table(6, queues=8), held=held)
    first, late = await paused_before(store, one, PUT_TOPICS), await paused_before(store, other, PUT_TOPICS)
    assert isinstance(first, Call)
    assert isinstance(late, Call)
    assert [call.script for call in late.following] == [PUT_TOPICS, scripts.ACTIVATE]
    await store.run(one_batch(replace(first, following=())))
    assert [reply[0] for reply in await store.run(one_batch(late))] == [b"moved"] * 3
    assert admin.hlen(store.keys.broker_topics("broker-a")) == 3
    one.close()
    other.close()


def test_a_script_that_the_server_forgets_between_two_chunks_is_sent_again(
    redis_url: str, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RouteStore.from_url(redis_url, RegistryConfig(chunk_topics=3)) as store:
        link = store._link
        send, forgotten = link.send, False

        def forget_after_the_first(given: Iterable[Command]) -> list[Any]:
            nonlocal forgotten
            commands = [*given]
            if forgotten or len(commands) != 5:  # four chunks and the lease
                return send(commands)
            forgotten = True
            admin.script_load(PUT_TOPICS.source)
            replies = send(commands[:1])
            admin.script_flush()
            return replies + send(commands[1:])

        monkeypatch.setattr(link, "send", forget_after_the_first)
        held = store.register(broker(), topics(10))
        assert forgotten
        assert store.topics() == NAMES
        assert [change.kind for change in store.changes_since().changes] == ["topics"] * 4 + ["up"]
        assert store.heartbeat(held) is LeaseStatus.OK


async def test_a_reader_never_sees_half_a_topic(make_store: StoreMaker, redis_url: str) -> None:
    store = make_store(redis_url, chunk_topics=3)
    await store.register(broker("other", address=OTHER_ADDRESS), topics(10, queues=2))
    held = await store.register(broker(), topics(10, queues=4))
    seen = set()
    with RouteStore.from_url(redis_url) as reader:

        def look(_: object = None) -> None:
            for topic, route in reader.routes(NAMES).items():
                rows = {row.broker_name: row for row in route.queue_datas}
                assert rows["other"] == QueueData("other", 2, 2, 6)
                if row := rows.get("broker-a"):
                    assert row.read_queue_nums == row.write_queue_nums
                seen.add((topic, row and row.read_queue_nums))

        look()
        wanted = table(9, queues=8)
        await store.run(observed(plans.register(store.config, broker(), wanted, held=held), look))
    assert seen == {(name, queues) for name in NAMES[:9] for queues in (4, 8)} | {("t9", 4), ("t9", None)}


async def test_the_lease_comes_last_so_that_no_address_is_visible_without_its_topics(store: Store) -> None:
    batches: list[Batch] = []
    await store.run(recorded(plans.register(store.config, broker(), table(3)), batches))
    calls = [batch.script for batch in batches if isinstance(batch, Call)]
    assert calls == [scripts.CLAIM, scripts.PUT_TOPICS, scripts.ACTIVATE]


async def test_an_owner_may_move_to_another_address(store: Store) -> None:
    held = await store.register(broker(), topics(1))
    position = (await store.changes_since()).position
    await store.register(broker(address=OTHER_ADDRESS), topics(1), held=held)
    (route,) = (await store.routes(["t0"])).values()
    assert route.broker_datas[0].master_address == OTHER_ADDRESS
    (change,) = (await store.changes_since(position)).changes
    assert change.address == OTHER_ADDRESS


async def test_a_table_that_its_owner_changes_in_place_is_written_too(store: Store) -> None:
    own = table(2)
    held = await store.register(broker(), own)
    own["new"] = TopicConfig("new")
    del own["t0"]
    await store.register(broker(), own, held=held)
    assert await store.topics() == ["new", "t1"]
