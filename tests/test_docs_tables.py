"""The tables of docs/client/ say what the code has: a page that drifts is worse than none."""

from __future__ import annotations

import ast
from dataclasses import MISSING, Field, fields
from typing import Any, Final

import pytest

from sharedroutes.client import (
    LADDER,
    LADDER_4,
    NETWORK_ERRORS,
    PRESETS,
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
from sharedroutes.client.attempts.policy import RETRYABLE_CODES_4, code_of_refusal
from sharedroutes.client.selection import AllocateConsistentHash
from sharedroutes.registry import RegistryConfig
from tests.markdown import guide, names, rows

PAGE: Final = guide("client")
NAMED: Final[dict[str, Any]] = {
    "LADDER": LADDER,
    "LADDER_4": LADDER_4,
    "NETWORK_ERRORS": NETWORK_ERRORS,
    "RETRYABLE_CODES": RETRYABLE_CODES,
    "RETRYABLE_CODES_4": RETRYABLE_CODES_4,
    "code_of_refusal": code_of_refusal,
    "FaultConfig()": FaultConfig(),
    "RegistryConfig()": RegistryConfig(),
    "RetryPolicy()": RetryPolicy(),
    "RoundRobin()": RoundRobin(),
}
"""Defaults that are written by their name."""

FORKS: Final = {"before_fork", "after_fork_in_parent", "after_fork_in_child"}
"""Methods that are public for the fork's hooks only."""


def default_of(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    assert field.default_factory is not MISSING, f"{field.name} has no default"
    return field.default_factory()


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
    for setting, default, meaning in rows(PAGE, f"`{kind.__name__}`"):
        (name,), (text,) = names(setting), names(default)
        assert meaning, name
        written[name] = NAMED[text] if text in NAMED else ast.literal_eval(text)
    assert written == {field.name: default_of(field) for field in fields(kind)}


@pytest.mark.parametrize(("client", "other_name"), [(RouteClient, "close"), (AsyncRouteClient, "aclose")])
def test_every_method_is_in_the_table(client: type, other_name: str) -> None:
    written = {name for row in rows(PAGE, "Methods") for name in names(row[0])}
    public = {name for name in dir(client) if not name.startswith("_")} - FORKS
    assert written == public - {other_name} | {"close"}


NESTED: Final = ("faults", "policy")


def flat(config: ClientConfig) -> dict[str, Any]:
    """Return the settings of a client by name, those of faults and attempts with a dot."""
    found = {field.name: getattr(config, field.name) for field in fields(config)}
    for part in NESTED:
        inner = found.pop(part)
        found |= {f"{part}.{field.name}": getattr(inner, field.name) for field in fields(inner)}
    return found


def value(text: str) -> Any:
    return NAMED[text] if text in NAMED else ast.literal_eval(text)


def test_the_table_of_presets_has_every_difference_between_them() -> None:
    columns = ("sharedroutes", "rocketmq-4", "rocketmq-5")
    written: dict[str, dict[str, Any]] = {name: {} for name in PRESETS}
    for setting, *cells, rocketmqs in rows(PAGE, "Presets"):
        (name,) = names(setting)
        assert rocketmqs, name
        for column, cell in zip(columns, cells, strict=True):
            plain, _, others = cell.partition("; ")
            for preset in PRESETS:
                if preset == column or preset.startswith(f"{column}-"):
                    suffix = preset.removeprefix(column)
                    text = others if suffix and f"`{suffix}`" in others else plain
                    written[preset][name] = value(names(text)[-1])
    real = {name: flat(preset.client) for name, preset in PRESETS.items()}
    in_table = written["sharedroutes"].keys()
    assert written == {name: {one: real[name][one] for one in in_table} for name in PRESETS}
    own = real["sharedroutes"]
    differ = {one for found in real.values() for one in found if found[one] != own[one]}
    assert differ <= in_table
