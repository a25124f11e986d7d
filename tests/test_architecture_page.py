"""docs/architecture.md names files that exist, and what stands in them."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDERS: Final = (
    "benchmarks|broker_agent|cli|client|daemon|demo|docs|nameserver|pipeline|registry|remoting|testing|"
    "tests|tools"
)
PLACES: Final = sorted({*re.findall(rf"`((?:{FOLDERS})/[^`\s]*)`", PAGE)})
STOPS: Final = sorted({*re.findall(rf"`((?:{FOLDERS})/[^`\s]*\.py)` `([\w.]+)`", PAGE)})
FLOWS: Final = (
    "A lookup",
    "A registration",
    "A registration over RocketMQ's protocol",
    "A change",
    "A death",
    "A report",
)


def names_in(path: Path) -> set[str]:
    """Return what a module defines: names at its top level, and `Class.member`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        if isinstance(node, ast.ClassDef):
            members = (
                member for member in node.body if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            names |= {f"{node.name}.{member.name}" for member in members}
    return names


@pytest.mark.parametrize("place", PLACES)
def test_every_place_exists(place: str) -> None:
    assert (ROOT / place).exists()


@pytest.mark.parametrize(("file", "name"), STOPS)
def test_every_stop_is_in_its_file(file: str, name: str) -> None:
    assert name in names_in(ROOT / file)


@pytest.mark.parametrize("flow", FLOWS)
def test_every_way_of_data_has_its_stops(flow: str) -> None:
    section = PAGE.split(f"### {flow}:")[1].split("\n#")[0]
    assert len({file for file, _ in STOPS if f"`{file}`" in section}) >= 4


ROOMS: Final = [
    package.removeprefix("sharedroutes.").replace(".", "/") + "/"
    for package in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    if package != "sharedroutes" and not package.startswith(("sharedroutes.pipeline.", "sharedroutes.cli."))
]


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_named(room: str) -> None:
    assert f"`{room}`" in PAGE
