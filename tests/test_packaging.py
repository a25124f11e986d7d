"""What setuptools packs, what the tools see through src/ and what is in the folders are the same."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.registry.probes import SCRIPTS

ROOT: Final = Path(__file__).resolve().parents[1]
PYPROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: Final[dict[str, Any]] = PYPROJECT["project"]
SETUPTOOLS: Final[dict[str, Any]] = PYPROJECT["tool"]["setuptools"]
FOLDERS: Final[dict[str, Path]] = {name: ROOT / path for name, path in SETUPTOOLS["package-dir"].items()}
DATA: Final[dict[str, list[str]]] = SETUPTOOLS["package-data"]
LUA: Final = ROOT / "registry" / "lua"


def _files(folder: Path) -> set[Path]:
    """Return the files under a folder, links not followed, without what Python compiled."""
    return {path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def _packages_under(name: str, folder: Path) -> set[str]:
    code = {path.parent.relative_to(folder) for path in _files(folder) if path.suffix == ".py"}
    return {".".join((name, *parent.parts)) for parent in code}


def test_every_folder_with_code_is_a_listed_package_and_the_other_way_round() -> None:
    found = set().union(*(_packages_under(name, folder) for name, folder in FOLDERS.items()))
    assert found == set(SETUPTOOLS["packages"])


@pytest.mark.parametrize("name", FOLDERS)
def test_every_package_has_an_init_file(name: str) -> None:
    code = {path.parent for path in _files(FOLDERS[name]) if path.suffix == ".py"}
    assert {folder for folder in code if not (folder / "__init__.py").is_file()} == set()


@pytest.mark.parametrize("name", FOLDERS)
def test_a_mapped_name_leads_to_the_same_folder_through_src(name: str) -> None:
    assert ROOT.joinpath("src", *name.split(".")).resolve() == FOLDERS[name].resolve()


def test_the_links_in_src_are_relative_and_mapped() -> None:
    package = ROOT / "src" / "sharedroutes"
    links = {
        f"{package.name}.{path.name}": path.readlink() for path in package.iterdir() if path.is_symlink()
    }
    assert not [link for link in links.values() if link.is_absolute()]
    assert links.keys() == FOLDERS.keys() - {package.name}


@pytest.mark.parametrize(("name", "pattern"), [(name, pattern) for name in DATA for pattern in DATA[name]])
def test_a_pattern_of_package_data_matches_files(name: str, pattern: str) -> None:
    assert list(FOLDERS[name].glob(pattern))


@pytest.mark.parametrize("name", FOLDERS)
def test_every_file_that_is_no_code_is_package_data(name: str) -> None:
    packed = {path for pattern in DATA.get(name, []) for path in FOLDERS[name].glob(pattern)}
    assert {path for path in _files(FOLDERS[name]) if path.suffix != ".py"} == packed


@pytest.mark.parametrize("name", PROJECT["scripts"])
def test_a_command_of_the_project_exists(name: str) -> None:
    assert callable(EntryPoint(name, PROJECT["scripts"][name], "console_scripts").load())


def test_the_constraints_pin_every_requirement_to_a_version_that_it_allows() -> None:
    lines = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    pinned = {canonicalize_name(pin.name): next(iter(pin.specifier)) for pin in pins}
    sets = [*PROJECT["optional-dependencies"].values(), *PYPROJECT["dependency-groups"].values()]
    asked = [
        *PYPROJECT["build-system"]["requires"],
        *PROJECT["dependencies"],
        *(requirement for one in sets for requirement in one if isinstance(requirement, str)),
    ]
    for requirement in map(Requirement, asked):
        name = canonicalize_name(requirement.name)
        if name != PROJECT["name"]:
            assert pinned[name].operator == "==", f"run `make lock`: {name} is not pinned"
            assert pinned[name].version in requirement.specifier, f"run `make lock`: {requirement}"


def test_every_lua_file_is_loaded_as_a_script() -> None:
    operations = {path.stem for path in LUA.glob("*.lua") if not path.name.startswith("_")}
    assert operations == {script.name for script in SCRIPTS}


@pytest.mark.parametrize("name", [script.name for script in SCRIPTS])
def test_the_first_line_of_a_script_is_its_contract(name: str) -> None:
    first_line, _, body = (LUA / f"{name}.lua").read_text(encoding="utf-8").partition("\n")
    contract = r"-- KEYS (?P<keys>[^;]+); ARGV (?P<argv>[^;]+); reply [^;]+; (may|must not) be repeated\b.*"
    stated = re.fullmatch(contract, first_line)
    assert stated, first_line
    assert "KEYS[" in body
    assert ("ARGV[" in body) is (stated["argv"] != "none")


def test_the_version_is_looked_up_when_it_is_asked_for() -> None:
    code = (
        "import sys, sharedroutes; print('importlib.metadata' in sys.modules); sharedroutes.__version__; "
        "print('importlib.metadata' in sys.modules, hasattr(sharedroutes, 'anything_else'))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],  # what a `.pth` file imports is not of this package
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\nTrue False\n"
