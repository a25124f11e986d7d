"""Requests are signed as RocketMQ's own clients sign them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.remoting import Credentials, request, signed

SIGNED: Final = json.loads(
    (Path(__file__).parents[1] / "data" / "rocketmq-acl" / "signatures.json").read_text(encoding="utf-8")
)


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
