"""The tables that sources, sinks and jobs give and take; the answers have theirs beside them."""

from __future__ import annotations

from typing import Final

from ..registry.model import TOPIC_FIELDS
from .tables import table

GAP: Final = "gap"
"""The kind of a row that stands for changes which nobody read before they were lost."""

CONFIG_FIELDS: Final = {theirs: ours for theirs, ours in TOPIC_FIELDS.items() if theirs != "topicName"}
"""By RocketMQ's name of a field of a topic's configuration the column."""

_REGISTRY: Final = "registry string: which registry: its name in the option `registries`, or its namespace"

CHANGES: Final = table(f"""
    route_changes: a record of the change stream; (registry, change_id, kind) is unique
    {_REGISTRY}
    change_id string: id in the stream, `<ms>-<seq>`; of a gap: the last id before it
    ms bigint: the store's clock, ms since 1970, from the id
    seq bigint: which of the changes of that ms, from the id
    at timestamp: the same time as `ms`
    kind string: topics, up, down, wiped, lifted, deleted, kv, settings; or `gap`
    broker string: broker name; empty with deleted and kv
    broker_id
    epoch bigint: of the owner, us of the store's clock
    cluster
    address string: with up: host:port that clients use
    reason string: with down: why; with kv: put or deleted; with settings: the values; with gap: trimmed,
        emptied, rolled back
    added array<string>: with topics: names that are new on the broker; with deleted: none
    changed array<string>: with topics: names with another configuration
    removed array<string>: with topics: names that went; with deleted: the topic
    brokers array<string>: with deleted: the brokers that had the topic
    namespace string: with kv: the namespace
    key string: with kv: the key; with gap: the first id after it
    lease_ttl_ms bigint: with up: how long a heartbeat lasts; null = not told
    lease_ended_ms bigint: with an expired down: when the lease ended, by the store's clock; null = not told
    by string: who wrote it: agent, front, operator's command; empty or null = not told
    user string: by which user of the store; empty or null = the default one, or not told
    problem string: why the record cannot be read; null = it can
    record string: with a problem: the record as it stands in the stream
""")

_OF_INGEST: Final = """day string: UTC day of `ms`, YYYY-MM-DD; a folder
    batch string: which batch of the ingest wrote it, or which compaction; a folder"""

STORED_CHANGES: Final = table(
    f"""
    changes: a change that was ingested
    {_OF_INGEST}
    """,
    (column for column in CHANGES.columns if column.name not in ("problem", "record")),
)

QUARANTINE: Final = table(
    f"""
    quarantine: a record that could not be read, set aside
    problem string: why the record cannot be read
    record string: the record as it stands in the stream, with U+FFFD for what is no UTF-8
    {_OF_INGEST}
    """,
    (column for column in CHANGES.columns if column.name in ("registry", "change_id", "ms", "seq", "at")),
)

TOPIC_CONFIGS: Final = table("""
    topic_configs: a topic on a broker, as the sink takes it; only `topic` and `broker` have no default
    broker
    cluster string: cluster name; empty or null = as it is, or DefaultCluster
    topic
    read_queue_nums int: number of queues to read; null = 4
    write_queue_nums int: number of queues to write; null = 4
    perm int: 4 = read, 2 = write, 1 = inherit, added; null = 6
    topic_sys_flag int: RocketMQ's topicSysFlag; null = 0
    order boolean: whether it is an ordered topic; null = false
    topic_filter_type string: null = SINGLE_TAG
    attributes map<string,string>: RocketMQ's topic attributes; null = none
""")

ROUTES: Final = table(
    """
    routes: a topic on a broker, as the registry holds it now
    wiped boolean: whether an operator took the broker's write permission
    live_ids array<bigint>: ids of the broker's replicas with a live lease
    master_address string: host:port of the live master; null = none is alive
    problem string: why the entry cannot be read; null = it can
    """,
    (CHANGES.columns[0], *TOPIC_CONFIGS.columns),
)

REPLICAS: Final = table(f"""
    replicas: a replica of a broker, as the registry holds it now
    {_REGISTRY}
    broker, broker_id, cluster
    address string: host:port that clients use
    ha_address string: host:port that slaves replicate from
    zone string: where it stands
    epoch bigint: of the owner, us of the store's clock
    alive boolean: whether its lease exists
    lease_left_ms bigint: until its lease ends; null = it is not alive
    wiped boolean: whether an operator took the broker's write permission
    topics bigint: number of topics in the broker's table
    problem string: why the entry cannot be read; null = it can
""")

SAMPLES: Final = table("""
    send_samples: an attempt of a client to send, one in `1 / share` of them
    registry string: which registry: a name as in CHANGES; null = not told, matches any
    client string: which client process: a name, or a random id
    at_ms bigint: when the attempt ended: the store's clock as the client knows it, ms since 1970
    error_ms double: how far `at_ms` can be off; null = it is the client's own clock
    topic, broker
    latency_ms double: how long the attempt took
    outcome string: ok, failed (by fault of the broker), error (not its fault)
    isolated boolean: whether the client left the broker alone at that time, and had no better one
    attempt int: 1 = the first for its message
    position string: id of the last change that the client had seen; empty = none
    share double: share of the attempts that is recorded, > 0 and <= 1
""")

CORRUPT_SAMPLES: Final = table("""
    corrupt_samples: a line, a row of Parquet, or what cannot be read at all, that is no sample, set aside
    file string: path of the file, or of a folder that cannot be read
    place bigint: bytes before the line; of Parquet: rows before the row, or the row group
    problem string: why it is no sample
    record string: the line, with U+FFFD for what is no UTF-8; of Parquet: the row as JSON; empty = what
        follows the place cannot be read
""")

FAULTS: Final = table(f"""
    faults: what somebody did to a broker on purpose, for comparison: a drill, or the demo
    {_REGISTRY}
    at_ms bigint: when, by the store's clock, ms since 1970
    broker string: broker name; empty = the store
    what string: killed, frozen, stopped, restarted, back, store down, store back
""")

LOAD_CHANGES: Final = table("""
    load_changes: one thing that a load would change, from a dry run
    broker
    topic string: topic name; null with cluster
    action string: added, changed, removed; or cluster: the broker gets another one
    before string: the configuration as JSON with RocketMQ's names, or the cluster; null = there is none
    after string: the same, after the load; as before = its row in the route index is missing, and is written
""")

LOAD_SUMMARY: Final = table("""
    load_summary: what a load did with a broker, or would do in a dry run, in topics
    broker
    added bigint: topics that were new on it
    changed bigint: topics with another configuration
    removed bigint: topics that went, where others are removed
    unchanged bigint: topics that were as wanted
    refused string: why it was not written, or not in full; empty = it was
""")

SET_ASIDE: Final = table("""
    set_aside: a file, or a part of one, that could not be read
    file string: its path
    reason string: why
""")
