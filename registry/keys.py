"""Every key of a registry, in one table (docs/design/table.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .codec import ID

_PLACEHOLDERS: Final = {
    "<topic>": "(.+)",
    "<broker>": "([^:]+)",
    "<id>": f"({ID})",
    "<namespace>": "(.+)",
}


@dataclass(frozen=True, slots=True)
class KeyKind:
    """One kind of key: its name after the hash tag, its type in Redis, and whether it has a TTL."""

    name: str
    type_name: str
    expires: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """What matches the names of such keys, with a group for each name in them."""
        text = re.escape(self.name)
        for placeholder, pattern in _PLACEHOLDERS.items():
            text = text.replace(re.escape(placeholder), pattern)
        return re.compile(text, re.DOTALL)


KEY_KINDS: Final = (
    KeyKind("topic:<topic>", "string"),
    KeyKind("broker:<broker>", "hash"),
    KeyKind("broker:<broker>:topics", "hash"),
    KeyKind("lease:<broker>:<id>", "string", expires=True),
    KeyKind("sessions:<broker>:<id>", "hash", expires=True),
    KeyKind("fronts", "zset", expires=True),
    KeyKind("prober", "string", expires=True),
    KeyKind("deadlines", "zset"),
    KeyKind("brokers", "hash"),
    KeyKind("topics", "set"),
    KeyKind("kv:<namespace>", "hash"),
    KeyKind("namespaces", "set"),
    KeyKind("schema", "string"),
    KeyKind("sweeper", "string", expires=True),
    KeyKind("hints", "zset", expires=True),
    KeyKind("changes", "stream"),
)
"""All kinds that there are; a key of a registry is of exactly one of them."""

_PATTERNS: Final = tuple((kind, kind.pattern) for kind in KEY_KINDS)


class Keys:
    """The keys of the registry called `namespace`; all share its hash tag."""

    def __init__(self, namespace: str) -> None:
        self.namespace: Final = namespace
        self.prefix: Final = "{" + namespace + "}"
        self.brokers: Final = f"{self.prefix}:brokers"
        self.topics: Final = f"{self.prefix}:topics"
        self.deadlines: Final = f"{self.prefix}:deadlines"
        self.changes: Final = f"{self.prefix}:changes"
        self.sweeper: Final = f"{self.prefix}:sweeper"
        self.schema: Final = f"{self.prefix}:schema"
        self.namespaces: Final = f"{self.prefix}:namespaces"
        self.hints: Final = f"{self.prefix}:hints"
        self.fronts: Final = f"{self.prefix}:fronts"
        self.prober: Final = f"{self.prefix}:prober"

    def topic(self, topic: str) -> str:
        """Return the key of the route index of one topic: a string, one row a broker."""
        return f"{self.prefix}:topic:{topic}"

    def broker(self, broker_name: str) -> str:
        """Return the key of a group of replicas: a hash of cluster, members, owner epochs, table version."""
        return f"{self.prefix}:broker:{broker_name}"

    def broker_topics(self, broker_name: str) -> str:
        """Return the key of a broker's own topic table: a hash, topic to configuration."""
        return f"{self.prefix}:broker:{broker_name}:topics"

    def lease(self, broker_name: str, broker_id: int) -> str:
        """Return the key of a heartbeat: a string with a TTL; it exists = the replica is alive."""
        return f"{self.prefix}:lease:{broker_name}:{broker_id}"

    def sessions(self, broker_name: str, broker_id: int) -> str:
        """Return the key of the connections of a replica to fronts: a hash, session to begin and address."""
        return f"{self.prefix}:sessions:{broker_name}:{broker_id}"

    def kv(self, namespace: str) -> str:
        """Return the key of one namespace of the key-value store: a hash."""
        return f"{self.prefix}:kv:{namespace}"

    def lease_member(self, broker_name: str, broker_id: int) -> str:
        """Return the member of the deadlines set that stands for a lease."""
        return f"{broker_name}:{broker_id}"

    def kind_of(self, key: str) -> tuple[KeyKind, tuple[str, ...]] | None:
        """Return the kind of a key and the names in it; None for a key that is none of this registry's."""
        prefix = f"{self.prefix}:"
        if not key.startswith(prefix):
            return None
        name = key.removeprefix(prefix)
        for kind, pattern in _PATTERNS:
            match = pattern.fullmatch(name)
            if match is not None:
                return kind, match.groups()
        return None
