"""What operators change: brokers and topics that are not theirs, and the key-value store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .. import codec, scripts
from ..checks import check_broker_name, check_name, check_text
from ..config import RegistryConfig
from ..errors import NotFound, StaleEpoch, StoreUnavailable
from ..keys import Keys
from ..model import Broker, Change, ChangeKind, Registration
from .base import Call, Command, Plan, Reads, checked, read, read_all, script_reply
from .leases import RESTARTED, claim, unregister
from .routes import broker_names
from .table import Write

_TRIES: Final = 10
_ADVICE: Final = "take it out there: it is another broker of the same name and id"

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"
"""The namespace in which topics have their order configuration, `broker:queues;broker:queues`."""

_MAX_NAME_BYTES: Final = 1_024
_MAX_VALUE_BYTES: Final = 1_048_576


def set_write_perm(config: RegistryConfig, broker_name: str, *, writable: bool) -> Plan[int]:
    """Take the write permission of all topics of a broker away, or give it back; return how many it has.

    It is a property of the broker here, not of its rows: it holds at once for all topics and all clients,
    also for topics to come, and survives every registration of the broker until it is lifted.
    RocketMQ: WIPE_WRITE_PERM_OF_BROKER, ADD_WRITE_PERM_OF_BROKER, which the next registration undoes.
    Raises NotFound, InvalidInput, NewerSchema.
    """
    check_broker_name(broker_name)
    keys = Keys(config.namespace)
    kind = ChangeKind.LIFTED if writable else ChangeKind.WIPED
    call = Call(
        scripts.WRITE_PERM,
        (keys.broker(broker_name), keys.broker_topics(broker_name), keys.changes, keys.schema),
        (
            "0" if writable else "1",
            codec.encode_change(Change(kind=kind, broker_name=broker_name, **config.signature)),
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
    Raises InvalidInput, NewerSchema.
    """
    check_name("topic", topic)
    keys = Keys(config.namespace)
    for _ in range(_TRIES):
        index = (yield from read("GET", keys.topic(topic))) or b""
        brokers = yield from _holders(keys, topic, index, cluster)
        status, *_ = yield from script_reply(_delete_call(config, keys, topic, index, brokers))
        if status == "ok":
            return brokers
    raise StoreUnavailable(f"{keys.topic(topic)}: changes faster than it can be deleted; nothing was deleted")


def _holders(keys: Keys, topic: str, index: bytes, cluster: str | None) -> Plan[tuple[str, ...]]:
    """Return the brokers that have the topic, by their own table or by the index, alive or not."""
    listed = yield from broker_names(keys)
    rows, _ = codec.decode_index(keys.topic(topic), index) if index else ((), None)
    routed = {row.broker_name for row in rows}
    names = sorted({*listed, *routed})
    if not names:
        return ()
    held: list[Command] = [("HEXISTS", keys.broker_topics(name), topic) for name in names]
    answers = yield from read_all([*held, *(("HGET", keys.broker(name), "cluster") for name in names)])
    return tuple(
        name
        for name, has, of in zip(names, answers, answers[len(names) :], strict=False)
        if (name in routed or has == 1) and (cluster is None or of == cluster.encode())
    )


def _delete_call(
    config: RegistryConfig, keys: Keys, topic: str, index: bytes, brokers: tuple[str, ...]
) -> Call:
    gone = {name.encode() for name in brokers}
    left = b"\n".join(row for row in index.split(b"\n") if row.partition(b" ")[0] not in gone)
    record = Change(kind=ChangeKind.DELETED, removed=(topic,), brokers=brokers, **config.signature)
    tables = [key for name in brokers for key in (keys.broker(name), keys.broker_topics(name))]
    return Call(
        scripts.DELETE_TOPIC,
        (keys.topic(topic), keys.topics, keys.changes, keys.schema, *tables),
        (topic, index, left, codec.encode_change(record), config.feed_bounds),
    )


def withdraw(config: RegistryConfig, broker: Broker, *, reason: str) -> Plan[bool]:
    """End the lease of a broker, whoever holds it, and keep the broker out; return whether there was a lease.

    Its owner is fenced. A registration with `admit=False` raises BrokerWithdrawn from then on, until one with
    `admit` is granted: that of an agent that is started, or that is told to resume.
    Raises BrokerOwned when the lease is that of another address, NewerSchema.
    """
    write = Write.of(config, broker)
    for _ in range(_TRIES):
        epoch = yield from claim(write, RESTARTED, _ADVICE)
        try:
            nothing = Registration(broker, epoch, "", {}, complete=False)
            return (yield from unregister(config, nothing, reason=reason, stays_out=True))
        except StaleEpoch:  # somebody else claimed it in between: the last word is the operator's
            continue
    raise StoreUnavailable(f"{write.broker_key}: is claimed faster than it can be taken out; try again")


def kv_put(config: RegistryConfig, namespace: str, key: str, value: str) -> Plan[bool]:
    """Set a value; return whether it was another one before (RocketMQ: PUT_KV_CONFIG).

    Raises InvalidInput, NewerSchema, as the other operations on the key-value store do.
    """
    check_pair(namespace, key, value)
    keys = Keys(config.namespace)
    call = Call(
        scripts.KV_PUT,
        (keys.kv(namespace), keys.namespaces, keys.changes, keys.schema),
        (namespace, key, value, _record(config, namespace, key, "put"), config.feed_bounds),
    )
    _, changed = yield from script_reply(call)
    return bool(int(changed))


def kv_delete(config: RegistryConfig, namespace: str, key: str) -> Plan[bool]:
    """Remove a value; return whether there was one (RocketMQ: DELETE_KV_CONFIG)."""
    _check_names(namespace, key)
    keys = Keys(config.namespace)
    call = Call(
        scripts.KV_DELETE,
        (keys.kv(namespace), keys.changes, keys.schema),
        (key, _record(config, namespace, key, "deleted"), config.feed_bounds),
    )
    _, removed = yield from script_reply(call)
    return bool(int(removed))


def record_settings(config: RegistryConfig, values: Mapping[str, str]) -> Plan[None]:
    """Record that settings of a name server front are changed to these (RocketMQ: UPDATE_NAMESRV_CONFIG)."""
    keys = Keys(config.namespace)
    told = " ".join(f"{name}={value}" for name, value in values.items())
    record = codec.encode_change(Change(kind=ChangeKind.SETTINGS, reason=told, **config.signature))
    yield from script_reply(Call(scripts.RECORD, (keys.changes, keys.schema), (record, config.feed_bounds)))


def kv_get(keys: Keys, namespace: str, key: str) -> Plan[str | None]:
    """Return a value, or None (RocketMQ: GET_KV_CONFIG)."""
    _check_names(namespace, key)
    value = yield from read("HGET", keys.kv(namespace), key)
    return None if value is None else str(value.decode(errors="replace"))


def kv_list(keys: Keys, namespace: str) -> Plan[dict[str, str] | None]:
    """Return all of a namespace, or None when nothing was ever put there (GET_KVLIST_BY_NAMESPACE)."""
    _check_names(namespace)
    table, known = yield Reads((("HGETALL", keys.kv(namespace)), ("SISMEMBER", keys.namespaces, namespace)))
    entries = checked(keys.kv(namespace), table).items()
    found = {name.decode(errors="replace"): value.decode(errors="replace") for name, value in entries}
    return found if found or checked(keys.namespaces, known) else None


def kv_namespaces(keys: Keys) -> Plan[list[str]]:
    """Return the names of all namespaces, sorted."""
    names = yield from read("SMEMBERS", keys.namespaces)
    return sorted(name.decode(errors="replace") for name in names)


def check_pair(namespace: str, key: str, value: str) -> None:
    """Raise InvalidInput for what cannot stand in the key-value store."""
    _check_names(namespace, key)
    check_text("value", value, _MAX_VALUE_BYTES, empty=True)


def _check_names(namespace: str, key: str = "-") -> None:
    check_text("namespace", namespace, _MAX_NAME_BYTES)
    check_text("key", key, _MAX_NAME_BYTES)


def _record(config: RegistryConfig, namespace: str, key: str, what: str) -> bytes:
    return codec.encode_change(
        Change(kind=ChangeKind.KV, namespace=namespace, key=key, reason=what, **config.signature)
    )
