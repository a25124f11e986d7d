"""Ports that tests are given."""

from __future__ import annotations

from tests import ports


def test_nobody_is_given_the_port_of_a_broker_that_a_test_only_names() -> None:
    assert not {10_911, 10_912, 10_921, 10_931} & {*ports._PORTS}
