"""How a running client hears of changes: the doorbell, the tail of the feed, the leases, the refresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import redis

from sharedroutes.client import ClientConfig
from sharedroutes.client.observers.events import LookupDone, RoutesChanged
from sharedroutes.registry import Registration, RegistryConfig, RouteStore, TopicConfig
from sharedroutes.registry.change_stream import stream
from tests.client.clients import (
    BELL_ONLY,
    QUICK,
    AnyClient,
    OwnStage,
    Stage,
    chosen,
    tell_silently,
    until_chosen,
    until_held_by,
    until_in_place,
    until_position,
)
from tests.client.heard import Heard
from tests.registry.builders import OTHER_ADDRESS, broker, topics
from tests.registry.followers import tell
from tests.support import await_until


def two_brokers(agent: RouteStore) -> tuple[Registration, Registration]:
    return agent.register(broker("broker-a"), topics(2)), agent.register(broker("broker-b"), topics(2))


async def until_queues(client: AnyClient, topic: str, count: int) -> None:
    async def reached() -> bool:
        return len(await client.subscribe_queues(topic)) == count

    await await_until(reached, description=f"{topic} has {count} queues")


def double_silently(admin: redis.Redis, agent: RouteStore, topic: str) -> None:
    """Give broker-a eight queues instead of four, behind everybody's back."""
    admin.set(agent.keys.topic(topic), "broker-a 8 8 6 0")


# --- the doorbell ------------------------------------------------------------------------------------------


async def test_the_doorbell_tells_of_a_topic_a_broker_and_an_unregistration(stage: Stage) -> None:
    async with stage.in_place(BELL_ONLY) as client:
        await until_held_by(client, "t0")
        held = stage.agent.register(broker(), topics(1))
        await until_held_by(client, "t0", "broker-a")
        stage.agent.register(broker(), [TopicConfig("t0", 7, 7)], held=held)
        await until_queues(client, "t0", 7)
        stage.agent.register(broker("broker-b"), topics(1))
        await until_held_by(client, "t0", "broker-a", "broker-b")
        stage.agent.unregister(held)
        await until_held_by(client, "t0", "broker-b")


async def test_the_doorbell_tells_of_a_broker_while_something_else_stands_in_the_place_of_the_stream(
    stage: Stage, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    held, _ = two_brokers(stage.agent)
    key, away = stage.agent.keys.changes, f"{stage.agent.keys.changes}:away"
    async with stage.in_place(BELL_ONLY) as client:
        await until_held_by(client, "t0", "broker-a", "broker-b")
        admin.rename(key, away)
        foreign_keys += [key, away]
        admin.set(key, "foreign")
        stage.agent.unregister(held)
        await until_held_by(client, "t0", "broker-b")
        held = stage.agent.register(broker("broker-a"), topics(2), held=held)
        await until_held_by(client, "t0", "broker-a", "broker-b")
        many = [TopicConfig("t0", 7, 7), *(TopicConfig("x" * 200 + str(number)) for number in range(3))]
        held = stage.agent.register(broker("broker-a"), many, held=held)
        await until_queues(client, "t0", 11)
        double_silently(admin, stage.agent, "t0")
        admin.rename(away, key)
        stage.agent.register(broker("broker-b"), topics(3))
        await until_queues(client, "t0", 8 + 4)


async def test_nothing_is_sent_to_a_wiped_broker_until_that_is_lifted(stage: Stage) -> None:
    two_brokers(stage.agent)
    async with stage.in_place(BELL_ONLY) as client:
        assert await chosen(client) == {"broker-a", "broker-b"}
        stage.agent.admin.wipe_write_perm("broker-a")
        await until_chosen(client, "broker-b")
        assert len(await client.subscribe_queues("t0")) == 8
        stage.agent.admin.add_write_perm("broker-a")
        await until_chosen(client, "broker-a", "broker-b")


async def test_a_deleted_topic_is_gone_and_the_key_value_store_is_no_matter(stage: Stage) -> None:
    two_brokers(stage.agent)
    async with stage.in_place(BELL_ONLY) as client:
        await until_held_by(client, "t0", "broker-a", "broker-b")
        stage.agent.kv.put("ns", "k", "v")
        stage.agent.admin.delete_topic("t0", "another cluster")
        stage.agent.admin.delete_topic("t0")
        await until_held_by(client, "t0")
        await until_held_by(client, "t1", "broker-a", "broker-b")


async def test_a_long_change_is_read_from_the_feed(stage: Stage) -> None:
    names = [str(number) + "x" * 200 for number in range(3)]
    async with stage.client(BELL_ONLY) as client:
        await until_held_by(client, names[2])
        stage.agent.register(broker(), map(TopicConfig, names))
        await until_held_by(client, names[2], "broker-a")


async def test_a_replica_that_joins_and_leaves_is_seen(stage: Stage) -> None:
    stage.agent.register(broker(), topics(1))
    async with stage.client(BELL_ONLY) as client:
        await until_held_by(client, "t0", "broker-a")

        async def until_replicas(*expected: int) -> None:
            async def reached() -> bool:
                return (await client.route("t0")).broker_datas[0].broker_addrs.keys() == {*expected}

            await await_until(reached, description=f"{expected} are seen")

        slave = stage.agent.register(broker(broker_id=1, address=OTHER_ADDRESS), [])
        await until_replicas(0, 1)
        stage.agent.unregister(slave)
        await until_replicas(0)


async def test_a_broker_that_comes_back_is_chosen_although_it_failed(stage: Stage) -> None:
    held, _ = two_brokers(stage.agent)
    async with stage.in_place(BELL_ONLY) as client:
        await client.select_queue("t0")
        client.record("broker-a", 0.0, failed=True)
        assert await chosen(client) == {"broker-b"}
        stage.agent.unregister(held)
        stage.agent.register(broker("broker-a"), topics(2))
        await until_chosen(client, "broker-a", "broker-b")


# --- doorbells that were missed ----------------------------------------------------------------------------


async def test_changes_while_the_doorbell_was_cut_off_are_seen(stage: Stage, admin: redis.Redis) -> None:
    held, _ = two_brokers(stage.agent)
    async with stage.in_place(BELL_ONLY) as client:
        await until_held_by(client, "t0", "broker-a", "broker-b")
        for _ in range(3):
            admin.client_kill_filter(_type="pubsub")
            stage.agent.unregister(held)
            await until_held_by(client, "t0", "broker-b")
            held = stage.agent.register(broker("broker-a"), topics(2))
            await until_held_by(client, "t0", "broker-a", "broker-b")


def by_the_tail(agent: RouteStore, admin: redis.Redis) -> None:
    tell_silently(admin, agent.keys, "t0")


def by_a_gap(agent: RouteStore, admin: redis.Redis) -> None:
    tell_silently(admin, agent.keys, "t0")
    agent.register(broker("broker-b"), [])


def by_a_trimmed_feed(agent: RouteStore, admin: redis.Redis) -> None:
    admin.xtrim(agent.keys.changes, maxlen=0, approximate=False)


def by_a_doorbell_that_cannot_be_read(agent: RouteStore, admin: redis.Redis) -> None:
    tell(admin, agent.keys.changes, record=b'{"kind":"of a newer release"}')


def by_the_refresh(_agent: RouteStore, _admin: redis.Redis) -> None:
    """Nobody tells of it."""


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (replace(QUICK, tail_s=0.05), by_the_tail),
        (BELL_ONLY, by_a_gap),
        (replace(QUICK, tail_s=0.05), by_a_trimmed_feed),
        (BELL_ONLY, by_a_doorbell_that_cannot_be_read),
        (replace(QUICK, refresh_s=0.2), by_the_refresh),
    ],
)
async def test_a_change_that_no_doorbell_tells_of_is_found(
    stage: Stage, admin: redis.Redis, config: ClientConfig, found: Callable[[RouteStore, redis.Redis], None]
) -> None:
    stage.agent.register(broker(), topics(1))
    async with stage.in_place(config) as client:
        await until_queues(client, "t0", 4)
        double_silently(admin, stage.agent, "t0")
        found(stage.agent, admin)
        await until_queues(client, "t0", 8)
        assert client.health().held == ()


async def test_a_backlog_longer_than_a_page_is_taken_in(stage: Stage, admin: redis.Redis) -> None:
    stage.agent.register(broker(), topics(1))
    async with stage.client(BELL_ONLY) as client:
        await until_queues(client, "t0", 4)
        await until_in_place(client)
        double_silently(admin, stage.agent, "t0")
        tell_silently(admin, stage.agent.keys, "t0")
        with admin.pipeline() as pipeline:
            for _ in range(2_500):
                pipeline.xadd(stage.agent.keys.changes, {"c": '{"kind":"up","broker":"other","epoch":1}'})
            last = pipeline.execute()[-1].decode()
        admin.publish(stage.agent.keys.changes, f"gap {last} ")
        await until_position(client, last)
        await until_queues(client, "t0", 8)


async def test_nonsense_on_the_channel_does_not_stop_the_client(stage: Stage, admin: redis.Redis) -> None:
    async with stage.client(BELL_ONLY) as client:
        await until_held_by(client, "t0")
        await until_in_place(client)
        for message in (b"", b"\xff\xff", b"1 2 3", b"0-0 99999999999999-0 {}"):
            admin.publish(stage.agent.keys.changes, message)
        stage.agent.register(broker(), topics(1))
        await until_held_by(client, "t0", "broker-a")


@pytest.mark.parametrize(
    "fields", [{"something": "else"}, {"c": '{"kind":"of a newer release"}'}], ids=["garbage", "newer"]
)
async def test_an_entry_that_cannot_be_read_is_said_and_what_it_has_changed_is_seen_at_the_next_look(
    stage: Stage, admin: redis.Redis, fields: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    key = stage.agent.keys.changes
    stage.agent.register(broker(), topics(1))
    async with stage.in_place() as client:
        for count in (8, 12):
            await until_queues(client, "t0", count - 4)
            await until_in_place(client)
            admin.set(stage.agent.keys.topic("t0"), f"broker-a {count} {count} 6 0")
            admin.xadd(key, fields)  # type: ignore[arg-type]
            await until_queues(client, "t0", count)
        await await_until(lambda: key in caplog.text, description="the entry is reported")
        assert client.health().held == ()


# --- without any change in the feed ------------------------------------------------------------------------


async def test_the_end_of_a_lease_is_seen_without_anybody_telling(stage: Stage) -> None:
    stage.agent.register(broker("broker-a"), topics(1))
    held = stage.agent.register(broker("broker-b"), topics(1))
    with RouteStore.from_url(stage.url, RegistryConfig(lease_ttl_s=0.3)) as dying_agent:
        async with stage.client(tail_s=0.05) as client:
            await until_held_by(client, "t0", "broker-a", "broker-b")
            dying_agent.heartbeat(held)
            await until_held_by(client, "t0", "broker-a")
            assert client.health().held == ()


async def test_the_same_rows_in_another_order_are_no_change(stage: Stage, admin: redis.Redis) -> None:
    heard = Heard()
    stage.register("broker-a", "broker-b", "broker-c")
    async with stage.in_place(observers=(heard,)) as client:
        before = await client.route("t0")
        heard.take()
        key = stage.agent.keys.topic("t0")
        rows = bytes(admin.get(key)).split(b"\n")  # type: ignore[arg-type]  # redis-py: maybe awaitable
        admin.set(key, b"\n".join(reversed(rows)))
        tell_silently(admin, stage.agent.keys, "t0")
        await await_until(lambda: heard.all(LookupDone), description="the topic was read again")
        after = await client.route("t0")
    assert heard.all(RoutesChanged) == []
    assert (after, after.generation) == (before, before.generation)


# --- a user without the right to listen --------------------------------------------------------------------


async def test_a_client_that_may_not_listen_reads_the_changes_and_listens_as_soon_as_it_may(
    own: OwnStage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "REFUSED_PAUSE_S", 0.2)
    own.agent.register(broker("broker-a"), topics(1))
    caplog.set_level("INFO", "sharedroutes.client")
    with redis.Redis.from_url(own.server.url) as admin:

        def listeners() -> int:
            ((_, count),) = admin.pubsub_numsub(own.agent.keys.changes)
            return int(count)

        admin.execute_command("ACL", "SETUSER", "deaf", "on", ">pw", "~*", "+@all", "resetchannels")
        url = own.server.url.replace("redis://", "redis://deaf:pw@")
        async with own.make_client(url, tail_s=0.05) as client:
            await until_held_by(client, "t0", "broker-a")
            own.agent.register(broker("broker-b"), topics(1))
            await until_held_by(client, "t0", "broker-a", "broker-b")
            assert client.health().source == "live"
            await await_until(lambda: "no doorbell" in caplog.text, description="it is logged")
            assert listeners() == 0
            assert sum("no doorbell" in record.message for record in caplog.records) == 1
            admin.execute_command("ACL", "SETUSER", "deaf", "allchannels")
            await await_until(lambda: listeners() == 1, description="the client listens")
