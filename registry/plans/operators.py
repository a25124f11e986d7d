"""What an operator does to brokers and topics that are not his: no owner is fenced, each says what it did."""

from __future__ import annotations

from typing import Final

from .. import codec, scripts
from ..checks import check_broker_name, check_name
from ..config import RegistryConfig
from ..errors import NewerSchema, NotFound, StoreUnavailable
from ..keys import Keys
from ..model import Change, ChangeKind
from .base import Call, Command, ErrorReply, Plan, Reads, checked, script_reply

_TRIES: Final = 10


def check_schema(keys: Keys) -> Plan[None]:
    """Raise NewerSchema when a newer sharedroutes keeps the registry; a foreign key there is no obstacle."""
    (reply,) = yield Reads((("GET", keys.schema),))
    if reply is None or isinstance(reply, ErrorReply):
        return
    text = reply.decode(errors="replace")
    found = codec.number(text)
    if found is not None and found > scripts.SCHEMA:
        raise NewerSchema(keys.schema, text, scripts.SCHEMA)


def set_write_perm(config: RegistryConfig, broker_name: str, *, writable: bool) -> Plan[int]:
    """Take the write permission of all topics of a broker away, or give it back; return how many it has.

    It is a property of the broker here, not of its rows: it holds at once for all topics and all clients,
    also for topics to come, and survives every registration of the broker until it is lifted.
    RocketMQ: WIPE_WRITE_PERM_OF_BROKER, ADD_WRITE_PERM_OF_BROKER, which the next registration undoes.
    Raises NotFound, InvalidInput, CorruptData, NewerSchema, StoreRefused, StoreUnavailable.
    """
    check_broker_name(broker_name)
    keys = Keys(config.namespace)
    kind = ChangeKind.LIFTED if writable else ChangeKind.WIPED
    call = Call(
        scripts.WRITE_PERM,
        (keys.broker(broker_name), keys.broker_topics(broker_name), keys.changes, keys.schema),
        (
            "0" if writable else "1",
            codec.encode_change(Change(kind=kind, broker_name=broker_name)),
            config.feed_bounds,
        ),
    )
    status, *rest = yield from script_reply(call)
    if status == "unknown":
        raise NotFound(f"{broker_name}: no broker of this name was ever registered")
    return int(rest[0])


def delete_topic(config: RegistryConfig, topic: str, cluster: str | None = None) -> Plan[tuple[str, ...]]:
    """Remove a topic from all brokers, or from those of one cluster, in one step; return these brokers.

    The tables are the brokers' own: a live broker that still has the topic brings it back with its next
    heartbeat, so delete it there first, as mqadmin does. RocketMQ: DELETE_TOPIC_IN_NAMESRV.
    Raises InvalidInput, CorruptData, NewerSchema, StoreRefused, StoreUnavailable.
    """
    check_name("topic", topic)
    keys = Keys(config.namespace)
    for _ in range(_TRIES):
        index = yield from _index(keys, topic)
        brokers = yield from _holders(keys, topic, index, cluster)
        status, *_ = yield from script_reply(_delete_call(config, keys, topic, index, brokers))
        if status == "ok":
            return brokers
    raise StoreUnavailable(f"{keys.topic(topic)}: changes faster than it can be deleted; nothing was deleted")


def _index(keys: Keys, topic: str) -> Plan[bytes]:
    key = keys.topic(topic)
    (reply,) = yield Reads((("GET", key),))
    return checked(key, reply) or b""


def _holders(keys: Keys, topic: str, index: bytes, cluster: str | None) -> Plan[tuple[str, ...]]:
    """Return the brokers that have the topic, by their own table or by the index, alive or not."""
    (reply,) = yield Reads((("HGETALL", keys.brokers),))
    listed = {name.decode(errors="replace") for name in checked(keys.brokers, reply)}
    rows, _ = codec.decode_index(keys.topic(topic), index) if index else ((), None)
    routed = {row.broker_name for row in rows}
    names = sorted(listed | routed)
    held: list[Command] = [("HEXISTS", keys.broker_topics(name), topic) for name in names]
    clusters: list[Command] = [("HGET", keys.broker(name), "cluster") for name in names]
    if not names:
        return ()
    replies = yield Reads([*held, *clusters])
    answers = [
        checked(str(command[1]), reply) for command, reply in zip((*held, *clusters), replies, strict=True)
    ]
    found = zip(names, answers, answers[len(names) :], strict=False)
    return tuple(
        name
        for name, has, of in found
        if (name in routed or has == 1) and (cluster is None or of == cluster.encode())
    )


def _delete_call(
    config: RegistryConfig, keys: Keys, topic: str, index: bytes, brokers: tuple[str, ...]
) -> Call:
    gone = {name.encode() for name in brokers}
    left = b"\n".join(row for row in index.split(b"\n") if row.partition(b" ")[0] not in gone)
    record = Change(kind=ChangeKind.DELETED, removed=(topic,), brokers=brokers)
    tables = [key for name in brokers for key in (keys.broker(name), keys.broker_topics(name))]
    return Call(
        scripts.DELETE_TOPIC,
        (keys.topic(topic), keys.topics, keys.changes, keys.schema, *tables),
        (topic, index, left, codec.encode_change(record), config.feed_bounds),
    )
