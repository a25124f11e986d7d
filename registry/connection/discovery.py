"""Where the servers of a Sentinel service or of a Cluster's slot are: what to ask, what the answers mean.

Who is the primary is asked again and again: after a planned failover the old one goes on as one for some 10 s
and answers all that it is asked. Only the Sentinels know better, and not all of them at once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from .url import Address, Endpoint, Mode

REDIRECTS: Final = 3
"""How often a command follows a redirection to another server."""

CHECK_AGAIN_S: Final = 1.0
"""How long a server is trusted to still be the primary, or a replica that hears its primary."""

CONFIRM_S: Final = 1.0
"""How old the Sentinels' answer may be when a command is sent."""

ANSWER_S: Final = 0.5
"""The longest wait for a Sentinel's answer: a command waits that long, too."""

_REST_S: Final = 10.0
"""How long a Sentinel that did not answer is not asked again."""

_OUT_OF_ORDER: Final = frozenset(("s_down", "o_down", "disconnected"))
_UNKNOWN_HOST: Final = "?"


class Whereabouts:
    """What is known about the servers of one role: the primary, or its replicas.

    A connection asks for them whenever it connects, and before its next use once `token` has changed.
    """

    def __init__(self, endpoint: Endpoint, slot: int, *, replicas: bool) -> None:
        self.endpoint = endpoint
        self.replicas = replicas
        self.token = object()
        self._role = "replicas" if replicas else "the primary"
        self._slot = slot
        self.current: Address | None = None
        """The server that was connected to last."""

        self.owner: Address | None = None
        """Of the slot of a Cluster, as it was last named."""

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
        """Whether the primary can change without any reply that says so: then only Sentinels know."""
        return self.endpoint.mode is Mode.SENTINEL and not self.replicas

    @property
    def checks_role(self) -> bool:
        """Whether servers are asked now and then what they are; a node of a Cluster redirects by itself."""
        return self.replicas or self.may_switch

    def odd_role(self, role: Any, _address: Address, _now: float, /) -> str:
        """Return what is wrong with a server that answers so to ROLE; empty = nothing."""
        if self.replicas:
            return "" if _in_step(role) else "does not hear its primary"
        return "" if text_of(role[0]) == "master" else "is no primary any more"

    @property
    def question(self) -> tuple[str, ...]:
        """The command that asks for the addresses; empty when the URL names them."""
        if self.endpoint.mode is Mode.CLUSTER:
            return "CLUSTER", "SLOTS"
        if self.endpoint.mode is Mode.SENTINEL:
            return ("SENTINEL", "REPLICAS", self.endpoint.service) if self.replicas else self.primary_question
        return ()

    @property
    def primary_question(self) -> tuple[str, ...]:
        """The command that asks a Sentinel for the address of the primary."""
        return "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.endpoint.service

    @property
    def questions(self) -> tuple[tuple[str, ...], ...]:
        """The commands to send to one server that is asked for addresses; empty when the URL names them."""
        return (self.question,) if self.question else ()

    @property
    def epoch_question(self) -> tuple[str, ...]:
        """The command that asks a Sentinel for the epoch of its configuration."""
        return "SENTINEL", "MASTER", self.endpoint.service

    def to_ask(self) -> list[Address]:
        """Return the servers to ask, in random order: one that is wrong must not always come first."""
        if not self.question:
            return []
        known = [*dict.fromkeys((*self._learned, *self.endpoint.nodes))]
        random.shuffle(known)
        first = self._first
        return [first, *(address for address in known if address != first)] if first else known

    def fixed(self) -> list[Address]:
        """Return the addresses that the URL names, in the order in which to try them."""
        return random.sample(self.endpoint.replicas, len(self.endpoint.replicas))

    def in_order(self, found: list[Address], _now: float, /) -> list[Address]:
        """Return addresses in the order in which to try them."""
        return found

    def found(self, address: Address) -> bool:
        """Note that a server is the right one: for a while after a failover, not everybody says so.

        Return whether the other connections have to come there, too.
        """
        self.current = address
        owner = self.endpoint.mode is Mode.CLUSTER and not self.replicas
        self._first = address if owner else self._told_by
        return False

    def doubt(self, owner: Address | None = None) -> None:
        """Make every connection ask anew before its next use, `owner` first."""
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
        self.owner, self._learned = primary, tuple(nodes)
        if self.replicas:
            return random.sample(replicas, len(replicas))
        return [primary] if primary else []


def _in_step(role: Any) -> bool:
    """Whether the answer to ROLE is a replica's that hears its primary, or a primary's."""
    kind, *rest = [text_of(item) for item in role]
    return kind == "master" or (kind == "slave" and len(rest) > 2 and rest[2] == "connected")  # noqa: PLR2004


def _primary_of(reply: Any) -> list[Address]:
    """Read SENTINEL GET-MASTER-ADDR-BY-NAME: host and port, or nil."""
    return [Address(text_of(reply[0]), int(reply[1]))] if reply else []


def _replicas_of(reply: Any) -> list[Address]:
    """Read SENTINEL REPLICAS: those that can be reached and hear their primary."""
    found = []
    for item in reply:
        fields = _fields_of(item)
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
        name = text_of(host or b"") or asked.host  # no host: the same as the one that answered
        yield None if name == _UNKNOWN_HOST else Address(name, int(port))


def _fields_of(item: Any) -> Mapping[str, str]:
    """Return a map of RESP3, or its flat list of RESP2, as text."""
    pairs = item.items() if isinstance(item, Mapping) else zip(item[::2], item[1::2], strict=True)
    return {text_of(name): text_of(value) for name, value in pairs}


def text_of(item: Any) -> str:
    """Return a reply, bytes or not, as text."""
    return item.decode(errors="replace") if isinstance(item, bytes) else str(item)


class Opinion(NamedTuple):
    """What one Sentinel says about the primary."""

    sentinel: Address
    named: Address
    """The address that it names."""

    epoch: int | None = None
    """The epoch of its configuration; a greater one is later. None = unknown."""


class Switchover:
    """When to ask which Sentinel about the primary; every `now` is in seconds of the monotonic clock."""

    def __init__(self, sentinels: Sequence[Address]) -> None:
        self._sentinels = tuple(sentinels)
        self._ask_at = 0.0
        self._rests_until: dict[Address, float] = {}

    def due(self, now: float) -> bool:
        """Whether to ask now; True makes it the caller's turn, and others go on without asking."""
        if now < self._ask_at:
            return False
        self._ask_at = now + CONFIRM_S
        return True

    def to_ask(self, now: float) -> list[Address]:
        """Return the Sentinels to ask, all that answer: at first only one of them may know of a switch."""
        return [each for each in self._sentinels if now >= self._rests_until.get(each, 0.0)]

    def silent(self, sentinel: Address, now: float) -> None:
        """Note that a Sentinel did not answer."""
        self._rests_until[sentinel] = now + _REST_S


def believed(opinions: Sequence[Opinion], current: Address) -> Opinion | None:
    """Return the Sentinel to follow to another primary; None = stay.

    The latest configuration counts; among several that are equally late, or of unknown age, the majority
    does.
    """
    latest = max((each.epoch or 0 for each in opinions), default=0)
    late = [each for each in opinions if (each.epoch or 0) == latest]
    votes = Counter(each.named for each in late)
    if not late or votes[current] == max(votes.values()):
        return None
    return max(late, key=lambda each: votes[each.named])


def epoch_in(reply: Any) -> int | None:
    """Return the epoch in the answer to SENTINEL MASTER; None when it has none, or is an error."""
    text = "" if isinstance(reply, Exception) else _fields_of(reply).get("config-epoch", "")
    return int(text) if text.isdecimal() else None
