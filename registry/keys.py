"""Every key of a registry, in one table (docs/design.md, "The table in Redis")."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of the registry called `namespace`; all share its hash tag."""

    namespace: str
    prefix: str = field(init=False)
    brokers: str = field(init=False)
    topics: str = field(init=False)
    deadlines: str = field(init=False)
    changes: str = field(init=False)
    sweeper: str = field(init=False)
    schema: str = field(init=False)
    namespaces: str = field(init=False)
    hints: str = field(init=False)

    def __post_init__(self) -> None:
        prefix = "{" + self.namespace + "}"
        object.__setattr__(self, "prefix", prefix)
        names = ("brokers", "topics", "deadlines", "changes", "sweeper", "schema", "namespaces", "hints")
        for name in names:
            object.__setattr__(self, name, f"{prefix}:{name}")

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

    def kv(self, namespace: str) -> str:
        """Return the key of one namespace of the key-value store: a hash."""
        return f"{self.prefix}:kv:{namespace}"

    def lease_member(self, broker_name: str, broker_id: int) -> str:
        """Return the member of the deadlines set that stands for a lease."""
        return f"{broker_name}:{broker_id}"

    def kind_of(self, key: str) -> tuple[KeyKind, tuple[str, ...]] | None:
        """Return the kind of a key and the names in it; None for one that is not of this registry's kinds."""
        prefix = f"{self.prefix}:"
        if not key.startswith(prefix):
            return None
        name = key.removeprefix(prefix)
        for kind, pattern in _PATTERNS:
            match = pattern.fullmatch(name)
            if match is not None:
                return kind, match.groups()
        return None
