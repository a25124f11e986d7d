"""The settings of a registry refuse what cannot work, by name."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from sharedroutes.registry import InvalidInput, RegistryConfig


@pytest.mark.parametrize("namespace", ["", "a b", "a{b", "a}b", "é", "x" * 65, "a\n"])
def test_a_namespace_that_would_break_the_hash_tag_is_refused(namespace: str) -> None:
    with pytest.raises(InvalidInput, match=r"^namespace: "):
        RegistryConfig(namespace=namespace)


@pytest.mark.parametrize("name", ["lease_ttl_s", "call_deadline_s", "connect_deadline_s"])
@pytest.mark.parametrize("value", [0, -1, 0.049, 86_401, float("nan"), float("inf")])
def test_times_lie_between_50_ms_and_a_day(name: str, value: float) -> None:
    wrong: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=f"^{name}: .*seconds"):
        RegistryConfig(**wrong)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_connections", 2),
        ("max_connections", 10_001),
        ("feed_max_entries", 0),
        ("feed_max_entries", 10**9 + 1),
        ("chunk_topics", 0),
        ("chunk_topics", 2_001),
    ],
)
def test_counts_have_a_lowest_and_a_highest_value(name: str, value: int) -> None:
    wrong: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=f"^{name}: {value} "):
        RegistryConfig(**wrong)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *product(("max_connections", "feed_max_entries", "chunk_topics"), (2.5, "2", None, True)),
        *product(("namespace", "lease_ttl_s", "call_deadline_s", "connect_deadline_s"), (None,)),
    ],
)
def test_a_setting_of_another_kind_is_refused(name: str, value: object) -> None:
    wrong: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=rf"^{name}: "):
        RegistryConfig(**wrong)


def test_the_lease_ttl_is_rounded_to_milliseconds() -> None:
    assert RegistryConfig(lease_ttl_s=0.0504).lease_ttl_ms == 50
    assert RegistryConfig().lease_ttl_ms == 15_000
