"""A follower goes on past a failover: no change is missed, or a reset says so."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from sharedroutes.registry import EmbeddedServer, RouteStore
from tests.cluster.conftest import Group
from tests.cluster.owners import CONFIG, FAILED_OVER_WITHIN_S, Owner, stream_of
from tests.cluster.servers import ClusterServers
from tests.fix_redis import PATIENT, StoreMaker
from tests.registry.builders import broker
from tests.registry.followers import listening
from tests.support import await_until


def primary_of(group: Group) -> EmbeddedServer:
    return group.owner(CONFIG.namespace) if isinstance(group, ClusterServers) else group.primary()


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_a_follower_misses_nothing_of_a_failover(
    make_store: StoreMaker, own_group: Group, how: str
) -> None:
    with ExitStack() as stack:
        owner = stack.enter_context(Owner(own_group.url, broker("changing"), changing=True))
        store = make_store(own_group.url, CONFIG)
        async with listening(store, tail_s=0.3) as told:
            await await_until(lambda: len(told.changes) >= 10, description="the follower follows")
            primary = primary_of(own_group)
            await asyncio.to_thread(own_group.await_replicas, primary)
            getattr(primary, how)()
            before = owner.registrations
            await await_until(
                lambda: owner.registrations > before + 10,
                timeout_s=FAILED_OVER_WITHIN_S,
                description="the broker writes to the successor",
            )
            await asyncio.to_thread(owner.stop)
            if how == "pause":
                primary.resume()
            await it_rings_again(own_group, store.keys.changes)
            with RouteStore.from_url(own_group.url, PATIENT) as other:
                await asyncio.to_thread(other.register, broker("after"), [])
            stream = await asyncio.to_thread(stream_of, own_group.url)
            await told.until(stream[-1])
            await await_until(
                lambda: told.follower.health().last_error is None, description="the successor answers"
            )
        begin = told.resets[-1].position
        assert told.ids == stream[stream.index(begin) + 1 if begin in stream else 0 :]
        assert len({change.change_id for change in told.changes}) == len(told.changes)
        assert len(told.resets) <= 2  # what the replica had not got when the primary died is lost


async def it_rings_again(group: Group, channel: str) -> None:
    """Wait until somebody listens to the doorbell of the successor."""

    def listens() -> bool:
        successor = group.admin(primary_of(group))
        return bool(successor.pubsub_numsub(channel)[0][1])

    await await_until(listens, timeout_s=FAILED_OVER_WITHIN_S, description="the doorbell hangs again")
