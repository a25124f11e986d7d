"""The settings of a route client."""

from __future__ import annotations

import pytest

from sharedroutes.client import ClientConfig, FaultConfig, HintConfig, RetryPolicy, RoundRobin
from sharedroutes.registry import InvalidInput

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tail_s", 0.0),
        ("tail_s", NAN),
        ("refresh_s", 86_401.0),
        ("refresh_s", -1.0),
        ("jitter_s", -0.1),
        ("jitter_s", NAN),
        ("missing_retry_s", 86_401.0),
        ("guard_hold_s", -1.0),
        ("guard_hold_s", float("inf")),
    ],
)
def test_a_value_out_of_its_range_is_refused_by_name(name: str, value: float) -> None:
    settings: dict[str, float] = {name: value}
    with pytest.raises(InvalidInput, match=name):
        ClientConfig(**settings)  # type: ignore[arg-type]  # mypy cannot see that the names are of numbers


@pytest.mark.parametrize(
    ("name", "value"),
    [("jitter_s", 0.0), ("missing_retry_s", 0.0), ("guard_hold_s", 0.0)],
)
def test_nothing_is_a_value_where_it_makes_sense(name: str, value: float) -> None:
    settings: dict[str, float] = {name: value}
    assert getattr(ClientConfig(**settings), name) == value  # type: ignore[arg-type]  # as above


def test_the_tail_is_not_read_more_rarely_than_everything() -> None:
    with pytest.raises(InvalidInput, match="tail_s"):
        ClientConfig(tail_s=2.0, refresh_s=1.0)
    assert ClientConfig(tail_s=1.0, refresh_s=1.0).tail_s == 1.0


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (ClientConfig, "topics", "orders"),
        (ClientConfig, "topics", ("no name",)),
        (ClientConfig, "default_topic", "no name"),
        (ClientConfig, "default_topic_queues", 0),
        (ClientConfig, "topics", None),
        (ClientConfig, "topics", (None,)),
        (ClientConfig, "default_topic", None),
        (ClientConfig, "default_topic", "x" * 300),
        (ClientConfig, "snapshot_path", ""),
        (ClientConfig, "snapshot_path", 5),
        (ClientConfig, "strategy", "zone"),
        (ClientConfig, "strategy", RoundRobin),
        (ClientConfig, "faults", None),
        (ClientConfig, "policy", None),
        (ClientConfig, "hints", True),
        (ClientConfig, "observers", object()),
        (ClientConfig, "observers", (object(),)),
        (ClientConfig, "probe", 5),
        (FaultConfig, "ladder", 5),
        (FaultConfig, "detect", "no"),
        (FaultConfig, "max_isolated_share", "most"),
        (HintConfig, "max_suspected_share", "some"),
        (RetryPolicy, "retry_on", OSError),
        (RetryPolicy, "retry_on", ("OSError",)),
        (RetryPolicy, "retry_codes", 2),
    ],
)
def test_a_value_of_another_kind_is_refused_by_name(kind: type, name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=name.removesuffix("s")):
        kind(**{name: value})
