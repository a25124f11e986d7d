"""Names that are imported when they are first asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from sharedroutes import registry
from sharedroutes.registry import plans

SOURCE: Final = Path(__file__).parents[2] / "src"
PACKAGES: Final[tuple[ModuleType, ...]] = (registry, plans)
LATER: Final = [(package, *late) for package in PACKAGES for late in package._LATER.items()]


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
    late = {f"{package.__name__}.{module}" for package, _, module in LATER}
    assert late & imported == {
        "sharedroutes.registry.store_async",
        "sharedroutes.registry.sweeper_async",
    }
