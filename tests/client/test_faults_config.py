"""The settings of fault tolerance."""

from __future__ import annotations

from typing import Any

import pytest

from sharedroutes.client.faults.config import FaultConfig
from sharedroutes.registry import InvalidInput

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consecutive_failures", -1),
        ("consecutive_failures", 2.5),
        ("min_success_rate", 1.1),
        ("min_success_rate", NAN),
        ("min_success_rate", "0.1"),
        ("max_isolated_share", 2),
        ("rules", "rocketmq"),
        ("enabled", 1),
        ("base_isolation_s", 0),
        ("max_isolated_share", True),
        ("base_isolation_s", NAN),
        ("max_isolation_s", 9.9),
        ("slow_start_s", -1),
        ("detect_interval_s", 0),
        ("detect_timeout_s", float("inf")),
    ],
)
def test_a_value_out_of_its_range_is_refused_by_name(name: str, value: object) -> None:
    settings: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=f"^{name}: .*{value}"):
        FaultConfig(**settings)


@pytest.mark.parametrize(
    "name", ["consecutive_failures", "min_success_rate", "slow_start_s", "max_isolated_share"]
)
def test_what_can_be_turned_off_is_turned_off_by_nothing(name: str) -> None:
    settings: dict[str, Any] = {name: 0}
    assert getattr(FaultConfig(**settings), name) == 0
