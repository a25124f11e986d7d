"""Checks of the registry: differences from its design, brokers that are not in order, hints, the prober."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from ...daemon.printing import iso
from ...registry.model import EXPIRED
from ...registry.plans.repair.differences import Difference, DifferenceKind
from ...registry.plans.replicas import Replica, ReplicaState
from ...registry.wording import some
from ..listings import headless
from .finding import MOST_NAMES, Finding, Level, fine, unknown
from .snapshot import Snapshot, Table, Unknown

_HARMLESS: Final = frozenset(
    (
        DifferenceKind.UNKNOWN_KEY,
        DifferenceKind.FIELD_UNKNOWN,
        DifferenceKind.SCHEMA,
        DifferenceKind.TOPIC_GONE,
        DifferenceKind.BROKER_GONE,
        DifferenceKind.NAMESPACE_UNLISTED,
        DifferenceKind.TOPIC_UNLISTED,
        DifferenceKind.BROKER_UNLISTED,
    )
)
"""Differences that keep no client from a right route."""


def check_registry(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what is to be said of the registry."""
    yield _verified(snapshot.differences, snapshot.namespace)
    table = snapshot.table
    if isinstance(table, Unknown):
        yield Finding(
            "brokers",
            Level.WARNING,
            f"not looked at: {table.why}",
            "nobody knows whether they live",
            "mend the store, or use a Redis user who may read this registry (`sharedroutes acl admin`)",
        )
        return
    yield from _brokers(table.replicas)
    if not table.replicas:
        yield Finding(
            "brokers",
            Level.WARNING,
            f"none was ever registered in the registry {snapshot.namespace!r}",
            "a wrong URL or a wrong name of the registry looks the same",
            "see --redis, --namespace and --profile; else start an agent, or a broker at a front",
        )
    yield _orphans(table, snapshot.differences)
    yield _hints(table)
    yield _prober(table)


def _verified(found: tuple[Difference, ...] | Unknown, namespace: str) -> Finding:
    if isinstance(found, Unknown):
        return unknown("verify", found.why)
    if not found:
        return fine("verify", "tables, routes and indexes agree")
    counts = Counter(one.kind for one in found)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    worst = next((one for one in found if one.kind not in _HARMLESS), found[0])
    is_harmless = worst.kind in _HARMLESS
    return Finding(
        "verify",
        Level.WARNING if is_harmless else Level.ERROR,
        f"{kinds}; {worst.kind}: {worst}",
        "a listing leaves something out, or holds too much"
        if is_harmless
        else "clients may get a wrong route, or none",
        f"`sharedroutes verify --namespace {namespace}` shows all, `rebuild` mends what can be mended",
    )


def _brokers(replicas: Sequence[Replica]) -> Iterator[Finding]:
    groups = defaultdict[str, list[Replica]](list)
    for entry in replicas:
        groups[entry.broker_name].append(entry)
    yield _down(groups)
    yield _replicas_down(groups)
    out = [_since(entry) for entry in replicas if entry.state is ReplicaState.OUT]
    yield _listed(
        ("withdrawn", "out by an operator's drain or pause"),
        out,
        "clients do not find them until somebody brings them back",
        "`sharedroutes agent-ctl resume` at their agents, or `sharedroutes forget` what is gone",
    )
    yield _listed(
        ("wiped", "without write permission, taken away by an operator"),
        [name for name, entries in groups.items() if entries[0].wiped],
        "producers do not send to them, also after a restart",
        "when the work is done, `agent-ctl resume` at an agent that drained, else `sharedroutes lift`",
    )
    yield _listed(
        ("without-master", "only slaves live"),
        headless(replicas),
        "nothing can be written to them",
        "start the master, or let a controller elect one",
    )


def _down(groups: dict[str, list[Replica]]) -> Finding:
    dead = {
        name: entries
        for name, entries in groups.items()
        if all(entry.state is ReplicaState.DEAD for entry in entries)
    }
    return _listed(
        ("brokers", "no replica lives"),
        [_since(entries[0]) for entries in dead.values()],
        "their topics have fewer brokers, or none",
        "start them, or `sharedroutes forget` those that will not come back",
    )


def _replicas_down(groups: dict[str, list[Replica]]) -> Finding:
    """Return what to say of replicas that were lost while others of their broker live."""
    lost = [
        _since(entry)
        for entries in groups.values()
        for entry in entries
        if entry.state is ReplicaState.DEAD
        and entry.reason == EXPIRED
        and any(other.state is ReplicaState.LIVE for other in entries)
    ]
    return _listed(
        ("replicas", "lost, while others of their broker live"),
        lost,
        "the next failure takes the broker away",
        "start them",
    )


def _since(entry: Replica) -> str:
    why = f" ({entry.reason})" if entry.reason else ""
    return f"{entry.broker_name}:{entry.broker_id} since {iso(entry.since_ms)}{why}"


def _listed(about: tuple[str, str], names: Sequence[str], why: str, advice: str) -> Finding:
    """Return a warning about some names, or that there are none."""
    check, what = about
    if not names:
        return fine(check, "none")
    return Finding(check, Level.WARNING, f"{what}: {some(names, MOST_NAMES)}", why, advice)


def _orphans(table: Table, differences: tuple[Difference, ...] | Unknown) -> Finding:
    if isinstance(table.orphans, Unknown):
        return unknown("routes", table.orphans.why)
    if not table.orphans:
        if not isinstance(differences, Unknown) and any(one.kind not in _HARMLESS for one in differences):
            return unknown("routes", "where routes and tables differ, see verify")
        return fine("routes", "every topic has a live broker")
    return Finding(
        "routes",
        Level.ERROR,
        f"topics without a live broker: {some(table.orphans, MOST_NAMES)}",
        "producers and consumers of these topics get no route",
        "start a broker that has them; `sharedroutes delete-topic`, or `forget` of the broker, if nobody "
        "needs them any more",
    )


def _hints(table: Table) -> Finding:
    named = [f"{name} ({len(clients)} clients)" for name, clients in sorted(table.hints.items())]
    return _listed(
        ("hints", "clients cannot reach"),
        named,
        "clients that heed hints send elsewhere while their own connections may be at fault",
        "see whether the broker hangs, or the network between it and these clients is broken",
    )


def _prober(table: Table) -> Finding:
    vouched = sum(entry.is_vouched and entry.state is ReplicaState.LIVE for entry in table.replicas)
    if not vouched:
        return fine("prober", "no broker depends on fronts")
    if isinstance(table.fronts, Unknown):
        return unknown("prober", table.fronts.why)
    if table.prober:
        return fine("prober", f"{table.prober} asks {vouched} replicas; {len(table.fronts)} fronts live")
    return Finding(
        "prober",
        Level.WARNING,
        f"no front asks whether the {vouched} replicas live that are connected to fronts",
        "a broker that hangs stays in the routes until its heartbeat timeout, 120 s by default",
        "start a front; with hang_check_s = 0 in all of them this is as it was wanted",
    )
