"""The rules about layers, sizes, redis and clocks that CONTRIBUTING.md states."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parents[1]
PYPROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGED: Final[list[str]] = sorted(PYPROJECT["tool"]["setuptools"]["package-dir"].values())
FOLDERS: Final = sorted(
    path.name
    for path in ROOT.iterdir()
    if path.is_dir() and path.name.isidentifier() and path.name not in {"build", "dist"}
)
EXTRAS_OF: Final = {
    "src/sharedroutes": [],
    "registry": [],
    "client": [],
    "remoting": [],
    "daemon": ["nameserver"],
    "broker_agent": ["agent"],
    "nameserver": ["nameserver"],
    "pipeline": ["spark"],
    "cli": ["agent", "cli", "spark", "watch"],
    "testing": ["testing"],
}
"""The extras that the user of a folder installs."""

EXTRA_OF: Final = {
    "broker_agent/process/metrics.py": ("prometheus_client", "metrics"),
    "daemon/metrics.py": ("prometheus_client", "metrics"),
    "nameserver/command.py": ("uvloop", "uvloop"),
    "nameserver/metrics.py": ("prometheus_client", "metrics"),
    "client/observers/otel.py": ("opentelemetry", "otel"),
    "client/observers/prometheus.py": ("prometheus_client", "metrics"),
}
"""Single files that need more than that: what they alone import, and the extra that brings it."""

CLOCKLESS: Final = (
    "registry",
    "client",
    "remoting",
    "daemon",
    "broker_agent",
    "nameserver",
    "pipeline",
    "testing",
)
USERS_OF_REDIS: Final = {
    "registry/connection/links_async.py",
    "registry/connection/links.py",
    "registry/connection/located_async.py",
    "registry/connection/located.py",
    "registry/connection/adapted.py",
    "registry/connection/replies.py",
    "registry/connection/url.py",
}

MAX_FILE_LINES: Final = 500
MAX_FUNCTION_LINES: Final = 60

WALL_CLOCKS: Final = {
    "time": {"time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def _sources(*folders: str) -> list[str]:
    """Return the Python files of the folders, relative to the root; links are not followed."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in found)


def _lines(source: str) -> list[str]:
    return (ROOT / source).read_text(encoding="utf-8").splitlines()


def _nodes(source: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse((ROOT / source).read_text(encoding="utf-8"), source))


@cache
def _imported(source: str) -> frozenset[str]:
    """Return the absolute modules a file imports."""
    found = set[str]()
    for node in _nodes(source):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
    return frozenset(found)


def _modules(source: str) -> set[str]:
    """Return the top names of what a file imports."""
    return {name.partition(".")[0] for name in _imported(source)}


def _body_lines(function: Function) -> int:
    """Return how many lines a function has from the first statement after its docstring on."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _wall_clock_reads(source: str) -> Iterator[str]:
    for node in _nodes(source):
        if isinstance(node, ast.Attribute):
            owner = (
                node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            )
            if node.attr in WALL_CLOCKS.get(owner, ()):
                yield f"{source}:{node.lineno}: {owner}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "time":
            for alias in node.names:
                if alias.name in WALL_CLOCKS["time"]:
                    yield f"{source}:{node.lineno}: from time import {alias.name}"


@pytest.mark.parametrize("folder", PACKAGED)
def test_a_folder_imports_only_what_its_extras_bring(folder: str) -> None:
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(text for extra in EXTRAS_OF[folder] for text in extras[extra])]
    brought = {Requirement(text).name for text in asked}
    used = {
        module
        for source in _sources(folder)
        for module in _modules(source)
        if module != EXTRA_OF.get(source, ("",))[0]
    }
    assert used - sys.stdlib_module_names - brought == set()


@pytest.mark.parametrize("source", EXTRA_OF)
def test_what_only_one_file_may_import_is_brought_by_its_extra(source: str) -> None:
    module, extra = EXTRA_OF[source]
    texts = PYPROJECT["project"]["optional-dependencies"][extra]
    asked = {canonicalize_name(Requirement(text).name) for text in texts}
    assert module in _modules(source)
    assert asked & set(map(canonicalize_name, packages_distributions()[module]))


def test_only_the_stores_import_redis() -> None:
    users = {source for source in _sources(*PACKAGED) if "redis" in _modules(source)}
    assert users == USERS_OF_REDIS


def test_no_decision_reads_the_wall_clock() -> None:
    assert [read for source in _sources(*CLOCKLESS) for read in _wall_clock_reads(source)] == []


def test_files_and_functions_stay_small() -> None:
    files = [source for source in _sources(*FOLDERS) if len(_lines(source)) > MAX_FILE_LINES]
    functions = [
        f"{source}: {node.name}"
        for source in _sources(*FOLDERS)
        for node in _nodes(source)
        if isinstance(node, Function) and _body_lines(node) > MAX_FUNCTION_LINES
    ]
    assert (files, functions) == ([], [])
