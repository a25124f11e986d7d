"""Where the servers of a Sentinel service or of a Cluster's slot are: what to ask, what the answers mean."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

from .connect import Address, Endpoint, Mode

REDIRECTS: Final = 3
"""So often commands are sent on to the server that they were redirected to."""

CHECK_AGAIN_S: Final = 1.0
"""So long a server is trusted to be what it was: the primary, or a replica that hears its primary."""

_OUT_OF_ORDER: Final = frozenset(("s_down", "o_down", "disconnected"))
_UNKNOWN_HOST: Final = "?"


class Whereabouts:
    """What is known about the servers of one role: the primary, or its replicas.

    Whoever connects asks anew; a connection that was made under another `token` than this one does so too.
    """

    def __init__(self, endpoint: Endpoint, slot: int, *, replicas: bool) -> None:
        self.endpoint = endpoint
        self.replicas = replicas
        self.token = object()
        self._role = "replicas" if replicas else "the primary"
        self._slot = slot
        self.current: Address | None = None
        """The server that was connected to last."""

        self._learned: tuple[Address, ...] = ()
        self._first: Address | None = None
        self._told_by: Address | None = None

    def __str__(self) -> str:
        if self.endpoint.mode is Mode.SENTINEL:
            return f"{self._role} of the service {self.endpoint.service!r}"
        if self.endpoint.mode is Mode.CLUSTER:
            return f"{self._role} of the slot {self._slot}"
        return self._role

    @property
    def needs_readonly(self) -> bool:
        """Whether a connection must say READONLY before a replica answers it."""
        return self.replicas and self.endpoint.mode is Mode.CLUSTER

    @property
    def may_switch(self) -> bool:
        """Whether the primary can become another one without a word of its own: only Sentinels know."""
        return self.endpoint.mode is Mode.SENTINEL and not self.replicas

    @property
    def checks_role(self) -> bool:
        """Whether servers are asked now and then what they are; a node of a Cluster redirects by itself."""
        return self.replicas or self.may_switch

    def odd_role(self, role: Any) -> str:
        """Return what is wrong with a server that answers so to ROLE; empty = nothing."""
        if self.replicas:
            return "" if _in_step(role) else "does not hear its primary"
        return "" if _text(role[0]) == "master" else "is no primary any more"

    @property
    def question(self) -> tuple[str, ...]:
        """The command that tells; empty when the addresses are fixed."""
        if self.endpoint.mode is Mode.CLUSTER:
            return "CLUSTER", "SLOTS"
        if self.endpoint.mode is Mode.SENTINEL:
            what = "REPLICAS" if self.replicas else "GET-MASTER-ADDR-BY-NAME"
            return "SENTINEL", what, self.endpoint.service
        return ()

    @property
    def epoch_question(self) -> tuple[str, ...]:
        """The command by which a Sentinel tells how late its configuration is."""
        return "SENTINEL", "MASTER", self.endpoint.service

    def to_ask(self) -> list[Address]:
        """Return whom to ask, in this order: at random, so that one that is wrong does not keep us."""
        if not self.question:
            return []
        known = [*dict.fromkeys((*self._learned, *self.endpoint.nodes))]
        random.shuffle(known)
        first = self._first
        return [first, *(address for address in known if address != first)] if first else known

    def fixed(self) -> list[Address]:
        """Return the addresses that the URL names, in the order in which to try them."""
        return random.sample(self.endpoint.replicas, len(self.endpoint.replicas))

    def found(self, address: Address) -> None:
        """Note that a server is what it was said to be: for a while after a failover, not all say so."""
        self.current = address
        owner = self.endpoint.mode is Mode.CLUSTER and not self.replicas
        self._first = address if owner else self._told_by

    def doubt(self, owner: Address | None = None) -> None:
        """Make every connection ask anew before its next use; `owner` is said to know."""
        self._first = owner
        self.token = object()

    def named_by(self, reply: Any) -> Address | None:
        """Return the primary that a Sentinel names, None if it knows of none."""
        return None if isinstance(reply, Exception) else next(iter(_primary_of(reply)), None)

    def answer(self, reply: Any, asked: Address) -> list[Address]:
        """Return the addresses that a reply names, in the order in which to try them; empty if none."""
        self._told_by = asked
        if self.endpoint.mode is Mode.SENTINEL:
            return _replicas_of(reply) if self.replicas else _primary_of(reply)
        primary, replicas, nodes = _slot_of(reply, self._slot, asked)
        self._learned = tuple(nodes)
        if self.replicas:
            return random.sample(replicas, len(replicas))
        return [primary] if primary else []


def _in_step(role: Any) -> bool:
    """Whether the answer to ROLE is a replica's that hears its primary, or a primary's."""
    kind, *rest = [_text(item) for item in role]
    return kind == "master" or (kind == "slave" and len(rest) > 2 and rest[2] == "connected")  # noqa: PLR2004


def _primary_of(reply: Any) -> list[Address]:
    """Read SENTINEL GET-MASTER-ADDR-BY-NAME: host and port, or nil."""
    return [Address(_text(reply[0]), int(reply[1]))] if reply else []


def _replicas_of(reply: Any) -> list[Address]:
    """Read SENTINEL REPLICAS: those that can be reached and hear their primary."""
    found = []
    for item in reply:
        fields = fields_of(item)
        flags = set(fields.get("flags", "").split(","))
        if not flags & _OUT_OF_ORDER and fields.get("master-link-status") == "ok":
            found.append(Address(fields["ip"], int(fields["port"])))
    return random.sample(found, len(found))


def _slot_of(reply: Any, slot: int, asked: Address) -> tuple[Address | None, list[Address], list[Address]]:
    """Read CLUSTER SLOTS: the owner of a slot, its replicas, and all nodes."""
    primary, replicas, nodes = None, [], []
    for first, last, *servers in reply:
        addresses = [*_addresses(servers, asked)]
        nodes += [address for address in addresses if address]
        if first <= slot <= last and addresses:
            primary, replicas = addresses[0], [address for address in addresses[1:] if address]
    return primary, replicas, [*dict.fromkeys(nodes)]


def _addresses(servers: Iterable[Any], asked: Address) -> Iterable[Address | None]:
    for host, port, *_ in servers:
        name = _text(host or b"") or asked.host  # no host: the same as the one that answered
        yield None if name == _UNKNOWN_HOST else Address(name, int(port))


def fields_of(item: Any) -> Mapping[str, str]:
    """Return a map of RESP3, or its flat list of RESP2, as text."""
    pairs = item.items() if isinstance(item, Mapping) else zip(item[::2], item[1::2], strict=True)
    return {_text(name): _text(value) for name, value in pairs}


def _text(item: Any) -> str:
    return item.decode(errors="replace") if isinstance(item, bytes) else str(item)
