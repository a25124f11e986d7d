"""Every key of a registry, in one table (docs/design.md, "The table in Redis")."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Keys"]


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

    def __post_init__(self) -> None:
        prefix = "{" + self.namespace + "}"
        object.__setattr__(self, "prefix", prefix)
        for name in ("brokers", "topics", "deadlines", "changes", "sweeper"):
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

    def lease_member(self, broker_name: str, broker_id: int) -> str:
        """Return the member of the deadlines set that stands for a lease."""
        return f"{broker_name}:{broker_id}"
