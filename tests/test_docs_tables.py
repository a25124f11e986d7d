"""The tables of docs/client.md say what the code has: a page that drifts is worse than none."""

from __future__ import annotations

import ast
import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.client import (
    LADDER,
    NETWORK_ERRORS,
    RETRYABLE_CODES,
    AsyncRouteClient,
    ClientConfig,
    FaultConfig,
    HintConfig,
    Ladder,
    RetryPolicy,
    RoundRobin,
    RouteClient,
)
from sharedroutes.client.attempts.policy import code_of_refusal
from sharedroutes.client.observing.metrics import COUNTERS, HISTOGRAMS
from sharedroutes.client.observing.watched import GAUGES
from sharedroutes.client.selection import AllocateConsistentHash
from sharedroutes.registry import RegistryConfig

PAGE: Final = (Path(__file__).resolve().parents[1] / "docs" / "client.md").read_text(encoding="utf-8")
NAMED: Final[dict[str, Any]] = {
    "LADDER": LADDER,
    "NETWORK_ERRORS": NETWORK_ERRORS,
    "RETRYABLE_CODES": RETRYABLE_CODES,
    "code_of_refusal": code_of_refusal,
    "FaultConfig()": FaultConfig(),
    "RegistryConfig()": RegistryConfig(),
    "RoundRobin()": RoundRobin(),
}
"""Defaults that are written by their name."""

FORKS: Final = {"before_fork", "after_fork_in_parent", "after_fork_in_child"}
"""Methods that are public for the fork's hooks only."""


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading, without its head."""
    section = re.split(r"^#+ ", PAGE.partition(f"### {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    _, _, *lines = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def default_of(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    assert field.default_factory is not MISSING, f"{field.name} has no default"
    return field.default_factory()


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


SETTINGS: Final = (
    ClientConfig,
    FaultConfig,
    Ladder,
    HintConfig,
    RetryPolicy,
    RegistryConfig,
    AllocateConsistentHash,
)


@pytest.mark.parametrize("kind", SETTINGS)
def test_every_setting_is_in_its_table_with_its_default(kind: Any) -> None:
    written = {}
    for setting, default, _unit, meaning in rows(f"`{kind.__name__}`"):
        (name,), (text,) = names(setting), names(default)
        assert meaning, name
        written[name] = NAMED[text] if text in NAMED else ast.literal_eval(text)
    assert written == {field.name: default_of(field) for field in fields(kind)}


def test_every_metric_is_in_the_table_with_its_kind_and_labels() -> None:
    written = [(*names(name), kind, tuple(names(labels))) for name, kind, labels, _ in rows("Metrics")]
    kinds = {"counter": COUNTERS, "histogram": HISTOGRAMS, "gauge": GAUGES}
    assert written == [(one.name, kind, one.labels) for kind, found in kinds.items() for one in found]


@pytest.mark.parametrize(("client", "other_name"), [(RouteClient, "close"), (AsyncRouteClient, "aclose")])
def test_every_method_is_in_the_table(client: type, other_name: str) -> None:
    written = {name for row in rows("Methods") for name in names(row[0])}
    public = {name for name in dir(client) if not name.startswith("_")} - FORKS
    assert written == public - {other_name} | {"close"}
