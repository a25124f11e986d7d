"""The keys of one registry stay in one slot and apart from each other, whatever the names are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from sharedroutes.registry.codec import broker_id_of, replica_field
from sharedroutes.registry.keys import Keys
from tests.fix_redis import KINDS
from tests.registry.builders import broker_names, names

NAMESPACES = st.from_regex(r"[A-Za-z0-9_.:-]{1,64}", fullmatch=True)
BROKER_IDS = st.integers(0, 2**63 - 1)
PLACES = st.one_of(
    st.sampled_from([("brokers",), ("topics",), ("deadlines",), ("changes",), ("hints",)]),
    st.tuples(st.just("topic"), names()),
    st.tuples(st.just("broker"), broker_names()),
    st.tuples(st.just("broker_topics"), broker_names()),
    st.tuples(st.just("lease"), broker_names(), BROKER_IDS),
)
"""What can be stored: the kind of a key, and the names in it."""


def key_of(keys: Keys, place: tuple[str, ...]) -> str:
    kind, *arguments = place
    found = getattr(keys, kind)
    key: str = found(*arguments) if arguments else found
    return key


@given(NAMESPACES, PLACES)
def test_all_keys_of_a_registry_share_one_slot_of_a_cluster(namespace: str, place: tuple[str, ...]) -> None:
    keys = Keys(namespace)
    assert key_slot(key_of(keys, place).encode()) == key_slot(namespace.encode())


@given(PLACES, PLACES)
def test_two_different_things_never_share_a_key(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    keys = Keys("sharedroutes")
    assert (key_of(keys, one) == key_of(keys, other)) == (one == other)


@given(NAMESPACES, NAMESPACES, PLACES, PLACES)
def test_two_registries_never_share_a_key(
    one: str, other: str, place: tuple[str, ...], other_place: tuple[str, ...]
) -> None:
    if one != other:
        assert key_of(Keys(one), place) != key_of(Keys(other), other_place)


@given(broker_names(), BROKER_IDS, broker_names(), BROKER_IDS)
def test_two_different_leases_never_share_a_deadline(
    name: str, broker_id: int, other_name: str, other_id: int
) -> None:
    keys = Keys("sharedroutes")
    same = keys.lease_member(name, broker_id) == keys.lease_member(other_name, other_id)
    assert same == ((name, broker_id) == (other_name, other_id))


@given(broker_names(), BROKER_IDS)
def test_an_id_has_one_form_in_keys_and_fields(name: str, broker_id: int) -> None:
    keys = Keys("sharedroutes")
    found = keys.kind_of(keys.lease(name, broker_id))
    assert found is not None
    assert found[1] == (name, str(broker_id))
    assert keys.kind_of(f"{keys.prefix}:lease:{name}:0{broker_id}") is None
    for what in ("member", "epoch", "version"):
        assert replica_field(f"{what}:{broker_id}".encode()) == (what, broker_id)
        assert replica_field(f"{what}:0{broker_id}".encode()) is None


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1_0", " 1", "1\n", "\u0661", "00", str(2**63), "9" * 5_000]
)
def test_what_is_no_id_is_none(text: str) -> None:
    assert broker_id_of(text) is None
    assert replica_field(f"member:{text}".encode()) is None


@given(names())
def test_the_name_of_a_topic_is_what_follows_the_empty_topics_key(topic: str) -> None:
    keys = Keys("sharedroutes")
    assert keys.topic(topic).removeprefix(keys.topic("")) == topic


@given(NAMESPACES, PLACES)
def test_every_key_is_in_the_table_of_the_design_exactly_once(namespace: str, place: tuple[str, ...]) -> None:
    key = key_of(Keys(namespace), place)
    assert len([kind for kind in KINDS if kind.pattern.fullmatch(key)]) == 1
