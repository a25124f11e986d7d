"""The key-value store: put, get, list, delete, and the order configuration of topics."""

from __future__ import annotations

import pytest

from sharedroutes.registry import ChangeKind, CorruptData, InvalidInput
from sharedroutes.registry.plans import ORDER_TOPIC_CONFIG
from tests.fix_redis import Plant, Store


async def test_what_was_put_is_got_and_listed(store: Store) -> None:
    assert await store.kv.put("ns", "k", "v") is True
    assert await store.kv.put("ns", "empty", "") is True
    assert await store.kv.get("ns", "k") == "v"
    assert await store.kv.entries("ns") == {"k": "v", "empty": ""}
    assert await store.kv.namespaces() == ["ns"]


async def test_what_was_never_put_is_none(store: Store) -> None:
    assert await store.kv.get("ns", "k") is None
    assert await store.kv.entries("ns") is None
    assert await store.kv.delete("ns", "k") is False


async def test_an_emptied_namespace_is_empty_and_not_unknown(store: Store) -> None:
    await store.kv.put("ns", "k", "v")
    assert await store.kv.delete("ns", "k") is True
    assert await store.kv.entries("ns") == {}


async def test_each_change_is_recorded_and_a_repetition_is_not(store: Store) -> None:
    assert [await store.kv.put("ns", "k", value) for value in ("1", "1", "2")] == [True, False, True]
    await store.kv.delete("ns", "k")
    changes = (await store.changes_since()).changes
    assert {(change.kind, change.namespace, change.key) for change in changes} == {(ChangeKind.KV, "ns", "k")}
    assert [change.reason for change in changes] == ["put", "put", "deleted"]


async def test_names_of_any_letters_are_kept_apart(store: Store) -> None:
    await store.kv.put("a:b", "c d\n", "ä")
    assert await store.kv.get("a:b", "c d\n") == "ä"
    assert await store.kv.get("a", "b:c d\n") is None


@pytest.mark.parametrize(
    ("namespace", "key", "value", "what"),
    [
        ("", "k", "v", "namespace"),
        ("ns", "", "v", "key"),
        ("n" * 1_025, "k", "v", "namespace"),
        ("ns", "k", "v" * 1_048_577, "value"),
        ("ns", "k", None, "value"),
    ],
)
async def test_what_cannot_be_put_is_named(
    store: Store, namespace: str, key: str, value: str, what: str
) -> None:
    with pytest.raises(InvalidInput, match=what):
        await store.kv.put(namespace, key, value)
    assert await store.kv.namespaces() == []


async def test_the_order_configuration_of_topics(store: Store) -> None:
    await store.kv.put(ORDER_TOPIC_CONFIG, "t0", "broker-a:4;broker-b:4")
    assert await store.kv.order_configs(["t0", "t1"]) == {"t0": "broker-a:4;broker-b:4"}
    assert await store.kv.order_configs([]) == {}


async def test_a_foreign_key_breaks_its_namespace_alone(store: Store, plant: Plant) -> None:
    plant(store.keys.kv("bad"))
    await store.kv.put("good", "k", "v")
    for operation in (store.kv.put("bad", "k", "v"), store.kv.delete("bad", "k"), store.kv.get("bad", "k")):
        with pytest.raises(CorruptData, match="kv:bad"):
            await operation
    assert await store.kv.get("good", "k") == "v"
