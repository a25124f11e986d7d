"""`clusters` and `leases`: all replicas, summed up by cluster, and the leases by which they live."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import click

from ..daemon.printing import iso
from ..registry import MASTER_ID, RouteStore
from ..registry.acl import Role
from ..registry.plans.replicas import Replica, ReplicaState, roster
from . import records
from .known_names import cluster_names
from .store_options import with_store
from .tables import show


@click.command()
@with_store(Role.READER)
def clusters(store: RouteStore, output: str) -> None:
    """List the clusters with their brokers, and what is out of order in each.

    A broker is without a master when only slaves of it live: then nobody can write to it.
    """
    by_cluster = defaultdict[str, list[Replica]](list)
    for entry in _replicas(store, since=False):
        by_cluster[entry.cluster].append(entry)
    found = [
        _cluster(name, by_cluster[name], len(store.topics(name)) if name else 0)
        for name in sorted(by_cluster)
    ]
    columns = ("cluster", "brokers", "live", "dead", "out", "topics", "without master", "wiped")
    show(output, found, columns, map(_cluster_row, found))


def _replicas(store: RouteStore, *, since: bool) -> list[Replica]:
    """Return all replicas; prints what is corrupt."""
    found = store.run(roster(store.keys, since=since))
    for error in found.corrupt:
        click.echo(f"corrupt: {error}", err=True)
    return found.found


def _cluster(name: str, entries: Iterable[Replica], topics: int) -> records.Cluster:
    by_broker = defaultdict[str, list[Replica]](list)
    for entry in entries:
        by_broker[entry.broker_name].append(entry)
    states = [entry.state for entries in by_broker.values() for entry in entries]
    return {
        "cluster": name,
        "brokerNames": sorted(by_broker),
        "liveReplicas": states.count(ReplicaState.LIVE),
        "deadReplicas": states.count(ReplicaState.DEAD),
        "withdrawnReplicas": states.count(ReplicaState.OUT),
        "withoutMaster": sorted(broker for broker, entries in by_broker.items() if is_headless(entries)),
        "writePermWiped": sorted(broker for broker, entries in by_broker.items() if entries[0].wiped),
        "topics": topics,
    }


def is_headless(entries: Iterable[Replica]) -> bool:
    """Whether of one broker only slaves live."""
    live = {entry.broker_id for entry in entries if entry.state is ReplicaState.LIVE}
    return bool(live) and MASTER_ID not in live


def _cluster_row(found: records.Cluster) -> tuple[str, ...]:
    return (
        found["cluster"] or "unknown",
        str(len(found["brokerNames"])),
        str(found["liveReplicas"]),
        str(found["deadReplicas"]),
        str(found["withdrawnReplicas"]),
        str(found["topics"]),
        " ".join(found["withoutMaster"]) or "-",
        " ".join(found["writePermWiped"]) or "-",
    )


@click.command()
@click.option("--cluster", shell_complete=cluster_names, help="Only of this cluster's brokers.")
@with_store(Role.READER)
def leases(store: RouteStore, output: str, cluster: str | None) -> None:
    """List the leases that run, the one that ends first at the top.

    The holder is an agent (or a program that registers its broker itself), or the fronts, to which the broker
    is connected. `lasts` is unknown when the change stream does not reach back to the registration.
    """
    entries = [
        entry
        for entry in _replicas(store, since=True)
        if entry.state is ReplicaState.LIVE and cluster in (None, entry.cluster)
    ]
    entries.sort(key=lambda entry: (entry.left_ms is None, entry.left_ms, entry.broker_name, entry.broker_id))
    columns = ("cluster", "broker", "id", "address", "ends in", "ends at", "lasts", "holder", "epoch")
    show(output, map(_lease, entries), columns, map(_lease_row, entries))


def _lease(entry: Replica) -> records.Lease:
    return {
        "cluster": entry.cluster,
        "brokerName": entry.broker_name,
        "brokerId": entry.broker_id,
        "address": entry.address,
        "epoch": entry.epoch,
        "holder": "fronts" if entry.is_joint else "agent",
        "leaseTtlMs": entry.lease_ttl_ms,
        "leaseLeftMs": entry.left_ms,
        "leaseEndsMs": entry.ends_ms,
    }


def _lease_row(entry: Replica) -> tuple[str, ...]:
    return (
        entry.cluster,
        entry.broker_name,
        str(entry.broker_id),
        entry.address,
        _seconds(entry.left_ms),
        iso(entry.ends_ms),
        _seconds(entry.lease_ttl_ms),
        "fronts" if entry.is_joint else "agent",
        "unknown" if entry.epoch is None else str(entry.epoch),
    )


def _seconds(ms: int | None) -> str:
    return "unknown" if ms is None else f"{ms / 1_000:.1f} s"
