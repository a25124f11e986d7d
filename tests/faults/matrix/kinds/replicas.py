"""Faults of one replica, while a client reads at replicas: it is behind, or stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final, cast

from sharedroutes.registry import EmbeddedServer
from tests.faults.checker.history import now_us
from tests.faults.matrix.kinds.kind import LONG_S, Effect, Site, connections_of, fault
from tests.faults.matrix.settings import BOUNDS, LEASE_S, RECONNECT_S, REFRESH_S
from tests.faults.matrix.sockets import made_by
from tests.faults.matrix.stores import Store
from tests.faults.victims import Program
from tests.proxy import FaultyProxy, Whose

_TWO: Final = 2
_NOBODY: Final = Effect("nobody reads at a replica", 0.1)
_WHILE_LEASED_S: Final = (LEASE_S - 1.0, LEASE_S)
_DRIP_S: Final = 0.002
_LAGS_S: Final = 2.0
_LEAVES_S: Final = 1.0 + 2 * RECONNECT_S + BOUNDS.stale_ms / 1_000
"""It waits a second for who is behind, and asks the primary, and that again, within `reconnect_s`."""

_UNNAMED_S: Final = 7.0
"""Longer than until a client asks a silent server what it is; shorter than until Sentinels mend it."""

_FALLS_BACK_S: Final = 10.0
_BACK_S: Final = 30.0 + REFRESH_S + BOUNDS.stale_ms / 1_000
"""Up to 30 s a client stays at the primary; then it reads, and says so a second later."""


def _has_two_replicas(store: Store) -> bool:
    return store.replicas >= _TWO


def _reader(site: Site) -> Program:
    return site.fleet.clients["client-asyncio"]


def _replicas(site: Site) -> tuple[EmbeddedServer, EmbeddedServer] | None:
    """Return the replica at which the client reads, and another one; None = it reads at the primary."""
    primary, reads_at = site.store.primary(), site.fleet.reads_at(_reader(site).name)
    others = [server for server in site.store.living() if server not in (primary, reads_at)]
    if primary is None or reads_at is None or reads_at is primary or not others:
        return None
    return reads_at, others[0]


def _link_of(server: EmbeddedServer) -> Whose:
    """Return what says which connections a server has made: the one by which it hears its primary."""
    return made_by(lambda: [server.pid] if server.running else [])


@fault("store", on=_has_two_replicas)
def replica_behind(site: Site) -> Iterator[Effect]:
    """A client loses its replica while the other one, which hears late or nothing, knows not of an end."""
    found = _replicas(site)
    if found is None:
        yield _NOBODY
        return
    (reads_at, other), broker = found, site.fleet.brokers["broker-a"]
    client, primary = _reader(site), site.store.primary()
    how = site.rng.choice((FaultyProxy.hanging, lambda proxy: proxy.dripping(_DRIP_S)))
    with site.store.network(how, _link_of(other)):
        site.let_pass(_LAGS_S, "it lags by more than it catches up with soon")
        broker.kill()
        site.wait_at_most(
            LEASE_S, lambda: not site.fleet.says(client.name, broker.name), "the client knows of an end"
        )
        with site.store.network(FaultyProxy.refusing, connections_of(client), reads_at):
            promised = site.promised(
                "a client leaves a replica that is behind",
                _LEAVES_S,
                lambda: site.fleet.reads_at(client.name) is primary,
                client,
            )
            yield Effect(
                f"the server at {other.port}",
                site.lasts(_WHILE_LEASED_S),
                (client.name, broker.name),
                (broker.name,),
                details=promised,
            )
    site.start(broker)


@fault("store", on=_has_two_replicas)
def replica_stands_still(site: Site) -> Iterator[Effect]:
    """The replica at which a client reads hears nothing of its primary, and keeps the connection to it."""
    found = _replicas(site)
    if found is None:
        yield _NOBODY
        return
    reads_at, _ = found
    with site.store.network(FaultyProxy.hanging, _link_of(reads_at)):
        yield Effect(f"the server at {reads_at.port}", site.lasts(LONG_S))


@fault("store", "processes", "network", on=_has_two_replicas)
def replica_promoted(site: Site) -> Iterator[Effect]:
    """The replica at which a client reads is told to be a primary, which Sentinels do not call so."""
    found, client = _replicas(site), _reader(site)
    if found is None:
        yield _NOBODY
        return
    (reads_at, _), began_us = found, now_us()
    admin = site.store.admin(reads_at)
    _, host, port, *_ = cast(list[bytes | int], admin.execute_command("ROLE"))
    admin.execute_command("REPLICAOF", "NO", "ONE")
    try:
        promised = site.promised(
            "a client leaves a primary that nobody names",
            _UNNAMED_S,
            lambda: site.fleet.reads_at(client.name) is not reads_at,
            client,
        )
        yield Effect(
            f"the server at {reads_at.port}", 0.2, (client.name,), details=promised, began_us=began_us
        )
    finally:
        admin.execute_command("REPLICAOF", host, port)


@fault("store", "processes", "network", on=_has_two_replicas)
def replicas_cut(site: Site) -> Iterator[Effect]:
    """A client reaches no replica for a moment: it reads at the primary, and later at a replica again."""
    client, primary = _reader(site), site.store.primary()
    whose, replicas = connections_of(client), [of for of in site.store.living() if of is not primary]

    def is_at_replica() -> bool:
        return site.fleet.reads_at(client.name) in replicas

    with ExitStack() as stack:
        for server in replicas:
            stack.enter_context(site.store.network(FaultyProxy.refusing, whose, server))
        site.wait_at_most(_FALLS_BACK_S, lambda: not is_at_replica(), "a client reads at the primary")
    promised = site.promised("a client reads at a replica again", _BACK_S, is_at_replica, client)
    yield Effect(client.name, 0.2, (client.name,), details=promised)
