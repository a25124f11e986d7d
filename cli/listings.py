"""`topics`, `routes`, `brokers`, `clusters` and `leases`: what the registry holds now."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from ..daemon.printing import iso, print_records
from ..registry import MASTER_ID, BrokerData, RouteStore, TopicKind, TopicRoute
from ..registry.acl import Role
from ..registry.plans.replicas import Replica, ReplicaState, roster
from .known_names import cluster_names, topic_names
from .store_options import with_store
from .tables import Cell, print_table, show

if TYPE_CHECKING:
    from . import records

_UNKNOWN: Final = "unknown"
_WRITE_PERMISSION: Final = "write permission"


@click.command()
@click.option("--cluster", shell_complete=cluster_names, help="Only topics of this cluster's brokers.")
@click.option(
    "--kind",
    type=click.Choice([*TopicKind], case_sensitive=False),
    default=TopicKind.ALL,
    show_default=True,
    help="Only topics with these system flags.",
)
@with_store(Role.READER)
def topics(store: RouteStore, output: str, cluster: str | None, kind: str) -> None:
    """List the topics of the live brokers."""
    found = store.topics(cluster, TopicKind(kind))
    show(output, [{"topic": topic} for topic in found], {"topic": "topic"})


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topic_names)
@with_store(Role.READER)
def routes(store: RouteStore, output: str, names: tuple[str, ...]) -> None:
    """Show which live brokers hold the topics, with their queues and addresses.

    Exit status 1 when a topic has no route; the routes of the others are shown.
    """
    lookup = store.lookup(names)
    found = lookup.routes()
    if output != "table":
        print_records(output, map(_route_data, found.values()))
    elif found:
        columns = ("topic", "broker", "read queues", "write queues", "perm", "id", "address")
        print_table(columns, (row for route in found.values() for row in _route_rows(route)))
    problems = [str(error) for error in lookup.corrupt]
    problems += [f"no live broker holds {topic!r}" for topic in dict.fromkeys(names) if topic not in found]
    if problems:
        raise click.ClickException("; ".join(problems))


def _route_rows(route: TopicRoute) -> Iterator[tuple[str, ...]]:
    members = {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}
    for queues in route.queue_datas:
        for broker_id, address in sorted(members[queues.broker_name].items()):
            numbers = (queues.read_queue_nums, queues.write_queue_nums, queues.perm, broker_id)
            yield (route.topic, queues.broker_name, *map(str, numbers), address)


def _route_data(route: TopicRoute) -> records.Route:
    queue_datas: list[records.Queues] = [
        {
            "brokerName": queues.broker_name,
            "readQueueNums": queues.read_queue_nums,
            "writeQueueNums": queues.write_queue_nums,
            "perm": queues.perm,
            "topicSysFlag": queues.topic_sys_flag,
        }
        for queues in route.queue_datas
    ]
    broker_datas = [_broker_data(broker) for broker in route.broker_datas]
    return {"topic": route.topic, "queueDatas": queue_datas, "brokerDatas": broker_datas}


def _broker_data(broker: BrokerData) -> records.BrokerAddresses:
    addresses = {str(broker_id): address for broker_id, address in sorted(broker.broker_addrs.items())}
    data: records.BrokerAddresses = {
        "cluster": broker.cluster,
        "brokerName": broker.broker_name,
        "brokerAddrs": addresses,
    }
    if broker.zone_name:
        data["zoneName"] = broker.zone_name
    if broker.enable_acting_master:
        data["enableActingMaster"] = True
    if broker.wiped:
        data["writePermWiped"] = True
    return data


@click.command()
@click.option("--all", "-a", "everything", is_flag=True, help="Also list those that are dead or taken out.")
@with_store(Role.READER)
def brokers(store: RouteStore, output: str, *, everything: bool) -> None:
    """List the live brokers with the addresses of their live replicas; the one with id 0 is the master.

    With --all, list every replica that was ever registered, until `forget` removes its broker. Its state is
    `live`; `dead`: its lease has ended, or it was unregistered; or `out`: an operator took it out
    (`agent-ctl drain` or `pause`) until `agent-ctl resume`. `since` and `why` are unknown when the change
    stream does not reach that far back.
    """
    if everything:
        show(output, map(_entry, _replicas(store)), _REPLICA)
        return
    found = store.brokers()
    if output != "table":
        print_records(output, map(_broker_data, found))
        return
    rows = (
        (broker.cluster, broker.broker_name, str(broker_id), address, _may_be_written(broker))
        for broker in found
        for broker_id, address in sorted(broker.broker_addrs.items())
    )
    print_table(("cluster", "broker", "id", "address", _WRITE_PERMISSION), rows)
    _print_hidden(store.run(roster(store.keys, since=False)).found)


def _may_be_written(broker: BrokerData) -> str:
    if broker.wiped:
        return "wiped"
    return "yes" if MASTER_ID in broker.broker_addrs else "no master"


def _print_hidden(entries: Iterable[Replica]) -> None:
    """Print the number of hidden replicas on standard error, so that the table is all on standard output."""
    count = Counter(entry.state for entry in entries)
    if not count:
        click.echo("no broker was ever registered here: see --redis and --namespace", err=True)
    hidden = [f"{count[state]} {state}" for state in (ReplicaState.DEAD, ReplicaState.OUT) if count[state]]
    if hidden:
        click.echo(f"not shown: {', '.join(hidden)}; `brokers --all` lists them", err=True)


def _replicas(store: RouteStore, *, since: bool = True) -> list[Replica]:
    """Return all replicas; prints what is corrupt."""
    found = store.run(roster(store.keys, since=since))
    for error in found.corrupt:
        click.echo(f"corrupt: {error}", err=True)
    return found.found


def _entry(entry: Replica) -> records.ReplicaEntry:
    return {
        "cluster": entry.cluster,
        "brokerName": entry.broker_name,
        "brokerId": entry.broker_id,
        "address": entry.address,
        "state": entry.state,
        "sinceMs": entry.since_ms,
        "reason": entry.reason,
        "leaseTtlMs": entry.lease_ttl_ms,
        "leaseLeftMs": entry.left_ms,
        "topics": entry.topics,
        "zoneName": entry.zone_name,
        "writePermWiped": entry.wiped,
    }


def _lease_age(entry: records.ReplicaEntry) -> str:
    """Return the age of the lease, and the time until it ends."""
    left_ms, ttl_ms = entry["leaseLeftMs"], entry["leaseTtlMs"]
    if entry["state"] is not ReplicaState.LIVE:
        return "none"
    if left_ms is None:
        return _UNKNOWN
    age = "" if ttl_ms is None else f"renewed {_seconds(max(ttl_ms - left_ms, 0))} ago, "
    return f"{age}ends in {_seconds(left_ms)}"


def _seconds(ms: int | None) -> str:
    return _UNKNOWN if ms is None else f"{ms / 1_000:.1f} s"


_REPLICA: Final[Mapping[str, Cell]] = {
    "cluster": lambda entry: entry["cluster"] or _UNKNOWN,
    "broker": "brokerName",
    "id": "brokerId",
    "address": lambda entry: entry["address"] or _UNKNOWN,
    "state": "state",
    "since": lambda entry: iso(entry["sinceMs"]),
    "why": lambda entry: "-" if entry["state"] is ReplicaState.LIVE else entry["reason"] or _UNKNOWN,
    "lease": _lease_age,
    "topics": "topics",
    "zone": lambda entry: entry["zoneName"] or ("-" if entry["state"] is ReplicaState.LIVE else _UNKNOWN),
    _WRITE_PERMISSION: lambda entry: "wiped" if entry["writePermWiped"] else "yes",
}


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
    show(output, found, _CLUSTER)


def _cluster(name: str, entries: Sequence[Replica], topics: int) -> records.Cluster:
    count = Counter(entry.state for entry in entries)
    return {
        "cluster": name,
        "brokerNames": sorted({entry.broker_name for entry in entries}),
        "liveReplicas": count[ReplicaState.LIVE],
        "deadReplicas": count[ReplicaState.DEAD],
        "withdrawnReplicas": count[ReplicaState.OUT],
        "withoutMaster": headless(entries),
        "writePermWiped": sorted({entry.broker_name for entry in entries if entry.wiped}),
        "topics": topics,
    }


def headless(replicas: Iterable[Replica]) -> list[str]:
    """Return the brokers of which only slaves live, by name."""
    live = defaultdict[str, set[int]](set)
    for entry in replicas:
        if entry.state is ReplicaState.LIVE:
            live[entry.broker_name].add(entry.broker_id)
    return sorted(name for name, ids in live.items() if MASTER_ID not in ids)


_CLUSTER: Final[Mapping[str, Cell]] = {
    "cluster": lambda entry: entry["cluster"] or _UNKNOWN,
    "brokers": lambda found: len(found["brokerNames"]),
    "live": "liveReplicas",
    "dead": "deadReplicas",
    "out": "withdrawnReplicas",
    "topics": "topics",
    "without master": "withoutMaster",
    "wiped": "writePermWiped",
}


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
        for entry in _replicas(store)
        if entry.state is ReplicaState.LIVE and cluster in (None, entry.cluster)
    ]
    entries.sort(key=lambda entry: (entry.left_ms is None, entry.left_ms, entry.broker_name, entry.broker_id))
    show(output, map(_lease, entries), _LEASE)


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


_LEASE: Final[Mapping[str, Cell]] = {
    "cluster": "cluster",
    "broker": "brokerName",
    "id": "brokerId",
    "address": "address",
    "ends in": lambda lease: _seconds(lease["leaseLeftMs"]),
    "ends at": lambda lease: iso(lease["leaseEndsMs"]),
    "lasts": lambda lease: _seconds(lease["leaseTtlMs"]),
    "holder": "holder",
    "epoch": lambda lease: _UNKNOWN if lease["epoch"] is None else lease["epoch"],
}
