"""What `verify` finds and `rebuild` mends, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class DifferenceKind(StrEnum):
    """In what way a registry is not as its design says."""

    UNKNOWN_KEY = "unknown-key"
    """A key in the registry's namespace that is of no kind."""

    WRONG_TYPE = "wrong-type"
    """Something else stands where the registry keeps a value."""

    NO_TTL = "no-ttl"
    """A lease that would never end."""

    UNWANTED_TTL = "unwanted-ttl"
    """A key that would vanish."""

    SCHEMA = "schema"
    """The number of the table's form is missing or is none."""

    TOPIC_UNLISTED = "topic-unlisted"
    """A route index whose topic is not in the set of topics."""

    TOPIC_GONE = "topic-gone"
    """A name in the set of topics that has no route index."""

    BROKER_UNLISTED = "broker-unlisted"
    """A broker that is not in the index of brokers."""

    BROKER_GONE = "broker-gone"
    """A name in the index of brokers that has neither group nor table."""

    NAMESPACE_UNLISTED = "namespace-unlisted"
    """A namespace of the key-value store that is not in the set of them."""

    TABLE_WITHOUT_GROUP = "table-without-group"
    """A broker's table whose group is lost."""

    ROW_MISSING = "row-missing"
    """A topic in a broker's table that the route index does not have of this broker."""

    ROW_STALE = "row-stale"
    """A row that is another than the broker's table makes."""

    ROW_DUPLICATE = "row-duplicate"
    """Several rows of one broker in one route index."""

    ROW_WITHOUT_TABLE = "row-without-table"
    """A row of a broker whose table does not have the topic."""

    ROW_CORRUPT = "row-corrupt"
    """A row that is no route."""

    CONFIG_CORRUPT = "config-corrupt"
    """An entry of a broker's table that is no topic's configuration."""

    FIELD_CORRUPT = "field-corrupt"
    """A field of a group that cannot be read: cluster, token, member, epoch or version."""

    FIELD_UNKNOWN = "field-unknown"
    """A field of a group that the registry did not write."""

    LEASE_CORRUPT = "lease-corrupt"
    """The value of a lease is none."""

    LEASE_EPOCH = "lease-epoch"
    """A lease with an epoch that its group has not issued, as after a fail-over that lost writes."""

    LEASE_WITHOUT_MEMBER = "lease-without-member"
    """A live replica that is not in its group: lookups do not see it."""

    LEASE_WITHOUT_DEADLINE = "lease-without-deadline"
    """A live replica whose end nobody would notice at once."""

    MEMBER_WITHOUT_DEADLINE = "member-without-deadline"
    """A replica that is dead, and nobody will tell."""

    DEADLINE_OVERDUE = "deadline-overdue"
    """A lease that ended long ago without being announced: nobody sweeps."""

    DEADLINE_CORRUPT = "deadline-corrupt"
    """A member of the deadlines that stands for no lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as it should be."""

    kind: DifferenceKind
    key: str
    text: str
    """What is wrong, and what to do if it cannot be mended."""

    mendable: bool = True
    """Whether `rebuild` can put it right."""

    broker_name: str = ""
    broker_id: int | None = None
    topic: str = ""
    part: bytes = field(default=b"", repr=False)
    """The field or member of the key, as it stands there."""

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


@dataclass(frozen=True, slots=True)
class Mended:
    """What `rebuild` did about a difference."""

    difference: Difference
    mended: bool
    text: str = ""
    """Why it was not mended."""
