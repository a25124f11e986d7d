"""Topics of a running client: reading many, how old they are, the default topic, message groups."""

from __future__ import annotations

from time import monotonic

import pytest
import redis

from sharedroutes.client import NoRoute
from sharedroutes.client.observers.events import LookupDone
from sharedroutes.registry import RouteStore, TopicConfig
from tests.client.clients import BELL_ONLY, AnyClient, OwnStage, Stage, calls, until_held_by, until_source
from tests.client.heard import Heard
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, topics
from tests.support import await_until

HANDFUL = 20
"""Far fewer commands than topics; each is a round trip at most."""

MANY = 1_000


async def until_known(client: AnyClient, count: int) -> None:
    """Wait until so many topics are in the cache."""
    await await_until(lambda: client.health().topics == count, description=f"{count} topics are known")


async def until_confirmed(client: AnyClient, after: float | None = None) -> None:
    """Wait until the store has confirmed the route of t0 after this moment, or at all."""

    async def confirmed() -> bool:
        as_of = (await client.route("t0")).as_of
        return as_of is not None and (after is None or as_of > after)

    await await_until(confirmed, description="the route was confirmed")


# --- many at once ------------------------------------------------------------------------------------------


async def test_topics_that_are_configured_are_read_before_anybody_asks(
    stage: Stage, admin: redis.Redis
) -> None:
    stage.agent.register(broker(), topics(MANY))
    names = tuple(f"t{number}" for number in range(MANY))
    before = calls(admin)
    async with stage.client(BELL_ONLY, topics=names) as client:
        await until_known(client, MANY)
        assert calls(admin) - before < HANDFUL
        before = calls(admin, "mget")
        for name in names[::100]:
            assert (await client.select_queue(name)).topic == name
        assert calls(admin, "mget") == before


async def test_configured_topics_that_nobody_holds_do_no_harm_and_are_served_once_created(
    stage: Stage,
) -> None:
    stage.agent.register(broker(), topics(1))
    async with stage.client(BELL_ONLY, topics=("t0", "t1")) as client:
        await until_known(client, 1)
        await until_held_by(client, "t1")
        stage.agent.register(broker("broker-b"), topics(1, first=1))
        await until_held_by(client, "t1", "broker-b")


@pytest.mark.parametrize("how", ["get", "prefetch"])
async def test_a_thousand_topics_are_read_in_a_handful_of_round_trips(
    stage: Stage, admin: redis.Redis, how: str
) -> None:
    stage.register("broker-a", "broker-b", count=MANY)
    names = [f"t{number}" for number in range(MANY)]
    async with stage.in_place(BELL_ONLY) as client:
        before = calls(admin)
        await getattr(client, how)(names)
        assert calls(admin) - before < HANDFUL
        before = calls(admin, "mget")
        found = await client.get(names)
        assert (await client.select_queue("t999")).topic == "t999"
        assert calls(admin, "mget") == before
    assert list(found) == names


async def test_a_thousand_topics_are_refreshed_in_a_handful_of_round_trips(
    stage: Stage, admin: redis.Redis
) -> None:
    stage.agent.register(broker(), topics(MANY))
    names = tuple(f"t{number}" for number in range(MANY))
    heard = Heard()
    settings = {"topics": names, "refresh_s": 0.2, "tail_s": 0.1, "observers": (heard,)}
    async with stage.client(BELL_ONLY, **settings) as client:
        await until_known(client, MANY)
        done, before = len(heard.all(LookupDone)), calls(admin)
        await await_until(
            lambda: len(heard.all(LookupDone)) >= done + 4, description="all is read four times"
        )
        spent, refreshes = calls(admin) - before, len(heard.all(LookupDone)) - done
    assert {event.topics for event in heard.all(LookupDone)[1:]} == {MANY}
    assert spent < HANDFUL * (refreshes + 1)


async def test_topics_are_prefetched_only_once(stage: Stage) -> None:
    stage.agent.register(broker(), topics(3))
    heard = Heard()
    async with stage.in_place(BELL_ONLY, observers=(heard,)) as client:
        for names in (["t0", "t1"], ["t1", "t0"], ["t1", "t2", "t1"], []):
            await client.prefetch(names)
    assert [event.topics for event in heard.all(LookupDone)] == [2, 1]


async def test_a_forgotten_topic_is_no_longer_kept_fresh_and_is_read_anew(stage: Stage) -> None:
    held = stage.agent.register(broker(), topics(2))
    heard = Heard()
    async with stage.in_place(BELL_ONLY, observers=(heard,)) as client:
        await client.prefetch(["t0", "t1"])
        client.forget(["t0", "never-known"])
        assert client.health().topics == 1
        stage.agent.register(broker(), [TopicConfig("t0", 7, 7), TopicConfig("t1", 7, 7)], held=held)

        async def is_there() -> bool:
            return len(await client.subscribe_queues("t1")) == 7

        await await_until(is_there, description="the change of the other topic is heard of")
        assert client.health().topics == 1
        assert len(await client.subscribe_queues("t0")) == 7
        # The other one may have been read again, too, where the doorbell was missed; never both together.
        first, *others = [event.topics for event in heard.all(LookupDone)]
        assert (first, {*others}) == (2, {1})


# --- how old -----------------------------------------------------------------------------------------------


async def test_a_route_is_young_while_the_store_answers_and_ages_while_it_does_not(own: OwnStage) -> None:
    own.agent.register(broker(), topics(1))
    async with own.in_place() as client:
        first = (await client.route("t0")).as_of
        assert first is not None
        await until_confirmed(client, first)
        assert 0 <= ((await client.route("t0")).age_s or 0.0) < monotonic() - first
        own.server.kill()
        await until_source(client, "memory")
        last = await client.route("t0")
        await await_until(lambda: (last.age_s or 0.0) > 0.3, description="the route ages")
        assert (await client.route("t0")).as_of == last.as_of
        own.server.start()
        own.agent.register(broker(), topics(1))
        await until_confirmed(client, last.as_of)


# --- the default topic -------------------------------------------------------------------------------------

DEFAULT = "TBW102"


async def queues_of(client: AnyClient, topic: str) -> list[tuple[str, int]]:
    """Return the queues that take turns for a topic, as (broker name, queue id)."""
    found = [await client.select_queue(topic) for _ in range(64)]
    return sorted({(queue.broker_name, queue.queue_id) for queue in found})


async def until_queues(client: AnyClient, topic: str, brokers: dict[str, int]) -> None:
    """Wait until so many queues of these brokers take turns."""
    expected = [(name, number) for name, count in brokers.items() for number in range(count)]

    async def reached() -> bool:
        return await queues_of(client, topic) == expected

    await await_until(reached, description=f"{topic} is served by {brokers}")


def lend(agent: RouteStore) -> None:
    """Let two brokers take messages for topics that do not exist: one with 8 queues, one with 3 readable."""
    agent.register(broker("broker-a"), [TopicConfig(DEFAULT, 8, 8)])
    agent.register(broker("broker-b"), [TopicConfig(DEFAULT, 3, 8)])


async def test_an_unknown_topic_is_served_by_the_brokers_of_the_default_topic(stage: Stage) -> None:
    lend(stage.agent)
    async with stage.client(BELL_ONLY, default_topic=DEFAULT) as client:
        first = await client.select_queue("new")
        assert (first.topic, first.address) == ("new", ADDRESS)
        await until_queues(client, "new", {"broker-a": 4, "broker-b": 3})


async def test_only_producers_are_served_by_the_default_topic(stage: Stage) -> None:
    lend(stage.agent)
    async with stage.client(BELL_ONLY, default_topic=DEFAULT) as client:
        await client.select_queue("new")
        for ask in (client.route, client.subscribe_queues):
            with pytest.raises(NoRoute):
                await ask("new")
        assert list(await client.get(["new", DEFAULT])) == [DEFAULT]


async def test_the_topic_takes_over_when_it_is_created_and_gives_back_when_it_is_deleted(
    stage: Stage,
) -> None:
    lend(stage.agent)
    async with stage.in_place(BELL_ONLY, default_topic=DEFAULT, default_topic_queues=2) as client:
        await until_queues(client, "t0", {"broker-a": 2, "broker-b": 2})
        stage.agent.register(broker("broker-c"), topics(1))
        await until_queues(client, "t0", {"broker-c": 4})
        stage.agent.admin.delete_topic("t0")
        await until_queues(client, "t0", {"broker-a": 2, "broker-b": 2})


async def test_when_nobody_holds_the_default_topic_an_unknown_one_has_no_route_until_somebody_does(
    stage: Stage,
) -> None:
    async with stage.in_place(BELL_ONLY, default_topic=DEFAULT) as client:
        with pytest.raises(NoRoute):
            await client.select_queue("new")
        change_id = client.health().position
        lend(stage.agent)
        await await_until(lambda: client.health().position != change_id, description="a change is heard")

        async def served() -> bool:
            try:
                return bool(await client.select_queue("new"))
            except NoRoute:
                return False

        await await_until(served, description="the topic is served")


# --- message groups ----------------------------------------------------------------------------------------

KEYS = [f"order-{number}" for number in range(40)]


async def test_a_key_has_one_queue_for_all_clients_and_keys_spread(stage: Stage) -> None:
    stage.register("broker-a", "broker-b")
    async with stage.client() as client, stage.client() as other:
        found = [await client.select_queue("t0", key=key) for key in KEYS]
        assert [await client.select_queue("t0", key=key) for key in KEYS] == found
        assert [await other.select_queue("t0", key=key.encode()) for key in KEYS] == found
        assert {queue.broker_name for queue in found} == {"broker-a", "broker-b"}
        assert len(set(found)) > 4


async def test_a_key_moves_when_its_broker_fails_or_is_to_be_avoided_and_other_keys_stay(
    stage: Stage,
) -> None:
    stage.register("broker-a", "broker-b")
    async with stage.client() as client:
        found = {key: await client.select_queue("t0", key=key) for key in KEYS}
        for key in KEYS:
            assert (await client.select_queue("t0", "broker-b", key=key)).broker_name == "broker-a"
        client.record("broker-a", 0.0, failed=True)
        after = {key: await client.select_queue("t0", key=key) for key in KEYS}
    assert {queue.broker_name for queue in after.values()} == {"broker-b"}
    for key, queue in found.items():
        assert queue.broker_name == "broker-a" or after[key] == queue


# --- where to pull from ------------------------------------------------------------------------------------


async def test_the_address_of_a_replica_is_found_with_another_in_its_place(stage: Stage) -> None:
    master = stage.agent.register(broker(), topics(1))
    stage.agent.register(broker(broker_id=2, address=OTHER_ADDRESS), [])
    async with stage.client() as client:
        assert client.find_address("broker-a") is None  # it is not in use yet
        await until_held_by(client, "t0", "broker-a")
        await await_until(lambda: client.find_address("broker-a", 2), description="the slave is known")
        assert client.find_address("broker-a") == (ADDRESS, 0)
        assert client.find_address("broker-a", 2) == (OTHER_ADDRESS, 2)
        assert client.find_address("broker-a", 1) == (OTHER_ADDRESS, 2)
        assert client.find_address("broker-a", 7) == (ADDRESS, 0)
        assert client.find_address("broker-a", 7, only_this=True) is None
        assert client.find_address("broker-z") is None
        stage.agent.unregister(master)
        await await_until(
            lambda: client.find_address("broker-a") == (OTHER_ADDRESS, 2), description="the slave takes over"
        )
        assert client.find_address("broker-a", only_this=True) is None
