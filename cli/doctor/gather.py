"""Gathers what the checks look at; what cannot be had is noted, with the reason."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, TypeVar

from ... import __version__
from ...registry import RouteStore
from ...registry.acl import Role, commands_of
from ...registry.checks import is_system_topic
from ...registry.connection.discovery import text_of
from ...registry.connection.url import Endpoint
from ...registry.errors import RegistryError
from ...registry.plans import Command, ErrorReply, Plan, Reads, Reply, server_time, whole_table
from ...registry.plans.base import clock_us
from ...registry.plans.repair.differences import Difference
from ...registry.plans.replicas import roster
from ..processes import AGENT_HTTP, FRONT_HTTP, NoAnswer, Place
from .snapshot import Access, Clock, Connection, Process, ProcessKind, Snapshot, Table, Unknown

T = TypeVar("T")

USUAL: Final = {ProcessKind.AGENT: AGENT_HTTP, ProcessKind.FRONT: FRONT_HTTP}

_MOST_DIFFERENCES: Final = 1_000
_CONNECT_S: Final = 2.0
_PAGE_S: Final = 2.0
_SKIPPED: Final = Unknown("left out by --quick")

_EVERY: Final = frozenset(command for role in Role for command in commands_of(role))

Named = Sequence[tuple[ProcessKind, str]]
"""Processes that somebody named, with their addresses."""


def gather(
    store: RouteStore,
    endpoint: Endpoint,
    named: Named,
    *,
    quick: bool = False,
    clock: Callable[[], float] = time.time,
) -> Snapshot:
    """Look at everything; with `quick`, read nothing whole.

    `clock` tells the s since 1970 by this host.
    """
    health = _attempt(store.health)
    is_away = isinstance(health, Unknown)
    skipped = Unknown("the store does not answer") if is_away else _SKIPPED
    return Snapshot(
        now_s=clock(),
        version=__version__,
        namespace=store.config.namespace,
        connection=_connection(endpoint),
        health=health,
        clock=skipped if is_away else _attempt(lambda: _clock(store, clock)),
        access=skipped if is_away else _attempt(lambda: store.run(_access(store.config.namespace))),
        table=skipped if is_away else _attempt(lambda: _table(store, quick=quick)),
        differences=skipped if is_away or quick else _attempt(lambda: _differences(store)),
        processes=tuple(_processes(named)),
    )


def _attempt(look: Callable[[], T | Unknown]) -> T | Unknown:
    try:
        return look()
    except RegistryError as error:
        return Unknown(str(error))


def _differences(store: RouteStore) -> tuple[Difference, ...]:
    return tuple(islice(store.admin.verify(), _MOST_DIFFERENCES))


def _clock(store: RouteStore, clock: Callable[[], float]) -> Clock | Unknown:
    store.run(server_time())  # so that the one that counts does not wait for a connection
    before_s = clock()
    server_us = store.run(server_time())
    after_s = clock()
    if isinstance(server_us, ErrorReply):
        return Unknown(server_us.reason)
    half_s = (after_s - before_s) / 2
    return Clock(ahead_s=before_s + half_s - server_us / 1e6, uncertain_s=half_s)


def _table(store: RouteStore, *, quick: bool) -> Table:
    listing = store.run(roster(store.keys, since=not quick))
    fronts, prober = store.run(_fronts(store))
    return Table(
        replicas=tuple(listing.found),
        orphans=_SKIPPED if quick else _orphans(store),
        hints=store.hints(),
        fronts=fronts,
        prober=prober,
    )


def _orphans(store: RouteStore) -> tuple[str, ...]:
    table = store.run(whole_table(store.keys))
    routes = table.routes()
    own = {name for group in table.groups.values() for name in (group.broker_name, group.cluster)}
    found = (topic for topic, rows in table.rows.items() if rows and topic not in routes)
    return tuple(sorted(found, key=lambda topic: (_is_nobodys(topic, own), topic)))


def _is_nobodys(topic: str, own: Collection[str]) -> bool:
    """Whether brokers make a topic by themselves: what people made is told first."""
    return topic.startswith("%") or is_system_topic(topic, own)


def _fronts(store: RouteStore) -> Plan[tuple[tuple[str, ...] | Unknown, str]]:
    """Return the fronts that live, and the one that asks brokers."""
    (now,) = yield Reads((("TIME",),))
    now_ms = clock_us(now) // 1_000
    commands: list[Command] = [
        ("ZRANGEBYSCORE", store.keys.fronts, f"({now_ms}", "+inf"),
        ("GET", store.keys.prober),
    ]
    fronts, prober = yield Reads(commands, tolerant=True)
    for key, reply in ((store.keys.fronts, fronts), (store.keys.prober, prober)):
        if isinstance(reply, ErrorReply):
            return Unknown(f"{key} cannot be read: {reply.reason}"), ""
    return tuple(map(text_of, fronts)), text_of(prober or b"")


def _access(namespace: str) -> Plan[Access | Unknown]:
    """Ask who may do what: the default user, and those whose names `sharedroutes acl` gives."""
    names = [f"{namespace.replace(':', '-')}-{role}" for role in Role]
    commands: list[Command] = [("ACL", "GETUSER", name) for name in ("default", *names)]
    default, *users, protected = yield Reads([*commands, ("CONFIG", "GET", "protected-mode")], tolerant=True)
    refused = next((reply for reply in (default, protected) if isinstance(reply, ErrorReply)), None)
    if refused is not None:
        return Unknown(refused.reason)
    flags = {text_of(flag) for flag in _fields(default).get("flags", ())}
    rules = {name: found for name, reply in zip(names, users, strict=True) if (found := _rules(reply))}
    words = sorted({rule[2:] for found in rules.values() for rule in found if rule[1] == "@"} - {"all"})
    replies = (yield Reads([("ACL", "CAT", word) for word in words], tolerant=True)) if words else []
    categories = {
        word: frozenset(() if isinstance(reply, ErrorReply) else map(text_of, reply))
        for word, reply in zip(words, replies, strict=True)
    }
    return Access(
        admits_everybody={"on", "nopass"} <= flags,
        is_protected=text_of(_fields(protected).get("protected-mode", "no")) == "yes",
        allowed={name: _allowed(found, categories) for name, found in rules.items()},
    )


def _fields(reply: Reply) -> dict[str, Any]:
    """Return a reply of names and values, in either version of the protocol."""
    pairs = reply.items() if isinstance(reply, Mapping) else zip(reply[::2], reply[1::2], strict=True)
    return {text_of(name): value for name, value in pairs}


def _rules(user: Reply) -> list[str]:
    """Return the rules about commands of a user, in order; none if there is no such user."""
    if user is None or isinstance(user, ErrorReply):
        return []
    return text_of(_fields(user).get("commands", b"")).split()


def _allowed(rules: Sequence[str], categories: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return which of the registry's commands a user may run; servers sum rules up by category."""
    found = frozenset[str]()
    for rule in rules:
        name = rule[1:]
        if name == "@all":
            meant = _EVERY
        elif name.startswith("@"):
            meant = _EVERY & categories.get(name[1:], frozenset())
        else:
            meant = frozenset(one for one in _EVERY if name in (one, one.partition("|")[0]))
        found = found | meant if rule.startswith("+") else found - meant
    return found


def _connection(endpoint: Endpoint) -> Connection:
    tls = endpoint.tls
    checks = tls is not None and tls["ssl_cert_reqs"] == "required"
    return Connection(
        hosts=tuple(address.host for address in endpoint.nodes),
        is_encrypted=tls is not None,
        checks_certificate=checks,
        certificate_ends_s=_certificate_end_s(endpoint, tls) if tls is not None and checks else None,
    )


def _certificate_end_s(endpoint: Endpoint, tls: Mapping[str, Any]) -> float | None:
    """Return when the certificate of the first server ends; None = it cannot be had."""
    host, port = endpoint.nodes[0]
    with suppress(OSError, ValueError):  # the store's own connection says what is wrong
        context = ssl.create_default_context(cafile=tls.get("ssl_ca_certs"))
        context.check_hostname = tls["ssl_check_hostname"]
        if "ssl_certfile" in tls:
            context.load_cert_chain(tls["ssl_certfile"], tls.get("ssl_keyfile"))
        with (
            socket.create_connection((host, port), _CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            ends = (secure.getpeercert() or {}).get("notAfter")
            return float(ssl.cert_time_to_seconds(ends)) if isinstance(ends, str) else None
    return None


def _processes(named: Named) -> Iterator[Process]:
    """Yield those that were named, and of each kind of which none was, the one at its usual address."""
    kinds, addresses = {kind for kind, _ in named}, {address for _, address in named}
    for kind, address in named:
        yield _process(kind, address, is_named=True)
    for kind, address in USUAL.items():
        if kind not in kinds and address not in addresses:
            yield _process(kind, address, is_named=False)


def _process(kind: ProcessKind, address: str, *, is_named: bool) -> Process:
    page: Mapping[str, Any] | Unknown
    try:
        found = json.loads(Place.of(address, f"--{kind}").ask("GET", "/status", who=kind, within_s=_PAGE_S))
        page = found if isinstance(found, dict) else Unknown(f"{address}: is no agent and no front")
    except ValueError:
        page = Unknown(f"{address}: is no agent and no front")
    except NoAnswer as error:
        page = Unknown(str(error))
    return Process(kind, address, page, is_named)
