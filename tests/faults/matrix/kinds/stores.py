"""Faults of the store: killed with and without its data, paused, emptied, full, failed over too early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Final

import redis

from sharedroutes.registry import EmbeddedServer, RegistryConfig, RegistryError
from tests.faults.checker.history import now_us
from tests.faults.matrix.auditor import KEYS
from tests.faults.matrix.fleet import HAS_AGENT, QUEUES
from tests.faults.matrix.kinds.kind import (
    LONG_S,
    SHORT_S,
    UNTIL_TOLD_S,
    WHOLE_STORE,
    Effect,
    Site,
    connections_of,
    fault,
)
from tests.faults.matrix.kinds.seconds import a_slave
from tests.faults.matrix.settings import ALONE, BOUNDS, CALL_S, HEARTBEAT_S, JITTER_S, LEASE_S, RECONNECT_S
from tests.faults.matrix.sockets import made_by
from tests.faults.matrix.stores import LastingServer, Store
from tests.proxy import FaultyProxy

_UNTIL_LOOKED_S: Final = (JITTER_S + 0.5, JITTER_S + 1.5)
"""Longer than it takes until every client has read everything again."""

_POOL: Final = RegistryConfig().max_connections
_SWITCHED_S: Final = 10.0
_SEEN_S: Final = 2 * HEARTBEAT_S + 3 * CALL_S
"""Longer than until an agent has sent the new primary a heartbeat; each tenth looks for topics besides."""


def _has_replicas(store: Store) -> bool:
    return store.can_fail_over


def is_alone(store: Store) -> bool:
    """Whether a store has no server that could take over."""
    return not store.can_fail_over


def _is_aof(store: Store) -> bool:
    return store.keeps_data


def _primary(site: Site) -> EmbeddedServer:
    found: list[EmbeddedServer] = []

    def is_there() -> bool:
        server = site.store.primary()
        if server is not None:
            found.append(server)
        return server is not None

    site.wait(is_there, "there is a primary")
    return found[-1]


def _killed(
    site: Site, server: EmbeddedServer, bounds_s: tuple[float, float], *, loses: bool
) -> Iterator[Effect]:
    lasts_s = site.lasts(bounds_s)
    site.store.kill(server)
    try:
        yield Effect(f"the server at {server.port}", lasts_s, WHOLE_STORE, loses=loses)
    finally:
        site.store.revive(server)


@fault("store")
def kill_store_briefly(site: Site) -> Iterator[Effect]:
    """The primary is killed and started again at once, with what it keeps."""
    return _killed(site, _primary(site), (0.1, 0.5), loses=not site.store.keeps_data)


@fault("store")
def kill_store(site: Site) -> Iterator[Effect]:
    """The primary is away for longer than the leases; where there are replicas, one takes over."""
    return _killed(site, _primary(site), LONG_S, loses=not site.store.keeps_data)


@fault("store", on=_is_aof)
def lose_data(site: Site) -> Iterator[Effect]:
    """The server is killed, and its file is gone when it comes back."""
    server = _primary(site)
    site.store.kill(server)
    try:
        yield Effect("the primary", site.lasts(SHORT_S), WHOLE_STORE, loses=True)
    finally:
        if isinstance(server, LastingServer):
            server.wipe()
        site.store.revive(server)


def paused(site: Site, bounds_s: tuple[float, float]) -> Iterator[Effect]:
    """Let the primary stand still for a time."""
    server, lasts_s = _primary(site), site.lasts(bounds_s)
    server.pause()
    site.store.paused.add(server)
    try:
        yield Effect("the primary", lasts_s, WHOLE_STORE, loses=site.store.can_fail_over)
    finally:
        site.store.paused.discard(server)
        server.resume()


@fault("store", "processes")
def begin_without_store(site: Site) -> Iterator[Effect]:
    """A broker is wiped, one ends, with a slave or without; a client begins, and the store stands still."""
    with ExitStack() as stack:
        slave_us = now_us() if site.rng.choice((False, True)) else 0
        if slave_us:
            stack.enter_context(a_slave(site))
        yield from _begin_without_store(site, slave_us)


def _begin_without_store(site: Site, slave_us: int) -> Iterator[Effect]:
    """Do so; `slave_us`: since when there may be a slave, 0 = there is none."""
    fleet = site.fleet
    client, broker = fleet.clients[site.rng.choice(sorted(fleet.clients))], fleet.brokers["broker-a"]
    site.let_pass(BOUNDS.arrival_ms / 1_000 + 0.5, "clients know of what was before")
    with suppress(RegistryError), site.registry() as registry:
        registry.admin.wipe_write_perm("broker-c")
    site.let_pass(BOUNDS.saved_ms / 1_000 + 0.5, "their snapshots say who is wiped")
    takes_us = now_us()
    broker.kill()
    try:
        site.wait_at_most(
            BOUNDS.saved_ms / 1_000 + 0.2, lambda: not fleet.saved(client.name, broker.name), "a snapshot"
        )
        if slave_us:
            site.let_pass(BOUNDS.saved_ms / 1_000 + 0.5, "snapshots say who stands in")
        client.kill()
        with contextmanager(paused)(site, (1.5, 2.0)) as effect:
            site.start(client)
            began_us = slave_us or takes_us
            yield replace(effect, takes=(broker.name,), began_us=began_us, takes_us=takes_us)
    finally:
        site.start(broker)
        with suppress(RegistryError), site.registry() as registry:
            registry.admin.add_write_perm("broker-c")


@fault("processes", "store")
def begin_after_loss(site: Site) -> Iterator[Effect]:
    """Clients are killed and the store emptied; the clients begin again before a broker is back."""
    fleet, began_us = site.fleet, now_us()
    clients, agent = [*fleet.clients.values()], fleet.agents["agent-a"]

    def saved() -> bool:
        return all(fleet.saved(client.name, "broker-a") for client in clients)

    site.wait_at_most(BOUNDS.saved_ms / 1_000, saved, "snapshots")
    for client in clients:
        client.kill()
    agent.pause()
    try:
        effect = _emptied_but_for_others(site)
        site.start(*clients)
        disturbs = (*effect.disturbs, *fleet.clients, agent.name)
        yield replace(effect, lasts_s=site.lasts(_UNTIL_LOOKED_S), disturbs=disturbs, began_us=began_us)
    finally:
        agent.resume()
        site.start(*clients)


@fault("processes", "network", "store")
def ask_after_loss(site: Site) -> Iterator[Effect]:
    """The store is emptied while a client does not reach it; its callers are answered before it follows."""
    fleet, began_us = site.fleet, now_us()
    client, agent = fleet.clients["client-asyncio"], fleet.agents["agent-a"]
    agent.pause()
    try:
        with site.store.network(FaultyProxy.refusing, connections_of(client)):
            effect = _emptied_but_for_others(site)
        disturbs = (*effect.disturbs, client.name, agent.name)
        yield replace(effect, lasts_s=site.lasts(_UNTIL_LOOKED_S), disturbs=disturbs, began_us=began_us)
    finally:
        agent.resume()


def _emptied_but_for_others(site: Site) -> Effect:
    """Empty the store, and wait until all brokers but broker-a are back, whose agent stands still."""
    before = {name: site.auditor.lease(name) for name in site.fleet.brokers if name != "broker-a"}
    effect = _ordered(site, "FLUSHALL", loses=True)

    def are_back() -> bool:
        return all(site.auditor.lease(name) not in (None, lease) for name, lease in before.items())

    site.wait_at_most(2 * LEASE_S, are_back, "the others are back")
    return effect


@fault("store")
def pause_store_briefly(site: Site) -> Iterator[Effect]:
    """The primary stands still for less than a lease."""
    return paused(site, (0.2, 0.8))


@fault("store")
def pause_store(site: Site) -> Iterator[Effect]:
    """The primary stands still for longer than a lease, and is perhaps replaced meanwhile."""
    return paused(site, LONG_S)


@fault("store", on=_has_replicas)
def kill_replica(site: Site) -> Iterator[Effect]:
    """A server that is no primary is killed, and started again."""
    primary = _primary(site)
    others = [server for server in site.store.servers if server is not primary]
    return (yield from _killed(site, site.rng.choice(others), LONG_S, loses=False))


def _has_helpers(store: Store) -> bool:
    return bool(store.helpers)


@fault("store", on=_has_helpers)
def kill_sentinel(site: Site) -> Iterator[Effect]:
    """A Sentinel is killed, and started again."""
    return _killed(site, site.rng.choice(site.store.helpers), LONG_S, loses=False)


@fault("store", on=_has_replicas)
def lose_writes(site: Site) -> Iterator[Effect]:
    """A replica takes over, asked for or not, that lacks the last writes, by which a topic had come back."""
    primary, lasts_s, began_us = _primary(site), site.lasts(LONG_S), now_us()
    replicas = [server.pid for server in site.store.servers if server is not primary and server.running]
    whose = made_by(lambda: replicas)
    site.fleet.write_topics(without=ALONE)
    _wait_for(site, ALONE, 0)
    with site.store.network(FaultyProxy.hanging, whose):
        site.fleet.write_topics()
        _wait_for(site, ALONE, 1)
        if site.rng.choice((False, True)):  # then leases go on, and tell nobody that something was lost
            _switch(site, primary)
        else:
            site.store.kill(primary)
        site.store.reset(whose)
    try:
        effect = Effect("the primary", lasts_s, WHOLE_STORE, removes=(ALONE,), loses=True, began_us=began_us)
        told, is_there = "a heartbeat sees what a failover has lost", _has(site, ALONE, 1)
        details = site.promised(told, _SEEN_S, is_there) if primary.running else {}
        yield replace(effect, details=details)
    finally:
        if not primary.running:
            site.store.revive(primary)


def _wait_for(site: Site, topic: str, count: int) -> None:
    """See a topic in the store, or see it gone, unless another fault keeps its agent from that."""
    site.wait_at_most(LEASE_S, _has(site, topic, count), "a topic is written")


def _has(site: Site, topic: str, count: int) -> Callable[[], bool]:
    return lambda: site.auditor.at_primary(("EXISTS", KEYS.topic(topic))) == [count]


def _switch(site: Site, primary: EmbeddedServer) -> None:
    site.store.switch()
    site.wait_at_most(_SWITCHED_S, lambda: site.store.primary() not in (None, primary), "a replica took over")


@fault("store", on=_has_replicas)
def switch_primary(site: Site) -> Iterator[Effect]:
    """An operator has a replica take over from a primary that works: no lease ends by that."""
    began_us = now_us()
    _switch(site, _primary(site))
    yield Effect("the primary", site.lasts(LONG_S), WHOLE_STORE, loses=True, began_us=began_us)


def _ordered(site: Site, *command: str | int, loses: bool = False) -> Effect:
    site.auditor.at_primary(command)
    return Effect(" ".join(map(str, command[:2])), 0.2, WHOLE_STORE, loses=loses)


@fault("store")
def script_flush(site: Site) -> Iterator[Effect]:
    """The server forgets all scripts."""
    yield _ordered(site, "SCRIPT", "FLUSH")


@fault("store")
def client_kill(site: Site) -> Iterator[Effect]:
    """The server ends all connections, and then those of subscribers."""
    for kind in ("normal", "pubsub"):
        with suppress(redis.RedisError, OSError):
            site.store.admin(_primary(site)).execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    yield Effect("CLIENT KILL", 0.2, WHOLE_STORE)


@fault("store", on=is_alone)  # a Cluster has its subscribers elsewhere
def bells_cut(site: Site) -> Iterator[Effect]:
    """The server ends all subscriptions, twice as often as a pool has connections."""
    admin, began_us = site.store.admin(_primary(site)), now_us()
    before = site.listeners()
    for _ in range(2 * _POOL):
        with suppress(redis.RedisError, OSError):
            admin.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        site.wait_at_most(RECONNECT_S, lambda: site.listeners() >= before, "all listen again")
    yield Effect("CLIENT KILL TYPE pubsub", 0.2, WHOLE_STORE, began_us=began_us)


@fault("processes")
def flushall(site: Site) -> Iterator[Effect]:
    """The store is emptied as a broker at fronts changes a topic; a slave perhaps is back before all else."""
    agent = site.fleet.agents["agent-a"]
    with ExitStack() as stack:
        if site.rng.choice((False, True)):
            stack.enter_context(a_slave(site))
        agent.pause()  # it would write its broker anew at once
        site.change_topic(2 * QUEUES)
        began_us = now_us()  # what is restored from then on is whole
        try:
            effect = _ordered(site, "FLUSHALL", loses=True)
            if site.rng.choice((False, True)):  # before a front has looked what the store has lost
                site.change_topic(3 * QUEUES)
            yield replace(effect, lasts_s=site.lasts(_UNTIL_LOOKED_S), began_us=began_us)
        finally:
            agent.resume()
            site.change_topic(QUEUES)


@fault("store")
def trim_stream(site: Site) -> Iterator[Effect]:
    """The change stream is trimmed to nothing, and a change follows at once."""
    effect = _ordered(site, "XTRIM", KEYS.changes, "MAXLEN", 0, loses=True)
    site.fleet.write_topics("extra-trim")
    _wait_for(site, "extra-trim", 1)
    try:
        yield effect
    finally:
        site.fleet.write_topics()


@fault("store", "processes", "network")  # so that not all brokers are out
def hosts_in_turn(site: Site) -> Iterator[Effect]:
    """The stream is trimmed, and all is read again; then two hosts die in turn: clients let go of each."""
    fleet, began_us = site.fleet, now_us()
    effect = _ordered(site, "XTRIM", KEYS.changes, "MAXLEN", 0, loses=True)
    fleet.write_topics("extra-turn")
    _wait_for(site, "extra-turn", 1)
    site.let_pass((BOUNDS.arrival_ms + BOUNDS.reread_ms) / 1_000, "clients have read everything again")
    hosts = {broker: (fleet.agents[f"agent-{broker[-1]}"], fleet.brokers[broker]) for broker in HAS_AGENT}
    # What leaves a topic without a route is looked for twice.
    within_s, takes_us = LEASE_S + BOUNDS.stale_ms / 1_000 + 1.0, now_us()

    def are_let_go() -> bool:
        return not any(fleet.says(client, of) for client in fleet.clients for of in hosts if of not in alive)

    alive = {*hosts}
    try:
        for broker in site.rng.sample(sorted(hosts), len(hosts)):
            for program in hosts[broker]:
                program.kill()
            alive.remove(broker)
            told = f"clients let go of {broker}"
            promised = site.promised(told, within_s, are_let_go, *fleet.clients.values())
        disturbs = (*effect.disturbs, *(program.name for host in hosts.values() for program in host))
        lasts_s = site.lasts(SHORT_S)
        effect = replace(effect, lasts_s=lasts_s, disturbs=disturbs, takes=tuple(hosts), details=promised)
        yield replace(effect, began_us=began_us, takes_us=takes_us)
    finally:
        fleet.write_topics()
        site.start(*(program for host in hosts.values() for program in host))


@fault("store")
def delete_stream(site: Site) -> Iterator[Effect]:
    """The change stream is deleted."""
    yield _ordered(site, "DEL", KEYS.changes, loses=True)


@fault("store", "processes")
def full(site: Site) -> Iterator[Effect]:
    """The server has reached its maxmemory, and refuses to write anything new, and a host dies."""
    server, host = _primary(site), [site.fleet.agents["agent-a"], site.fleet.brokers["broker-a"]]
    names = tuple(program.name for program in host)
    site.store.admin(server).config_set("maxmemory", "1mb")
    for program in host:
        program.kill()
    try:
        yield Effect("maxmemory", site.lasts(UNTIL_TOLD_S), names, ("broker-a",))
    finally:
        with suppress(redis.RedisError, OSError):
            site.store.admin(server).config_set("maxmemory", "0")
        site.start(*host)
