"""Names that are imported when they are first asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from sharedroutes import broker_agent, client, registry

SOURCE: Final = Path(__file__).parents[2] / "src"
PACKAGES: Final[tuple[ModuleType, ...]] = (broker_agent, client, registry)

OPERATORS: Final = (
    *("acl", "change_stream.core", "embedded", "export_file"),
    *("health.findings", "plans.bulk_load", "plans.export_import", "plans.repair.walk"),
    "plans.replicas",
)
"""Modules of the registry for what operators and followers do."""


def late_names(package: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield what type checkers see instead of the late names: a name, and the module that has it."""
    (block,) = (
        node
        for node in ast.parse(Path(package.__file__ or "").read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        yield from ((alias.name, str(node.module)) for alias in node.names)


LATER: Final = [(package, *late) for package in PACKAGES for late in late_names(package)]


def run_python(program: str) -> str:
    """Return what a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("package", "name", "module"), LATER)
def test_a_late_name_is_what_its_module_has(package: ModuleType, name: str, module: str) -> None:
    assert getattr(package, name) is getattr(import_module(f"{package.__name__}.{module}"), name)
    assert name in package.__all__


@pytest.mark.parametrize(("package", "name", "module"), LATER)
def test_no_module_stands_where_a_late_name_would(package: ModuleType, name: str, module: str) -> None:
    (folder,) = package.__path__
    assert name not in {path.stem for path in Path(folder).iterdir()}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_all_its_names_and_no_others(package: ModuleType) -> None:
    program = f"import {package.__name__} as package; print(*dir(package)); from {package.__name__} import *"
    assert {*package.__all__} <= {*run_python(program).split()}
    with pytest.raises(AttributeError, match=f"^module '{package.__name__}' has no attribute 'nothing'$"):
        package.nothing  # noqa: B018


def test_an_agent_does_without_what_operators_do() -> None:
    program = "import sys, sharedroutes.broker_agent.process.command; print(*sys.modules)"
    imported = {*run_python(program).split()}
    registry_modules = {f"{registry.__name__}.{name}" for name in (*OPERATORS, "store", "sweeper")}
    assert not registry_modules & imported
    for name in OPERATORS:
        import_module(f"{registry.__name__}.{name}")  # it is there, under that name


def test_a_module_that_is_imported_late_runs_when_something_of_it_is_used() -> None:
    program = """
import sys
from sharedroutes.registry.lazy_imports import import_late
import_late("importlib.metadata")
from importlib import metadata
print("zipfile" in sys.modules, metadata is sys.modules["importlib.metadata"])
print(bool(metadata.version("redis")), "zipfile" in sys.modules)
"""
    assert run_python(program) == "False True\nTrue True\n"


def test_a_module_that_is_imported_already_is_left_alone() -> None:
    program = """
import importlib.metadata as before
from sharedroutes.registry.lazy_imports import import_late
import_late("importlib.metadata")
import importlib.metadata
print(importlib.metadata is before)
"""
    assert run_python(program) == "True\n"
