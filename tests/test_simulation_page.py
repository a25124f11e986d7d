"""docs/simulation.md and docs/simulation/ have each setting, system and table as the code has it."""

from __future__ import annotations

import ast
import re
from dataclasses import MISSING, fields
from typing import Any, Final

import click
import pytest

from benchmarks.simulation import (
    SYSTEMS,
    TABLES,
    ClientFaults,
    FaultModel,
    FleetConfig,
    Happening,
    NameServers,
    SharedRoutes,
    Traffic,
)
from benchmarks.simulation.command import simulate
from sharedroutes.pipeline.tables import Table
from tests.markdown import guide, names
from tests.test_pipeline_page import SPARK, rows

PAGE: Final = guide("simulation")


def section(heading: str) -> str:
    _, found, after = PAGE.partition(f"# {heading}\n")
    assert found, heading
    return re.split(r"^#+ ", after, maxsplit=1, flags=re.MULTILINE)[0]


def default_of(kind: Any, name: str) -> Any:
    (found,) = [one for one in fields(kind) if one.name == name]
    if found.default is not MISSING:
        return found.default
    return None if found.default_factory is MISSING else found.default_factory()


@pytest.mark.parametrize(
    "kind", [FleetConfig, Traffic, FaultModel, Happening, NameServers, SharedRoutes, ClientFaults]
)
def test_every_setting_is_in_its_table(kind: Any) -> None:
    _, _, text = section("Settings of a simulation").partition(f"\n`{kind.__name__}`: ")
    found = rows(text.partition("\n\n`")[0] + "\n", "| setting | default | meaning |")
    assert [names(row[0])[0] for row in found] == [one.name for one in fields(kind)]
    for setting, default, meaning in found:
        assert meaning
        (name,) = names(setting)
        value = default_of(kind, name)
        if isinstance(value, bool):
            assert names(default) == [str(value).lower()]
        elif isinstance(value, int | float | str):
            assert ast.literal_eval(names(default)[0]) == value, name


def test_every_system_that_is_compared_is_in_its_table() -> None:
    assert [row[0] for row in rows(section("Settings of a simulation"), "| name | what it is |")] == [
        system.name for system in SYSTEMS
    ]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_is_in_the_page_as_it_is_in_the_code(table: Table) -> None:
    _, found, text = section("Tables").partition(f"\n`{table.name}` (")
    assert found
    assert text.partition("): ")[2].partition(".\n")[0] == table.meaning
    written = rows(text.partition("\n\n`")[0] + "\n", "| column | type | meaning |")
    assert written == [[f"`{one.name}`", f"`{one.type}`", one.meaning] for one in table.columns]


def test_every_option_is_in_its_table() -> None:
    written = {
        name
        for row in rows(section("The command"), "| option | default | meaning |")
        for name in names(row[0])
    }
    options = {flag for one in simulate.params if isinstance(one, click.Option) for flag in one.opts}
    assert written | {*SPARK} == options
