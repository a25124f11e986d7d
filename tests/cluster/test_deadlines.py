"""No call outlives its deadlines, and no store opens more connections than it may, wherever its keys live."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from sharedroutes.registry import EmbeddedServer, StoreTimeout, StoreUnavailable
from sharedroutes.registry.plans import Plan, Reads
from tests.client.clients import let_many_wait
from tests.cluster.conftest import Group
from tests.cluster.owners import FAILED_OVER_WITHIN_S
from tests.cluster.servers import ClusterServers
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import broker, topics
from tests.support import Stopwatch, await_until

CALL_S = 1.0
CONNECT_S = 0.5
MARGIN_S = 0.8  # for a busy machine; one that stands still is not counted


def primary_of(group: Group, store: Store) -> EmbeddedServer:
    return group.owner(store.config.namespace) if isinstance(group, ClusterServers) else group.primary()


def all_of(group: Group) -> list[EmbeddedServer]:
    return group.nodes if isinstance(group, ClusterServers) else [*group.data, *group.sentinels]


async def failed_within(store: Store, seconds: float) -> None:
    """Have a call fail, and in time."""
    with Stopwatch() as watch, pytest.raises(StoreUnavailable):
        await store.topics()
    assert watch.elapsed_s < seconds + MARGIN_S


async def topics_of(store: Store) -> list[str]:
    """Return the topics; a call that was too late only because the machine stood still is made again."""
    while True:
        with Stopwatch() as watch, contextlib.suppress(StoreTimeout):
            return await store.topics()
        assert watch.elapsed_s < CALL_S / 2, "the server took too long"


async def test_a_call_to_a_hung_primary_ends_and_its_successor_is_found(
    make_store: StoreMaker, own_group: Group
) -> None:
    await make_store(own_group.url, lease_ttl_s=300.0).register(broker(), topics(1))
    store = make_store(own_group.url, call_deadline_s=CALL_S, connect_deadline_s=CONNECT_S)
    assert await topics_of(store) == ["t0"]
    old = primary_of(own_group, store)
    own_group.await_replicas(old)
    old.pause()
    await failed_within(store, CALL_S)

    async def works_again() -> bool:
        try:
            return await store.topics() == ["t0"]
        except StoreUnavailable:
            return False

    await await_until(works_again, timeout_s=FAILED_OVER_WITHIN_S, description="the successor answers")
    old.resume()  # and becomes a replica
    for _ in range(20):
        assert await topics_of(store) == ["t0"]


async def test_a_call_ends_when_everybody_hangs(make_store: StoreMaker, own_group: Group) -> None:
    known = make_store(own_group.url, call_deadline_s=CALL_S, connect_deadline_s=CONNECT_S)
    await topics_of(known)
    for server in all_of(own_group):
        server.pause()
    new = make_store(own_group.url, call_deadline_s=CALL_S, connect_deadline_s=CONNECT_S)
    await failed_within(known, CALL_S)
    await failed_within(new, CALL_S + CONNECT_S)  # the search, which may begin a last question at its end
    bell = new.doorbell()
    with Stopwatch() as watch, pytest.raises(StoreUnavailable):
        await bell.wait(0.1)
    assert watch.elapsed_s < CALL_S + CONNECT_S + MARGIN_S
    await bell.aclose()


def clients() -> Plan[int]:
    (reply,) = yield Reads([("CLIENT", "LIST", "TYPE", "NORMAL")])
    names = [line for line in reply.splitlines() if b"name=bounded" in line]
    return len(names)


async def test_a_store_opens_no_more_connections_than_it_may(
    make_store: StoreMaker, group: Group, namespace: str
) -> None:
    url = f"{group.url}?client_name=bounded"
    store = make_store(url, namespace=namespace, max_connections=3)
    assert await asyncio.gather(*(store.topics() for _ in range(40))) == [[]] * 40
    assert 1 <= await store.run(clients()) <= 3


@asynccontextmanager
async def one_free_connection(store: Store) -> AsyncIterator[None]:
    """Hold all connections of a store that may have three but one: each doorbell that listens has its own."""
    assert store.config.max_connections == 3
    async with aclosing(store.doorbell()) as first, aclosing(store.doorbell()) as second:
        for bell in (first, second):
            await await_until(partial(listens, bell), description="the doorbell listens")
        yield


async def listens(bell: Any) -> bool:
    with contextlib.suppress(StoreUnavailable):
        return bool(await bell.wait(CONNECT_S) == b"")
    return False


async def test_a_caller_waits_for_a_free_connection_no_longer_than_for_an_answer(
    make_store: StoreMaker, own_group: Group
) -> None:
    store = make_store(own_group.url, call_deadline_s=CALL_S, connect_deadline_s=CONNECT_S, max_connections=3)
    await topics_of(store)
    async with one_free_connection(store):
        primary_of(own_group, store).pause()
        with Stopwatch() as watch:
            outcomes = await asyncio.gather(*(store.topics() for _ in range(4)), return_exceptions=True)
        # The first waits for its answer, the second has what is left; who comes last had no connection.
        assert watch.elapsed_s < 2 * (CALL_S + CONNECT_S) + MARGIN_S
        assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)


def connection_ids() -> Plan[list[int]]:
    (reply,) = yield Reads([("CLIENT", "LIST", "TYPE", "NORMAL")])
    return [int(line.split()[0][3:]) for line in reply.splitlines() if b"name=bounded" in line]


def slow(key: str, seconds: float) -> Plan[None]:
    yield Reads([("BLPOP", key, str(seconds))])


async def test_a_connection_survives_that_others_wait_for_it_in_vain(
    make_store: StoreMaker, group: Group, namespace: str
) -> None:
    let_many_wait()  # all at once, lest the last ones come when there is a connection again
    url = f"{group.url}?client_name=bounded"
    store = make_store(url, namespace=namespace, call_deadline_s=3 * CALL_S, max_connections=3)
    async with one_free_connection(store):
        before = await store.run(connection_ids())
        calls = (store.run(slow(f"{store.keys.prefix}:none", 0.6 * CALL_S)) for _ in range(12))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        # Some had no connection in time, which says nothing about the server that the connection leads to.
        assert any(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
        assert await store.run(connection_ids()) == before
