"""The key-value store: namespaces of strings (RocketMQ: KVConfigManager)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .. import scripts
from ..checks import check_text
from ..codec import encode_change
from ..config import RegistryConfig
from ..keys import Keys
from ..model import Change, ChangeKind
from .base import Call, Plan, Reads, checked, script_reply

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"
"""The namespace in which topics have their order configuration, `broker:queues;broker:queues`."""

MAX_NAME_BYTES: Final = 1_024
MAX_VALUE_BYTES: Final = 1_048_576


def kv_put(config: RegistryConfig, namespace: str, key: str, value: str) -> Plan[bool]:
    """Set a value; whether it was another one before (RocketMQ: PUT_KV_CONFIG).

    Raises InvalidInput, CorruptData, NewerSchema, StoreRefused, StoreUnavailable.
    """
    _check_names(namespace, key)
    check_text("value", value, MAX_VALUE_BYTES, empty=True)
    keys = Keys(config.namespace)
    call = Call(
        scripts.KV_PUT,
        (keys.kv(namespace), keys.namespaces, keys.changes, keys.schema),
        (namespace, key, value, _record(namespace, key, "put"), config.feed_bounds),
    )
    _, changed = yield from script_reply(call)
    return bool(int(changed))


def kv_delete(config: RegistryConfig, namespace: str, key: str) -> Plan[bool]:
    """Remove a value; whether there was one (RocketMQ: DELETE_KV_CONFIG). Raises as kv_put."""
    _check_names(namespace, key)
    keys = Keys(config.namespace)
    call = Call(
        scripts.KV_DELETE,
        (keys.kv(namespace), keys.changes, keys.schema),
        (key, _record(namespace, key, "deleted"), config.feed_bounds),
    )
    _, removed = yield from script_reply(call)
    return bool(int(removed))


def kv_get(keys: Keys, namespace: str, key: str) -> Plan[str | None]:
    """Return a value, or None (RocketMQ: GET_KV_CONFIG). Raises as kv_put."""
    _check_names(namespace, key)
    hash_key = keys.kv(namespace)
    (reply,) = yield Reads((("HGET", hash_key, key),))
    value = checked(hash_key, reply)
    return None if value is None else str(value.decode(errors="replace"))


def kv_list(keys: Keys, namespace: str) -> Plan[dict[str, str] | None]:
    """Return all of a namespace, or None when nothing was ever put there (RocketMQ: GET_KVLIST_BY_NAMESPACE).

    Raises as kv_put.
    """
    _check_names(namespace)
    hash_key = keys.kv(namespace)
    table, known = yield Reads((("HGETALL", hash_key), ("SISMEMBER", keys.namespaces, namespace)))
    found = {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in checked(hash_key, table).items()
    }
    return found if found or checked(keys.namespaces, known) else None


def kv_namespaces(keys: Keys) -> Plan[list[str]]:
    """Return the names of all namespaces, sorted. Raises as kv_put."""
    (reply,) = yield Reads((("SMEMBERS", keys.namespaces),))
    return sorted(name.decode(errors="replace") for name in checked(keys.namespaces, reply))


def order_configs(keys: Keys, topics: Sequence[str]) -> Plan[dict[str, str]]:
    """Return the order configuration of those topics that have one (RocketMQ: orderTopicConf of a route).

    Raises as kv_put.
    """
    if not topics:
        return {}
    hash_key = keys.kv(ORDER_TOPIC_CONFIG)
    (reply,) = yield Reads((("HMGET", hash_key, *topics),))
    values = zip(topics, checked(hash_key, reply), strict=True)
    return {topic: value.decode(errors="replace") for topic, value in values if value is not None}


def _check_names(namespace: str, key: str = "-") -> None:
    check_text("namespace", namespace, MAX_NAME_BYTES)
    check_text("key", key, MAX_NAME_BYTES)


def _record(namespace: str, key: str, what: str) -> bytes:
    return encode_change(Change(kind=ChangeKind.KV, namespace=namespace, key=key, reason=what))
