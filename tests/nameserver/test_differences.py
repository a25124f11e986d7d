"""The table of differences in docs/nameserver.md: what tests/interop reads there means something."""

from __future__ import annotations

import pytest

from tests.interop.differences import PAGE, Difference, differences, explanation
from tests.interop.sequences import Ask, Names
from tests.interop.situations import SITUATIONS, Past

ROWS = differences(PAGE.read_text(encoding="utf-8"))
NAMES = Names(7, 1)
ROUTE = Ask(code=105, fields={"topic": "§t0"})
REGISTRATION = Ask(
    code=103,
    fields={"brokerName": "§b0", "brokerAddr": "@0", "clusterName": "§c0", "brokerId": "0"},
    body='{"topicConfigSerializeWrapper":{"topicConfigTable":{"§t0":{}}}}',
)


def past(asked: Ask, *before: Ask) -> Past:
    return Past(asked.request(NAMES), before, NAMES)


def test_each_situation_is_a_pattern_or_has_its_meaning() -> None:
    told = {row.situation for row in ROWS if "`" not in row.situation}
    assert told == SITUATIONS.keys()


@pytest.mark.parametrize("row", [row for row in ROWS if row.code != "319"], ids=lambda row: row.situation)
def test_no_situation_is_that_of_every_request(row: Difference) -> None:
    assert row.about(past(ROUTE), "request 105 topic") is None


def test_the_first_registration_with_one_topic_is_one_without_another_before() -> None:
    is_first = SITUATIONS["the first registration of a replica has exactly one topic"]
    assert is_first(past(REGISTRATION))
    assert not is_first(past(REGISTRATION, REGISTRATION))
    left = Ask(code=104, fields=REGISTRATION.fields)
    assert is_first(past(REGISTRATION, REGISTRATION, left))


def test_a_row_about_parts_excuses_these_and_nothing_else() -> None:
    elsewhere = Ask(code=103, fields={**(REGISTRATION.fields or {}), "clusterName": "§c1"}, body="")
    asked = past(Ask(code=106), REGISTRATION, elsewhere)
    ours = '{"code":0} {"brokerAddrTable":{},"clusterAddrTable":{"x7.c1":["x7.b0"]}}'
    theirs = '{"code":0} {"brokerAddrTable":{},"clusterAddrTable":{"x7.c0":["x7.b0"],"x7.c1":["x7.b0"]}}'
    assert explanation(ROWS, asked, "request 106", theirs, ours)
    assert not explanation(ROWS, past(Ask(code=106), REGISTRATION), "request 106", theirs, ours)
    assert not explanation(ROWS, asked, "request 106", theirs.replace("c0", "c9"), ours)
