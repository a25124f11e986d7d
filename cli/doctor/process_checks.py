"""Checks of agents and fronts, by what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ...registry.plans.replicas import ReplicaState
from ...registry.wording import some
from .finding import MOST_NAMES, Finding, Level, fine, unknown
from .snapshot import Process, ProcessKind, Snapshot, Table, Unknown

_TROUBLES: Final = ("stuck", "why_gone", "trouble", "source_trouble", "advice", "waiting")
"""What an agent says of a broker when something is wrong with it, the worst first."""

_DEAF_S: Final = 10.0
_WHY: Final = {
    ProcessKind.AGENT: "the topics and the leases of its brokers depend on it",
    ProcessKind.FRONT: "brokers and clients that have it in their list of name servers ask it",
}


def check_processes(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what is to be said of the agents and fronts that were found or named, and which were not."""
    processes = [*map(_recognized, snapshot.processes)]
    for process in processes:
        page = process.page
        if isinstance(page, Unknown):
            if process.is_named:
                yield _silent(process, page.why)
        elif (kind := _kind(page)) not in (process.kind, None):
            what, advice = f"is no {process.kind}, but a {kind}", f"name it with --{kind}"
            yield _of(process, Level.ERROR, what, advice)
        elif _namespace(page) == snapshot.namespace:
            yield from _found(process, page, snapshot.version)
        elif process.is_named:
            yield _elsewhere(process, _namespace(page), snapshot.namespace)
    if not isinstance(snapshot.table, Unknown):
        yield _agents_seen(snapshot, snapshot.table, processes)
        yield _fronts_seen(snapshot, snapshot.table, processes)


def _recognized(process: Process) -> Process:
    """Return a process as what its page says that it is, if nobody has named it as something else."""
    if process.is_named or isinstance(process.page, Unknown):
        return process
    return replace(process, kind=_kind(process.page) or process.kind)


def _agents_seen(snapshot: Snapshot, table: Table, processes: Sequence[Process]) -> Finding:
    """Return whether the agents of all live brokers were looked at; the registry knows no address of them."""
    held = [
        f"{entry.broker_name}:{entry.broker_id}"
        for entry in table.replicas
        if entry.state is ReplicaState.LIVE and not entry.is_joint
    ]
    pages = _pages(snapshot, ProcessKind.AGENT, processes)
    seen = {broker.get("name") for page in pages for broker in page.get("brokers", ())}
    unseen = [name for name in held if name not in seen]
    if not unseen:
        return fine("agents", f"all that hold leases were looked at: {len(held)}")
    return _unseen(ProcessKind.AGENT, f"the agents of {some(unseen, MOST_NAMES)}", processes)


def _fronts_seen(snapshot: Snapshot, table: Table, processes: Sequence[Process]) -> Finding:
    """Return whether all fronts that live were looked at; each worker of one is a front to the registry."""
    if isinstance(table.fronts, Unknown):
        return unknown("fronts", table.fronts.why)
    pages = _pages(snapshot, ProcessKind.FRONT, processes)
    unseen = len(table.fronts) - sum(len(page.get("workers", ())) or 1 for page in pages)
    if unseen <= 0:
        return fine("fronts", f"all that live were looked at: {len(table.fronts)}")
    hosts = sorted({name.rsplit("-", 2)[0] for name in table.fronts})
    what = f"{unseen} of {len(table.fronts)} fronts, which live on {some(hosts, MOST_NAMES)}"
    return _unseen(ProcessKind.FRONT, what, processes)


def _pages(
    snapshot: Snapshot, kind: ProcessKind, processes: Sequence[Process]
) -> Iterator[Mapping[str, Any]]:
    """Yield what processes of a kind show that keep this registry."""
    for process in processes:
        page = process.page
        if process.kind is kind and not isinstance(page, Unknown) and _namespace(page) == snapshot.namespace:
            yield page


def _unseen(kind: ProcessKind, what: str, processes: Sequence[Process]) -> Finding:
    asked = [
        f"{process.address} (no answer)" if isinstance(process.page, Unknown) else process.address
        for process in processes
        if process.kind is kind
    ]
    more = f"--{kind} HOST:PORT, or {kind}s in a profile, names more"
    return unknown(f"{kind}s", f"{what}; asked: {', '.join(asked) or 'none'}; {more}")


def _namespace(page: Mapping[str, Any]) -> str:
    store = page.get("store")
    return str(store.get("namespace", "")) if isinstance(store, dict) else ""


def _kind(page: Mapping[str, Any]) -> ProcessKind | None:
    """Return what shows such a page; None = neither."""
    marks = {"awaited": ProcessKind.AGENT, "front": ProcessKind.FRONT, "workers": ProcessKind.FRONT}
    return next((kind for mark, kind in marks.items() if mark in page), None)


def _of(process: Process, level: Level, what: str, advice: str, why: str = "") -> Finding:
    return Finding(process.kind, level, f"{process.address}: {what}", why or _WHY[process.kind], advice)


def _silent(process: Process, why: str) -> Finding:
    advice = "start it, or see whether its --http is right"
    return Finding(process.kind, Level.ERROR, why, _WHY[process.kind], advice)


def _elsewhere(process: Process, theirs: str, ours: str) -> Finding:
    what = f"keeps the registry {theirs!r}, and this is {ours!r}" if theirs else "is no agent and no front"
    return _of(
        process, Level.WARNING, what, "name the registry that is meant with --namespace, or another process"
    )


def _found(process: Process, page: Mapping[str, Any], version: str) -> Iterator[Finding]:
    problems = (
        [*_of_agent(process, page)] if process.kind is ProcessKind.AGENT else [*_of_front(process, page)]
    )
    if not page.get("healthy", True):
        restart = "restart it: a part of it has ended, or hangs"
        problems.insert(0, _of(process, Level.ERROR, "says that it does not work any more", restart))
    if page.get("version") != version:
        what = f"is of the release {page.get('version')}, and this is {version}"
        problems.append(
            _of(process, Level.WARNING, what, "finish the upgrade (docs/upgrading.md)", "releases differ")
        )
    yield from problems or [fine(process.kind, f"{process.address}: works")]


def _of_agent(process: Process, page: Mapping[str, Any]) -> Iterator[Finding]:
    clock = page.get("sweep", {}).get("clock_problem")
    if clock:
        advice = "mend the clock of the store's host"
        yield _of(
            process, Level.ERROR, f"the clock of the store: {clock}", advice, "leases end by that clock"
        )
    for why in page.get("awaited", ()):
        yield _of(process, Level.WARNING, why, "the broker is not served before that")
    for broker in page.get("brokers", ()):
        said = next((str(broker[name]) for name in _TROUBLES if broker.get(name)), "")
        is_ready = broker.get("phase") in ("serving", "handing-over", "standby")
        if said or not is_ready or broker.get("corrupt_keys"):
            keys = (
                f" foreign data in {', '.join(broker['corrupt_keys'])}" if broker.get("corrupt_keys") else ""
            )
            what = f"{broker['name']} is {broker['phase']}{f': {said}' if said else ''}{keys}"
            status = f"`sharedroutes agent-ctl --http {process.address} status`"
            advice = f"{status} shows all of it; docs/agent/messages.md"
            yield _of(process, Level.WARNING, what, advice)


def _of_front(process: Process, page: Mapping[str, Any]) -> Iterator[Finding]:
    if not page.get("ready", True):
        what = "; ".join(page.get("reasons", ())) or "is not ready"
        yield _of(process, Level.WARNING, what, "it serves what it last knew; see the store, and its log")
    front = page.get("front") or {}
    age_s = front.get("feed_age_s")
    if age_s is not None and age_s > _DEAF_S:
        what = f"has not heard from the store for {age_s:.0f} s"
        yield _of(process, Level.WARNING, what, "see whether it reaches the store", "its routes grow old")
