"""A planned failover: the old primary goes on in a world of its own, and nobody stays there with it."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress

import pytest
import redis

from sharedroutes.client import AsyncRouteClient, ClientConfig, RouteClient
from sharedroutes.registry import Change, EmbeddedServer, Reset, RouteStore, Sweeper, TopicConfig
from sharedroutes.registry.change_stream.core import FollowItem
from sharedroutes.registry.connection import reading
from sharedroutes.registry.keys import Keys
from tests.cluster.owners import CONFIG, FAILED_OVER_WITHIN_S, Owner, beaten_since
from tests.cluster.servers import SERVICE, SentinelServers
from tests.registry.builders import OTHER_ADDRESS, broker
from tests.support import await_until, wait_until

COMMANDS = ("evalsha", "mget", "xrange", "xrevrange")
"""What only stores ask for: neither Sentinels nor replicas do."""


def asked(admin: redis.Redis) -> int:
    """Return how often stores have asked a server for something."""
    stats = admin.info("commandstats")
    return sum(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"] for command in COMMANDS)


def listeners(admin: redis.Redis, channel: str) -> int:
    ((_, count),) = admin.pubsub_numsub(channel)
    return int(count)


class Quiet:
    """Whether no store has asked a server for anything for longer than each of them pauses."""

    def __init__(self, admin: redis.Redis, channel: str) -> None:
        self._admin = admin
        self._channel = channel
        self._calls = -1
        self.since_s = 0.0

    def __call__(self) -> bool:
        before, self._calls = self._calls, asked(self._admin)
        now = time.monotonic()
        if self._calls != before or listeners(self._admin, self._channel):
            self.since_s = now
        return now - self.since_s > _LONGEST_PAUSE_S


_LONGEST_PAUSE_S = 2.0
"""Of all stores of a test: a client reads the tail each second."""


def keeps_its_role(admin: redis.Redis) -> None:
    """Let nobody make a replica of the server: Sentinels do so after some 10 s, in which all this happens."""
    admin.execute_command("ACL", "SETUSER", "default", "-replicaof", "-slaveof")


def fail_over(servers: SentinelServers) -> EmbeddedServer:
    """Make another server the primary as an operator does; return the one that it was."""
    before = servers.primary()
    servers.await_replicas(before)
    keeps_its_role(servers.admin(before))
    sentinel = servers.admin(servers.sentinels[0])

    def is_begun() -> bool:
        with suppress(redis.ResponseError):  # it does not know yet that a replica is well
            return bool(sentinel.execute_command("SENTINEL", "FAILOVER", SERVICE))
        return False

    wait_until(is_begun, timeout_s=FAILED_OVER_WITHIN_S, description="a Sentinel fails over")
    wait_until(
        lambda: servers.primary() is not before,
        timeout_s=FAILED_OVER_WITHIN_S,
        description="the Sentinels have another primary",
    )
    return before


async def test_nobody_stays_with_a_primary_that_was_demoted(own_sentinels: SentinelServers) -> None:
    url = own_sentinels.url
    config = ClientConfig(registry=CONFIG, jitter_s=0.2, reconnect_s=0.3)
    with ExitStack() as stack:
        owner = stack.enter_context(Owner(url, broker("steady"), changing=False))
        wait_until(beaten_since([owner]), description="the broker is registered")
        client = stack.enter_context(RouteClient.from_url(url, config))
        store = stack.enter_context(RouteStore.from_url(url, CONFIG))
        stack.enter_context(Sweeper(store))
        follower = stack.enter_context(store.follow(idle_s=0.1))
        await await_until(lambda: isinstance(next(follower), Reset), description="the follower has the table")
        async with AsyncRouteClient.from_url(url, config) as asyncio_client:
            assert client.route("steady-always").broker_datas
            assert (await asyncio_client.route("steady-always")).broker_datas
            demoted = own_sentinels.admin(fail_over(own_sentinels))
            quiet = Quiet(demoted, store.keys.changes)
            await await_until(quiet, description="nobody asks the demoted primary")
            assert demoted.role()[0] == b"master"
            with RouteStore.from_url(url, CONFIG) as newcomer:
                held = newcomer.register(broker("new", address=OTHER_ADDRESS), [TopicConfig("steady-always")])
                await await_until(
                    lambda: (
                        "new" in {data.broker_name for data in client.route("steady-always").broker_datas}
                    ),
                    description="the client hears of a broker of the new primary's",
                )

                async def is_known() -> bool:
                    route = await asyncio_client.route("steady-always")
                    return "new" in {data.broker_name for data in route.broker_datas}

                await await_until(is_known, description="so does the other")
                await await_until(lambda: tells_of("new", next(follower)), description="so does the follower")
                assert newcomer.unregister(held)
            assert client.health().source == asyncio_client.health().source == "live"


def test_who_reads_at_the_primary_for_want_of_a_replica_does_not_stay_when_it_is_demoted(
    own_sentinels: SentinelServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_BACK_S", (1_000.0, 1_000.0))  # it does not leave by itself
    config = ClientConfig(registry=CONFIG, read_from="replica", jitter_s=0.2, reconnect_s=0.3)
    primary = own_sentinels.primary()
    replicas = [server for server in own_sentinels.stores if server is not primary]
    with ExitStack() as stack:
        owner = stack.enter_context(Owner(own_sentinels.url, broker("steady"), changing=False))
        wait_until(beaten_since([owner]), description="the broker is registered")
        for replica in replicas:
            replica.pause()
            stack.callback(replica.resume)
        client = stack.enter_context(RouteClient.from_url(own_sentinels.url, config))
        admin = own_sentinels.admin(primary)
        wait_until(
            lambda: client.get(["steady-always"]) and listeners(admin, Keys(CONFIG.namespace).changes),
            description="the client reads at the primary",
        )
        for replica in replicas:
            replica.resume()
        fail_over(own_sentinels)
        wait_until(
            lambda: not listeners(admin, Keys(CONFIG.namespace).changes),
            description="the client has left the demoted primary",
        )
        assert admin.role()[0] == b"master"


def tells_of(name: str, item: FollowItem) -> bool:
    """Whether an item says that there is such a broker."""
    if isinstance(item, Reset):
        return item.table is not None and name in item.table.alive
    return isinstance(item, Change) and item.broker_name == name


def test_what_was_written_to_a_demoted_primary_alone_is_not_believed(own_sentinels: SentinelServers) -> None:
    with RouteStore.from_url(own_sentinels.url, CONFIG) as store:
        store.register(broker("steady"), [TopicConfig("t")])
        before = fail_over(own_sentinels)
        with RouteStore.from_url(f"redis://127.0.0.1:{before.port}", CONFIG) as other_world:
            other_world.register(broker("ghost", address=OTHER_ADDRESS), [TopicConfig("t")])

        def ghosts() -> set[str]:
            return set(store.lookup(["t"]).groups) - {"steady"}

        wait_until(lambda: not ghosts(), description="the store reads the new primary")
        assert own_sentinels.admin(before).role()[0] == b"master"


def test_a_doorbell_moves_to_the_new_primary_by_itself(own_sentinels: SentinelServers) -> None:
    with RouteStore.from_url(own_sentinels.url, CONFIG) as store:
        bell = store.doorbell()
        assert bell.wait(10.0) == b""
        fail_over(own_sentinels)
        wait_until(lambda: bell.wait(0.1) == b"", description="it was subscribed anew")
        with RouteStore.from_url(own_sentinels.url, CONFIG) as other:
            wait_until(lambda: _register(other), description="somebody registers")
        wait_until(lambda: b"after" in (bell.wait(0.1) or b""), description="it rings")
        bell.close()


def _register(store: RouteStore) -> bool:
    return bool(store.register(broker("after"), []))
