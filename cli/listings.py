"""`topics`, `routes` and `brokers`: what the registry holds now, in RocketMQ's terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import click

from ..daemon.printing import iso
from ..registry import MASTER_ID, BrokerData, RouteStore, TopicKind, TopicRoute
from ..registry.acl import Role
from ..registry.plans.replicas import Replica, ReplicaState, roster
from . import records
from .known_names import cluster_names, topic_names
from .store_options import with_store
from .tables import show

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
    show(output, [{"topic": topic} for topic in found], ("topic",), ((topic,) for topic in found))


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topic_names)
@with_store(Role.READER)
def routes(store: RouteStore, output: str, names: tuple[str, ...]) -> None:
    """Show which live brokers hold the topics, with their queues and addresses.

    Exit status 1 when a topic has no route; the routes of the others are shown.
    """
    lookup = store.lookup(names)
    found = lookup.routes()
    if found or output != "table":
        columns = ("topic", "broker", "read queues", "write queues", "perm", "id", "address")
        rows = (row for route in found.values() for row in _route_rows(route))
        show(output, map(_route_data, found.values()), columns, rows)
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
        _print_all(store, output)
    else:
        _print_live(store, output)


def _print_live(store: RouteStore, output: str) -> None:
    found = store.brokers()
    rows = (
        (broker.cluster, broker.broker_name, str(broker_id), address, _may_be_written(broker))
        for broker in found
        for broker_id, address in sorted(broker.broker_addrs.items())
    )
    columns = ("cluster", "broker", "id", "address", _WRITE_PERMISSION)
    show(output, [_broker_data(broker) for broker in found], columns, rows)
    if output == "table":
        _print_hidden(store.run(roster(store.keys, since=False)).found)


def _may_be_written(broker: BrokerData) -> str:
    if broker.wiped:
        return "wiped"
    return "yes" if MASTER_ID in broker.broker_addrs else "no master"


def _print_hidden(entries: Iterable[Replica]) -> None:
    """Print the number of hidden replicas on standard error, so that the table is all on standard output."""
    count = {state: sum(entry.state is state for entry in entries) for state in ReplicaState}
    if not any(count.values()):
        click.echo("no broker was ever registered here: see --redis and --namespace", err=True)
    hidden = [f"{count[state]} {state}" for state in (ReplicaState.DEAD, ReplicaState.OUT) if count[state]]
    if hidden:
        click.echo(f"not shown: {', '.join(hidden)}; `brokers --all` lists them", err=True)


def _print_all(store: RouteStore, output: str) -> None:
    found = store.run(roster(store.keys))
    for error in found.corrupt:
        click.echo(f"corrupt: {error}", err=True)
    columns = ("cluster", "broker", "id", "address", "state", "since", "why", "lease", "topics", "zone")
    rows = map(_row, found.found)
    show(output, [_entry_data(entry) for entry in found.found], (*columns, _WRITE_PERMISSION), rows)


def _row(entry: Replica) -> tuple[str, ...]:
    is_live = entry.state is ReplicaState.LIVE
    return (
        entry.cluster or _UNKNOWN,
        entry.broker_name,
        str(entry.broker_id),
        entry.address or _UNKNOWN,
        entry.state,
        iso(entry.since_ms),
        "-" if is_live else entry.reason or _UNKNOWN,
        _lease(entry) if is_live else "none",
        str(entry.topics),
        entry.zone_name or ("-" if is_live else _UNKNOWN),
        "wiped" if entry.wiped else "yes",
    )


def _lease(entry: Replica) -> str:
    """Return the age of the lease, and the time until it ends."""
    left_ms, ttl_ms = entry.left_ms, entry.lease_ttl_ms
    if left_ms is None:
        return _UNKNOWN
    age = "" if ttl_ms is None else f"renewed {max(ttl_ms - left_ms, 0) / 1_000:.1f} s ago, "
    return f"{age}ends in {left_ms / 1_000:.1f} s"


def _entry_data(entry: Replica) -> records.ReplicaEntry:
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
