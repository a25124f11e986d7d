"""Whatever becomes of the store, following goes on, and what may have been missed is said by a reset."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from sharedroutes.registry import EmbeddedServer, Reset, StoreRefused
from sharedroutes.registry.change_stream.core import ResetReason
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import broker, topics
from tests.registry.followers import Told, follow, listening, tell, tell_silently
from tests.registry.repairs import everything
from tests.registry.servers import answers, client, quick
from tests.support import await_until

PASSWORD = "correct-horse"  # noqa: S105 - of a server that lives for one test
NEWER = b'{"kind":"of a newer release","broker":"broker-a","id":0,"epoch":1}'
QUICK: dict[str, Any] = {"tail_s": 0.05}
IMPATIENT: dict[str, Any] = {"call_deadline_s": 1.0, "connect_deadline_s": 1.0}
READER = ("--user", "reader", "on", f">{PASSWORD}", "~*", "+@read", "+ping", "+client", "+subscribe")


def said(caplog: pytest.LogCaptureFixture, level: int, text: str = "") -> int:
    return sum(record.levelno == level and text in record.getMessage() for record in caplog.records)


@pytest.fixture
def own_admin(own_server: EmbeddedServer) -> Iterator[redis.Redis]:
    with client(own_server.url) as admin:
        yield admin


async def until_answering(told: Told) -> None:
    await await_until(
        lambda: told.follower.health().last_error is None, description="the store answers the follower"
    )


async def until_in_trouble(told: Told, about: str = "") -> None:
    """Wait for trouble about this: what comes first can be the cut connection of an answer under way."""

    def in_trouble() -> bool:
        error = told.follower.health().last_error
        return error is not None and about in error

    await await_until(in_trouble, description=f"the follower has trouble {about}".strip())


async def until_tried_again(told: Told) -> None:
    core = getattr(told.follower, "blocking", told.follower)._core
    await await_until(lambda: core._failures >= 4, description="the follower has tried four times")


# --- connections that are cut ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pubsub", "normal"])
async def test_connections_that_are_killed_again_and_again_cost_no_change(
    make_store: StoreMaker, own_server: EmbeddedServer, own_admin: redis.Redis, kind: str
) -> None:
    store = make_store(own_server.url)
    first = tell(own_admin, store.keys.changes)
    async with listening(store, **QUICK) as told:
        for _ in range(20):
            own_admin.client_kill_filter(_type=kind, skipme=True)
            last = tell(own_admin, store.keys.changes, 10)
        await told.until(last)
    written = (await store.changes_since(first, 10_000)).changes
    assert (told.ids, len(told.resets)) == ([change.change_id for change in written], 1)


async def test_after_the_doorbell_was_cut_it_rings_again(store: Store, admin: redis.Redis) -> None:
    tell(admin, store.keys.changes)
    async with listening(store, tail_s=3_600) as told:
        await until_bell(admin, store)
        admin.client_kill_filter(_type="pubsub")
        await until_bell(admin, store)
        await await_until(lambda: not told.follower.health().polling, description="the doorbell is back")
        await told.until(tell(admin, store.keys.changes))
        await told.until(tell(admin, store.keys.changes))


async def test_a_doorbell_that_tells_nothing_any_more_is_renewed(
    store: Store, admin: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tell(admin, store.keys.changes)
    async with listening(store, **QUICK) as told:
        await until_bell(admin, store)
        for _ in range(5):
            await told.until(tell_silently(admin, store.keys.changes))
        await await_until(lambda: said(caplog, logging.INFO, "not heard"), description="it is deaf")
        await await_until(lambda: not told.follower.health().polling, description="it hears again")
        await told.until(tell(admin, store.keys.changes))
    assert (len(told.resets), len(told.ids)) == (1, 6)


async def until_bell(admin: redis.Redis, store: Store) -> None:
    channel = store.keys.changes
    await await_until(
        lambda: admin.pubsub_numsub(channel)[0][1] == 1, description="the follower has subscribed"
    )


# --- a server that goes away -------------------------------------------------------------------------------


async def test_a_server_that_comes_back_empty_is_a_reset_and_is_said_once(
    make_store: StoreMaker, own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = make_store(own_server.url)
    await store.register(broker(), topics(1))
    async with listening(store, **QUICK) as told:
        own_server.kill()
        await until_in_trouble(told)
        await until_tried_again(told)
        assert said(caplog, logging.WARNING) == 1
        own_server.start()
        reset = await told.until_resets(2)
        assert (reset.reason, reset.position) == (ResetReason.LOST, "0-0")
        assert reset.table is not None
        assert reset.table.rows == {}
        with contextlib.suppress(ConnectionError):  # the store's other connections may have to fail first
            await store.topics()
        await store.register(broker(), topics(2))
        await told.until((await store.changes_since()).changes[-1].change_id)
        await until_answering(told)
    assert said(caplog, logging.INFO, "answers again") == 1
    assert said(caplog, logging.WARNING, "until the store answers again") == 1


async def test_a_server_that_comes_back_with_its_data_costs_no_change_and_no_reset(
    make_store: StoreMaker, tmp_path: Path
) -> None:
    options = ("--dir", str(tmp_path), "--appendonly", "yes", "--appendfsync", "always")
    with quick(*options) as server:
        store = make_store(server.url)
        with client(server.url) as admin:
            tell(admin, store.keys.changes)
            async with listening(store, **QUICK) as told:
                await told.until(tell(admin, store.keys.changes))
                server.kill()
                await until_in_trouble(told)
                server.start()
                await await_until(lambda: answers(server.url), description="the server has read its data")
                with client(server.url) as again:
                    await told.until(tell(again, store.keys.changes))
                assert (len(told.resets), len(told.ids)) == (1, 2)


async def test_a_server_that_is_not_there_yet_is_waited_for(
    make_store: StoreMaker, own_server: EmbeddedServer
) -> None:
    own_server.kill()
    async with follow(make_store(own_server.url)) as follower:
        told = Told(follower)
        await until_in_trouble(told, "cannot be reached")
        assert follower.health().age_s is None
        own_server.start()
        told.take(await anext(follower))
    assert [reset.reason for reset in told.resets] == [ResetReason.START]


async def test_a_server_that_hangs_for_longer_than_the_deadline_costs_no_change(
    make_store: StoreMaker,
    own_server: EmbeddedServer,
    own_admin: redis.Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    store = make_store(own_server.url, **IMPATIENT)
    tell(own_admin, store.keys.changes)
    async with listening(store, **QUICK) as told:
        for _ in range(2):
            own_server.pause()
            await until_in_trouble(told, "in time")
            own_server.resume()
            await told.until(tell(own_admin, store.keys.changes))
            await until_answering(told)
        assert (len(told.resets), len(told.ids)) == (1, 2)
        assert told.follower.health().position == told.position
    assert said(caplog, logging.WARNING) == said(caplog, logging.INFO, "answers again") == 2


# --- a stream that lost something --------------------------------------------------------------------------


async def test_a_stream_that_was_trimmed_past_the_position_is_a_reset(
    store: Store, admin: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    await store.register(broker(), topics(1))
    async with listening(store, **QUICK) as told:
        with admin.pipeline(transaction=True) as at_once:
            for _ in range(3):
                at_once.xadd(store.keys.changes, {"c": b"{}"})
            at_once.xtrim(store.keys.changes, maxlen=1, approximate=False)
            last = at_once.execute()[-2].decode()
        reset = await told.until_resets(2)
        assert (reset.position, reset.reason) == (last, ResetReason.LOST)
        assert reset.table is not None
        assert list(reset.table.routes()) == ["t0"]
        await told.until(tell(admin, store.keys.changes))
    assert said(caplog, logging.WARNING, "lost changes") == 1


async def test_a_flushed_registry_is_an_empty_reset_and_is_followed_on(
    store: Store, admin: redis.Redis
) -> None:
    await store.register(broker(), topics(1))
    async with listening(store, **QUICK) as told:
        admin.flushall()
        reset = await told.until_resets(2)
        assert reset.table is not None
        assert (reset.reason, reset.table.rows, reset.table.alive) == (ResetReason.LOST, {}, {})
        await store.register(broker("broker-b"), topics(1))
        await told.until((await store.changes_since()).changes[-1].change_id)


@pytest.mark.parametrize("record", [b"\xff", NEWER], ids=["garbage", "of a newer release"])
@pytest.mark.parametrize("tell_it", [tell, tell_silently], ids=["with a doorbell", "silently"])
async def test_a_change_that_cannot_be_read_is_a_reset_with_what_it_changed_and_is_said_once(
    store: Store,
    admin: redis.Redis,
    caplog: pytest.LogCaptureFixture,
    tell_it: Callable[..., str],
    record: bytes,
) -> None:
    await store.register(broker(), topics(1))
    async with listening(store, **QUICK) as told:
        admin.set(store.keys.topic("t0"), "broker-a 8 8 6 0")
        bad = tell_it(admin, store.keys.changes, record=record)
        reset = await told.until_resets(2)
        assert (reset.position, reset.reason) == (bad, ResetReason.UNREADABLE)
        assert reset.table is not None
        assert reset.table.routes() == await store.routes(["t0"])
        assert reset.table.rows["t0"][0].read_queue_nums == 8
        for _ in range(2):
            await told.until(tell(admin, store.keys.changes))
        assert (len(told.resets), len(told.ids)) == (2, 2)
    assert said(caplog, logging.ERROR) == said(caplog, logging.ERROR, f"entry {bad} is no change") == 1


async def test_who_follows_on_before_what_cannot_be_read_is_told_by_a_reset_and_after_it_no_more(
    store: Store, admin: redis.Redis
) -> None:
    before = tell(admin, store.keys.changes)
    tell(admin, store.keys.changes)
    bad = tell(admin, store.keys.changes, record=NEWER)
    async with listening(store, before, **QUICK) as told:
        reset = await told.until_resets(1)
        assert (reset.position, reset.reason, told.changes) == (bad, ResetReason.UNREADABLE, [])
        await told.until(tell(admin, store.keys.changes))
    async with listening(store, reset.position, **QUICK) as told:
        await told.until(tell(admin, store.keys.changes))
        assert (len(told.resets), len(told.ids)) == (0, 2)


async def test_without_the_table_what_cannot_be_read_is_a_position(store: Store, admin: redis.Redis) -> None:
    tell(admin, store.keys.changes)
    async with listening(store, table=False, **QUICK) as told:
        for count in (2, 3):
            bad = tell(admin, store.keys.changes, record=NEWER)
            assert await told.until_resets(count) == Reset(bad, None, ResetReason.UNREADABLE)
            await told.until(tell(admin, store.keys.changes))
        assert (len(told.resets), len(told.ids)) == (3, 1)


async def test_a_foreign_key_in_place_of_the_stream_is_said_once_and_outlived(
    store: Store, admin: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    await store.register(broker(), topics(1))
    async with listening(store, **QUICK) as told:
        admin.set(store.keys.changes, "not a stream")
        await until_in_trouble(told, store.keys.changes)
        await until_tried_again(told)
        assert said(caplog, logging.ERROR, store.keys.changes) == 1
        admin.delete(store.keys.changes)
        reset = await told.until_resets(2)
        assert reset.table is not None
        assert (reset.reason, list(reset.table.routes())) == (ResetReason.LOST, ["t0"])
        await store.register(broker("broker-b"), topics(1))
        await told.until((await store.changes_since()).changes[-1].change_id)


async def test_changes_are_lost_to_a_stream_that_was_away_and_came_back(
    store: Store, admin: redis.Redis
) -> None:
    held = await store.register(broker(), topics(1))
    away = f"{store.keys.changes}:away"
    async with listening(store, **QUICK) as told:
        together = admin.pipeline()  # a look in between would find no stream, and lose its changes once more
        together.rename(store.keys.changes, away)
        together.set(store.keys.changes, "not a stream")
        together.execute()
        await until_in_trouble(told, store.keys.changes)
        await store.unregister(held)
        admin.rename(away, store.keys.changes)
        reset = await told.until_resets(2)
        assert reset.table is not None
        assert (reset.reason, list(reset.table.routes())) == (ResetReason.LOST, [])


async def test_a_foreign_index_of_topics_is_never_taken_for_an_empty_table(
    store: Store, admin: redis.Redis
) -> None:
    await store.register(broker(), topics(1))
    away = f"{store.keys.topics}:away"
    admin.rename(store.keys.topics, away)
    admin.set(store.keys.topics, "no set")
    async with follow(store) as follower:
        told = Told(follower)
        await until_in_trouble(told, store.keys.topics)
        admin.rename(away, store.keys.topics)
        told.take(await anext(follower))
        assert told.resets[0].table is not None
        assert list(told.resets[0].table.rows) == ["t0"]


async def test_who_read_a_list_without_its_topics_is_told_of_them_when_they_are_listed_again(
    store: Store, admin: redis.Redis
) -> None:
    await store.register(broker(), topics(2))
    admin.delete(store.keys.topics)
    async with listening(store, **QUICK) as told:
        assert told.resets[0].table is not None
        assert list(told.resets[0].table.rows) == []
        await everything(store.admin.rebuild())
        await told.until((await store.changes_since()).position)
        assert {*told.changes[-1].changed} == {"t0", "t1"}


# --- rights ------------------------------------------------------------------------------------------------


async def test_credentials_that_are_refused_at_the_first_contact_are_an_error(make_store: StoreMaker) -> None:
    with quick("--requirepass", PASSWORD) as locked:
        async with follow(make_store(locked.url)) as follower:
            for _ in range(2):
                with pytest.raises(StoreRefused, match="credentials"):
                    await anext(follower)


async def test_credentials_that_are_refused_later_on_are_waited_for(
    make_store: StoreMaker, own_server: EmbeddedServer, own_admin: redis.Redis
) -> None:
    store = make_store(own_server.url)
    tell(own_admin, store.keys.changes)
    async with listening(store, **QUICK) as told:
        own_admin.config_set("requirepass", PASSWORD)
        own_admin.auth(PASSWORD)
        own_admin.client_kill_filter(skipme=True)
        await until_in_trouble(told, "credentials")
        own_admin.config_set("requirepass", "")
        await until_answering(told)
        await told.until(tell(own_admin, store.keys.changes))
        assert (len(told.resets), len(told.ids)) == (1, 1)


async def test_a_user_without_the_right_to_the_channel_reads_the_stream_all_the_time(
    make_store: StoreMaker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with quick(*READER, "resetchannels") as restricted, client(restricted.url) as admin:
        store = make_store(restricted.url.replace("//", f"//reader:{PASSWORD}@"))
        tell(admin, store.keys.changes)
        async with listening(store, **QUICK) as told:
            for _ in range(3):
                await told.until(tell(admin, store.keys.changes))
            assert (len(told.resets), len(told.ids)) == (1, 3)
            assert told.follower.health().polling
    assert said(caplog, logging.INFO, "no doorbell") == 1
    assert said(caplog, logging.WARNING) == 0
