"""What a topic, a broker and a data version may be; whatever may not be is refused where it is made."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.registry import (
    Broker,
    BrokerData,
    DataVersion,
    InvalidInput,
    Perm,
    QueueData,
    TopicConfig,
    topic_table,
)
from tests.registry.builders import ADDRESS, broker_names, names

LEGAL_NAMES = ["a", "TBW102", "%RETRY%group", "a:b", "{x}", "日本語", "a/b\\c", "x" * 255, "é" * 127]
ILLEGAL_NAMES = [
    "",
    " ",
    "a b",
    "a\tb",
    "a\n",
    "\na",
    "a\x00",
    "a\x1f",
    "a\x7f",
    "a\u00a0b",
    "a\u2028b",
    "x" * 256,
    "é" * 128,
    "\ud800",
    None,
    7,
    b"bytes",
    True,
]
MakeNamed = Callable[[Any], object]
NAMED: dict[str, MakeNamed] = {
    "topicName": TopicConfig,
    "brokerName": lambda name: Broker(name, ADDRESS),
    "brokerClusterName": lambda name: Broker("a", ADDRESS, cluster=name),
}


@pytest.mark.parametrize("what", NAMED)
@pytest.mark.parametrize("name", ILLEGAL_NAMES, ids=ascii)
def test_an_illegal_name_is_refused_by_what_it_names(what: str, name: object) -> None:
    with pytest.raises(InvalidInput, match=f"^{what}: "):
        NAMED[what](name)


@pytest.mark.parametrize("name", LEGAL_NAMES, ids=ascii)
def test_names_of_up_to_255_bytes_of_any_alphabet_are_legal(name: str) -> None:
    assert TopicConfig(name).topic_name == name
    assert Broker("a", ADDRESS, cluster=name).cluster == name


@given(names())
def test_every_printable_name_is_a_topic(name: str) -> None:
    assert TopicConfig(name).topic_name == name


@given(broker_names(), st.sampled_from(" \t\r\n\x00\x7f:\u3000"), st.integers(0, 60))
def test_one_illegal_character_anywhere_spoils_a_broker_name(name: str, bad: str, where: int) -> None:
    with pytest.raises(InvalidInput, match=r"^brokerName: "):
        Broker(name[:where] + bad + name[where:], ADDRESS)


def test_a_long_name_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidInput) as refused:
        TopicConfig("x" * 100_000)
    assert len(str(refused.value)) < 200
    assert "100000 bytes" in str(refused.value)


@pytest.mark.parametrize(
    ("field", "number", "what"),
    [
        *product(["read_queue_nums"], [-1, 65_537, 2**70, 1.0, "16", None, True], ["readQueueNums"]),
        *product(["write_queue_nums"], [-1, 65_537, 2**70, 1.0, "16", None, True], ["writeQueueNums"]),
        *product(["perm"], [-1, 8, 6.0, "6", None, True], ["perm"]),
    ],
)
def test_queues_and_permission_are_whole_numbers_with_a_limit(field: str, number: object, what: str) -> None:
    wrong: dict[str, Any] = {field: number}
    with pytest.raises(InvalidInput, match=f"^{what}: "):
        TopicConfig("t", **wrong)


@pytest.mark.parametrize("perm", range(8))
def test_permission_bits_say_who_may_read_and_write(perm: int) -> None:
    queue_data = QueueData("a", 4, 4, TopicConfig("t", perm=perm).perm)
    assert queue_data.writable == (Perm.WRITE in Perm(perm))
    assert queue_data.readable == (Perm.READ in Perm(perm))


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic_sys_flag": -1},
        {"topic_sys_flag": 2**31},
        {"order": 1},
        {"order": "true"},
        {"topic_filter_type": "single_tag"},
        {"topic_filter_type": None},
        {"attributes": None},
        {"attributes": ["a"]},
        {"attributes": {"a": 1}},
        {"attributes": {1: "a"}},
        {"attributes": {"a": "\ud800"}},
        {"attributes": {"\ud800": "a"}},
    ],
    ids=str,
)
def test_the_rest_of_a_topic_is_checked_too(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        TopicConfig("t", **wrong)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1:10911", "localhost:1", "broker-a.example.com:65535", "[::1]:10911", "[fe80::1%eth0]:10911"],
)
def test_an_address_is_host_and_port_or_bracketed_ipv6_and_port(address: str) -> None:
    assert Broker("a", address, ha_address=address).address == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "10.0.0.1",
        "10.0.0.1:",
        ":10911",
        "10.0.0.1:0",
        "10.0.0.1:65536",
        "10.0.0.1:-1",
        "10.0.0.1:+1",
        "10.0.0.1:1 ",
        " 10.0.0.1:1",
        "10.0.0.1:1\n",
        "10.0.0.1:109111",
        "a b:1",
        "a:1:2",
        "::1:10911",
        "[::1]",
        "[]:1",
        "[zz zz]:1",
        "http://a:1",
        "user@a:1",
        "a:\uff11",
        "a\x00b:1",
        "\ud800:1",
        None,
        10911,
        b"a:1",
    ],
    ids=ascii,
)
def test_any_other_address_is_refused(address: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^brokerAddr: "):
        Broker("a", address)
    if address:
        with pytest.raises(InvalidInput, match=r"^haServerAddr: "):
            Broker("a", ADDRESS, ha_address=address)


@pytest.mark.parametrize("broker_id", [-1, 2**63, "0", None, False])
def test_a_broker_id_is_a_long_from_0(broker_id: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^brokerId: "):
        Broker("a", ADDRESS, broker_id)


@pytest.mark.parametrize("field", ["state_version", "timestamp", "counter"])
@pytest.mark.parametrize("value", [-1, 2**63, 1.5, None])
def test_a_data_version_is_made_of_longs_from_0(field: str, value: object) -> None:
    wrong: dict[str, Any] = {field: value}
    with pytest.raises(InvalidInput):
        DataVersion(**wrong)


def test_a_topic_that_stands_twice_in_a_table_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="'twice'"):
        topic_table([TopicConfig("once"), TopicConfig("twice"), TopicConfig("twice", 8)])


def test_the_master_address_of_a_group_is_that_of_id_0() -> None:
    assert BrokerData("c", "a", {0: "h:1", 1: "h:2"}).master_address == "h:1"
    assert BrokerData("c", "a", {1: "h:2"}).master_address is None


def test_topics_brokers_and_routes_serve_as_dictionary_keys() -> None:
    assert len({TopicConfig("t", attributes={"a": "b"}), TopicConfig("t", attributes={"a": "b"})}) == 1
    assert len({Broker("a", ADDRESS), Broker("a", ADDRESS)}) == 1
    assert len({BrokerData("c", "a", {0: "h:1"}), BrokerData("c", "a", {0: "h:1"})}) == 1
