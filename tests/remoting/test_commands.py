"""What headers say that others wrote, and how requests are made and signed, and responses made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from sharedroutes.remoting import (
    CURRENT_VERSION,
    Credentials,
    FrameError,
    LanguageCode,
    RemotingCommand,
    RequestCode,
    ResponseCode,
    SerializeType,
    decode,
    encode,
    request,
    response_to,
    signed,
)

SIGNED: Final = json.loads(
    (Path(__file__).parents[1] / "data" / "rocketmq-acl" / "signatures.json").read_text(encoding="utf-8")
)
"""Requests as RocketMQ's own clients sign them."""


def read(header: Mapping[str, object] | bytes) -> RemotingCommand:
    data = header if isinstance(header, bytes) else orjson.dumps(header)
    return decode(len(data).to_bytes(4, "big") + data)


def test_fields_that_are_not_given_are_those_of_a_new_command_of_java() -> None:
    assert read({}) == RemotingCommand(code=0, language=LanguageCode.JAVA, version=0)


def test_unknown_fields_are_ignored() -> None:
    assert read({"code": 105, "suspended": True, "serializeTypeCurrentRPC": "ROCKETMQ"}).code == 105


@pytest.mark.parametrize(
    ("said", "language"),
    [
        ("GO", LanguageCode.GO),
        (12, LanguageCode.RUST),
        ("ZIG", LanguageCode.OTHER),
        (99, LanguageCode.OTHER),
        (None, LanguageCode.JAVA),
    ],
)
def test_a_language_is_a_name_or_a_number_and_may_be_unknown(said: object, language: LanguageCode) -> None:
    assert read({"language": said}).language is language


def test_an_unknown_language_of_a_binary_header_is_another_one() -> None:
    frame = bytearray(encode(request(1, serialize_type=SerializeType.ROCKETMQ)))
    frame[10] = 0x80
    assert decode(bytes(frame[4:])).language is LanguageCode.OTHER


def test_values_of_ext_fields_become_text_as_in_java() -> None:
    command = read(
        {"extFields": {"id": 0, "acting": True, "none": None, "share": 0.5, "list": [1], "text": "x"}}
    )
    expected = {"id": "0", "acting": "true", "share": "0.5", "list": "[1]", "text": "x"}
    assert command.ext_fields == expected


def test_a_quoted_number_is_a_number() -> None:
    assert read({"code": "105", "opaque": "-1"}) == read({"code": 105, "opaque": -1})


def test_bytes_that_are_no_utf_8_spoil_no_binary_header() -> None:
    frame = encode(RemotingCommand(code=1, remark="a?", serialize_type=SerializeType.ROCKETMQ))
    assert decode(frame[4:].replace(b"?", b"\xff")).remark == "a\ufffd"


def test_an_empty_value_of_a_binary_header_is_not_there() -> None:
    command = request(1, {"empty": "", "full": "x"}, serialize_type=SerializeType.ROCKETMQ)
    assert decode(encode(command)[4:]).ext_fields == {"full": "x"}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (request(200_050, serialize_type=SerializeType.ROCKETMQ), "code: 200050 does not fit"),
        (request(1, version=40_000, serialize_type=SerializeType.ROCKETMQ), "version: 40000 does not fit"),
        (request(1, opaque=2**31), "opaque: 2147483648 does not fit"),
        (request(1, {"k" * 32_768: "v"}, serialize_type=SerializeType.ROCKETMQ), "length of 'kkk"),
        (request(1, {"k": "\ud800"}, serialize_type=SerializeType.ROCKETMQ), "extFields['k']: "),
        (request(1, {"k": "\ud800"}), "header: "),
    ],
)
def test_what_a_header_cannot_carry_is_refused(command: RemotingCommand, said: str) -> None:
    with pytest.raises(FrameError) as caught:
        encode(command)
    assert said in str(caught.value)


def test_a_code_that_a_binary_header_cannot_carry_fits_into_json() -> None:
    assert decode(encode(request(200_050))[4:]).code == 200_050


def test_a_request_asks_for_an_answer_unless_it_is_one_way() -> None:
    asked = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T1"}, opaque=5)
    assert (asked.is_response, asked.is_oneway, asked.version) == (False, False, CURRENT_VERSION)
    assert request(RequestCode.QUERY_DATA_VERSION, oneway=True).is_oneway


def test_a_response_belongs_to_its_request_and_not_to_its_kind_of_header() -> None:
    asked = request(105, opaque=5, serialize_type=SerializeType.ROCKETMQ)
    answer = response_to(asked, ResponseCode.TOPIC_NOT_EXIST, remark="none")
    assert (answer.opaque, answer.code, answer.remark) == (5, 17, "none")
    assert answer.is_response
    assert answer.serialize_type is SerializeType.JSON


def test_a_field_that_is_not_there_is_none() -> None:
    assert request(1).ext_field("topic") is None
    assert request(1, {"a": "b"}).ext_field("topic") is None


@pytest.mark.parametrize("case", SIGNED, ids=lambda case: f"{case['code']} {len(case['fields'])}")
def test_a_request_is_signed_as_by_rocketmq(case: dict[str, Any]) -> None:
    credentials = Credentials(case["access_key"], case["secret_key"], case["security_token"])
    command = request(case["code"], case["fields"], body=case["body"].encode())
    found = signed(command, credentials)
    assert found.ext_fields == case["signed"]
    assert (found.code, found.body) == (command.code, command.body)


def test_a_signature_from_before_is_replaced_and_does_not_count() -> None:
    credentials = Credentials("agent", "12345678")
    once = signed(request(26, {"a": "1"}), credentials)
    assert signed(once, credentials) == once


def test_secrets_are_in_no_representation() -> None:
    assert repr(Credentials("agent", "hidden-key", "hidden-token")) == "Credentials(access_key='agent')"
