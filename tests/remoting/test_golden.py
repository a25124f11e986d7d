"""Frames and JSON of RocketMQ's own Java are understood, and frames are written as it writes them."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest

from sharedroutes.remoting import FrameReader, RemotingCommand, SerializeType, encode, fastjson
from tests.remoting import golden


def _said(name: str, kind: SerializeType) -> RemotingCommand:
    command = golden.COMMANDS[name]
    return replace(command, serialize_type=kind)


@pytest.mark.parametrize(("name", "kind"), golden.FRAMES)
def test_a_frame_of_java_is_understood(name: str, kind: SerializeType) -> None:
    (command,) = FrameReader().feed(bytes.fromhex(golden.FRAMES[name, kind]))
    expected = _said(name, kind)
    if kind is SerializeType.ROCKETMQ:
        expected = replace(expected, ext_fields=expected.ext_fields or None)
    assert command == expected


@pytest.mark.parametrize(("name", "kind"), golden.FRAMES)
def test_a_command_becomes_the_frame_of_java(name: str, kind: SerializeType) -> None:
    assert encode(_said(name, kind)).hex() == golden.FRAMES[name, kind]


def test_a_binary_frame_observed_at_a_name_server_is_understood() -> None:
    frame = "000000260100002200690001df0000000700000000000000000000000d0005746f706963000000025431"
    (command,) = FrameReader().feed(bytes.fromhex(frame))
    assert (command.code, command.version, command.opaque) == (105, 479, 7)
    assert command.ext_field("topic") == "T1"
    assert encode(command).hex() == frame


def test_maps_from_numbers_are_understood() -> None:
    info = fastjson.loads(golden.CLUSTER_INFO)
    addresses = info["brokerAddrTable"]["broker-a"]["brokerAddrs"]
    assert addresses == {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}


def test_topics_of_a_broker_with_static_ones_are_understood() -> None:
    whole = fastjson.loads(golden.TOPICS)
    odd_name = 'T,1:{2:"x\x01\x0b\t/é'
    assert whole["topicConfigTable"][odd_name]["topicName"] == odd_name
    mapping = whole["topicQueueMappingDetailMap"]["T1"]
    assert mapping["currIdMap"] == {"0": 1}
    assert mapping["hostedQueues"]["0"][0]["bname"] == "broker-a"


def test_strings_that_look_like_maps_stay_as_they_are() -> None:
    assert fastjson.loads(golden.NAMED_LIKE_JSON) == {'k"{0:': [1, 2], "m": {"-1": "{1:,2:"}}


def test_every_control_character_is_understood() -> None:
    text = fastjson.loads(golden.CONTROL_CHARACTERS)
    controls = {character for character in map(chr, range(0x100)) if unicodedata.category(character) == "Cc"}
    assert set(text) == controls | {"~", "\xa0"}
