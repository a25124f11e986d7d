"""The tables that sources, sinks and jobs give and take; the answers have theirs beside them."""

from __future__ import annotations

from typing import Final

from ..registry.model import TOPIC_FIELDS
from .tables import Column, Table

GAP: Final = "gap"
"""The kind of a row that stands for changes which nobody read before they were lost."""

CONFIG_FIELDS: Final = {theirs: ours for theirs, ours in TOPIC_FIELDS.items() if theirs != "topicName"}
"""By RocketMQ's name of a field of a topic's configuration the column."""

_REGISTRY: Final = Column(
    "registry", "string", "which registry: its name in the option `registries`, or its namespace"
)

CHANGES: Final = Table(
    "route_changes",
    "a record of the change stream; (registry, change_id, kind) is unique",
    (
        _REGISTRY,
        Column("change_id", "string", "id in the stream, `<ms>-<seq>`; of a gap: the last id before it"),
        Column("ms", "bigint", "the store's clock, ms since 1970, from the id"),
        Column("seq", "bigint", "which of the changes of that ms, from the id"),
        Column("at", "timestamp", "the same time as `ms`"),
        Column("kind", "string", "topics, up, down, wiped, lifted, deleted, kv, settings; or `gap`"),
        Column("broker", "string", "broker name; empty with deleted and kv"),
        Column("broker_id", "bigint", "0 = master"),
        Column("epoch", "bigint", "of the owner, us of the store's clock"),
        Column("cluster", "string", "cluster name"),
        Column("address", "string", "with up: host:port that clients use"),
        Column(
            "reason",
            "string",
            "with down: why; with kv: put or deleted; with settings: the values; with gap: trimmed, emptied, "
            "rolled back",
        ),
        Column("added", "array<string>", "with topics: names that are new on the broker; with deleted: none"),
        Column("changed", "array<string>", "with topics: names with another configuration"),
        Column("removed", "array<string>", "with topics: names that went; with deleted: the topic"),
        Column("brokers", "array<string>", "with deleted: the brokers that had the topic"),
        Column("namespace", "string", "with kv: the namespace"),
        Column("key", "string", "with kv: the key; with gap: the first id after it"),
        Column("lease_ttl_ms", "bigint", "with up: how long a heartbeat lasts; null = not told"),
        Column(
            "lease_ended_ms",
            "bigint",
            "with an expired down: when the lease ended, by the store's clock; null = not told",
        ),
        Column("by", "string", "who wrote it: agent, front, operator's command; empty or null = not told"),
        Column("user", "string", "by which user of the store; empty or null = the default one, or not told"),
        Column("problem", "string", "why the record cannot be read; null = it can"),
        Column("record", "string", "with a problem: the record as it stands in the stream"),
    ),
)

_OF_INGEST: Final = (
    Column("day", "string", "UTC day of `ms`, YYYY-MM-DD; a folder"),
    Column("batch", "string", "which batch of the ingest wrote it, or which compaction; a folder"),
)

STORED_CHANGES: Final = Table(
    "changes",
    "a change that was ingested",
    (*(column for column in CHANGES.columns if column.name not in ("problem", "record")), *_OF_INGEST),
)

QUARANTINE: Final = Table(
    "quarantine",
    "a record that could not be read, set aside",
    (
        *(
            column
            for column in CHANGES.columns
            if column.name in ("registry", "change_id", "ms", "seq", "at")
        ),
        Column("problem", "string", "why the record cannot be read"),
        Column("record", "string", "the record as it stands in the stream, with U+FFFD for what is no UTF-8"),
        *_OF_INGEST,
    ),
)

TOPIC_CONFIGS: Final = Table(
    "topic_configs",
    "a topic on a broker, as the sink takes it; only `topic` and `broker` have no default",
    (
        Column("broker", "string", "broker name"),
        Column("cluster", "string", "cluster name; empty or null = as it is, or DefaultCluster"),
        Column("topic", "string", "topic name"),
        Column("read_queue_nums", "int", "number of queues to read; null = 4"),
        Column("write_queue_nums", "int", "number of queues to write; null = 4"),
        Column("perm", "int", "4 = read, 2 = write, 1 = inherit, added; null = 6"),
        Column("topic_sys_flag", "int", "RocketMQ's topicSysFlag; null = 0"),
        Column("order", "boolean", "whether it is an ordered topic; null = false"),
        Column("topic_filter_type", "string", "null = SINGLE_TAG"),
        Column("attributes", "map<string,string>", "RocketMQ's topic attributes; null = none"),
    ),
)

ROUTES: Final = Table(
    "routes",
    "a topic on a broker, as the registry holds it now",
    (
        _REGISTRY,
        *TOPIC_CONFIGS.columns,
        Column("wiped", "boolean", "whether an operator took the broker's write permission"),
        Column("live_ids", "array<bigint>", "ids of the broker's replicas with a live lease"),
        Column("master_address", "string", "host:port of the live master; null = none is alive"),
        Column("problem", "string", "why the entry cannot be read; null = it can"),
    ),
)

REPLICAS: Final = Table(
    "replicas",
    "a replica of a broker, as the registry holds it now",
    (
        _REGISTRY,
        Column("broker", "string", "broker name"),
        Column("broker_id", "bigint", "0 = master"),
        Column("cluster", "string", "cluster name"),
        Column("address", "string", "host:port that clients use"),
        Column("ha_address", "string", "host:port that slaves replicate from"),
        Column("zone", "string", "where it stands"),
        Column("epoch", "bigint", "of the owner, us of the store's clock"),
        Column("alive", "boolean", "whether its lease exists"),
        Column("lease_left_ms", "bigint", "until its lease ends; null = it is not alive"),
        Column("wiped", "boolean", "whether an operator took the broker's write permission"),
        Column("topics", "bigint", "number of topics in the broker's table"),
        Column("problem", "string", "why the entry cannot be read; null = it can"),
    ),
)

SAMPLES: Final = Table(
    "send_samples",
    "an attempt of a client to send, one in `1 / share` of them",
    (
        Column("registry", "string", "which registry: a name as in CHANGES; null = not told, matches any"),
        Column("client", "string", "which client process: a name, or a random id"),
        Column(
            "at_ms",
            "bigint",
            "when the attempt ended: the store's clock as the client knows it, ms since 1970",
        ),
        Column("error_ms", "double", "how far `at_ms` can be off; null = it is the client's own clock"),
        Column("topic", "string", "topic name"),
        Column("broker", "string", "broker name"),
        Column("latency_ms", "double", "how long the attempt took"),
        Column("outcome", "string", "ok, failed (by fault of the broker), error (not its fault)"),
        Column(
            "isolated",
            "boolean",
            "whether the client left the broker alone at that time, and had no better one",
        ),
        Column("attempt", "int", "1 = the first for its message"),
        Column("position", "string", "id of the last change that the client had seen; empty = none"),
        Column("share", "double", "share of the attempts that is recorded, > 0 and <= 1"),
    ),
)

CORRUPT_SAMPLES: Final = Table(
    "corrupt_samples",
    "a line, a row of Parquet, or what cannot be read at all, that is no sample, set aside",
    (
        Column("file", "string", "path of the file, or of a folder that cannot be read"),
        Column("place", "bigint", "bytes before the line; of Parquet: rows before the row, or the row group"),
        Column("problem", "string", "why it is no sample"),
        Column(
            "record",
            "string",
            "the line, with U+FFFD for what is no UTF-8; of Parquet: the row as JSON; "
            "empty = what follows the place cannot be read",
        ),
    ),
)

FAULTS: Final = Table(
    "faults",
    "what somebody did to a broker on purpose, for comparison: a drill, or the demo",
    (
        _REGISTRY,
        Column("at_ms", "bigint", "when, by the store's clock, ms since 1970"),
        Column("broker", "string", "broker name; empty = the store"),
        Column("what", "string", "killed, frozen, stopped, restarted, back, store down, store back"),
    ),
)

LOAD_CHANGES: Final = Table(
    "load_changes",
    "one thing that a load would change, from a dry run",
    (
        Column("broker", "string", "broker name"),
        Column("topic", "string", "topic name; null with cluster"),
        Column("action", "string", "added, changed, removed; or cluster: the broker gets another one"),
        Column(
            "before",
            "string",
            "the configuration as JSON with RocketMQ's names, or the cluster; null = there is none",
        ),
        Column(
            "after",
            "string",
            "the same, after the load; as before = its row in the route index is missing, and is written",
        ),
    ),
)

LOAD_SUMMARY: Final = Table(
    "load_summary",
    "what a load did with a broker, or would do in a dry run, in topics",
    (
        Column("broker", "string", "broker name"),
        Column("added", "bigint", "topics that were new on it"),
        Column("changed", "bigint", "topics with another configuration"),
        Column("removed", "bigint", "topics that went, where others are removed"),
        Column("unchanged", "bigint", "topics that were as wanted"),
        Column("refused", "string", "why it was not written, or not in full; empty = it was"),
    ),
)

SET_ASIDE: Final = Table(
    "set_aside",
    "a file, or a part of one, that could not be read",
    (
        Column("file", "string", "its path"),
        Column("reason", "string", "why"),
    ),
)
