"""`brokers`: the live ones, or all that the registry knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import click

from ..registry import MASTER_ID, BrokerData, Role, RouteStore
from ..registry.plans import ReplicaState, RosterEntry, roster
from .on_store import with_store
from .printing import print_json, print_table
from .read import broker_data
from .times import iso

_UNKNOWN: Final = "unknown"
_WRITE_PERMISSION: Final = "write permission"


@click.command()
@click.option("--all", "-a", "everything", is_flag=True, help="Also those that are dead or were taken out.")
@with_store(Role.READER)
def brokers(store: RouteStore, output: str, *, everything: bool) -> None:
    """List the live brokers with the addresses of their live replicas; the one with id 0 is the master.

    With --all, every replica that was ever registered, until `forget` removes its broker. The state is
    `live`; `dead`: its lease has ended, or it was unregistered; or `out`: an operator has taken it out
    (`agent-ctl drain` or `pause`) until `agent-ctl resume`. `since` and `why` are unknown when the change
    stream does not reach so far back.
    """
    if everything:
        _print_all(store, output)
    else:
        _print_live(store, output)


def _print_live(store: RouteStore, output: str) -> None:
    found = store.brokers()
    if output == "json":
        print_json([broker_data(broker) for broker in found])
        return
    rows = (
        (broker.cluster, broker.broker_name, str(broker_id), address, _may_be_written(broker))
        for broker in found
        for broker_id, address in sorted(broker.broker_addrs.items())
    )
    print_table(("cluster", "broker", "id", "address", _WRITE_PERMISSION), rows)
    _say_hidden(store.run(roster(store.keys, since=False)).entries)


def _may_be_written(broker: BrokerData) -> str:
    if broker.wiped:
        return "wiped"
    return "yes" if MASTER_ID in broker.broker_addrs else "no master"


def _say_hidden(entries: Iterable[RosterEntry]) -> None:
    """Say how many are not shown, on standard error: what reads the table reads nothing else."""
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
    if output == "json":
        print_json([_entry_data(entry) for entry in found.entries])
        return
    columns = ("cluster", "broker", "id", "address", "state", "since", "why", "lease", "topics", "zone")
    print_table((*columns, _WRITE_PERMISSION), map(_row, found.entries))


def _row(entry: RosterEntry) -> tuple[str, ...]:
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


def _lease(entry: RosterEntry) -> str:
    """Return how old the lease is, and for how long it holds."""
    left_ms, ttl_ms = entry.lease_left_ms, entry.lease_ttl_ms
    if left_ms is None:
        return _UNKNOWN
    age = "" if ttl_ms is None else f"renewed {max(ttl_ms - left_ms, 0) / 1_000:.1f} s ago, "
    return f"{age}ends in {left_ms / 1_000:.1f} s"


def _entry_data(entry: RosterEntry) -> dict[str, Any]:
    return {
        "cluster": entry.cluster,
        "brokerName": entry.broker_name,
        "brokerId": entry.broker_id,
        "address": entry.address,
        "state": entry.state,
        "sinceMs": entry.since_ms,
        "reason": entry.reason,
        "leaseTtlMs": entry.lease_ttl_ms,
        "leaseLeftMs": entry.lease_left_ms,
        "topics": entry.topics,
        "zoneName": entry.zone_name,
        "writePermWiped": entry.wiped,
    }
