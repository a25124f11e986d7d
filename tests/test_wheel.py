"""What a user installs: the wheel made from the sdist, alone in an environment, away from the checkout."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement

from sharedroutes.registry.embedded import find_server

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).resolve().parents[1]
NOT_COPIED: Final = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")


@dataclass(frozen=True)
class Built:
    """What one build made, and the sources it was made from."""

    checkout: Path
    sdist: Path
    wheel: Path

    @property
    def project(self) -> dict[str, Any]:
        """The sections of its pyproject.toml."""
        return tomllib.loads((self.checkout / "pyproject.toml").read_text(encoding="utf-8"))

    @property
    def sources(self) -> dict[str, Path]:
        """Every file of the packages, by its name in the wheel."""
        mapping = self.project["tool"]["setuptools"]["package-dir"]
        folders = {name.replace(".", "/"): self.checkout / folder for name, folder in mapping.items()}
        return {
            f"{name}/{path.relative_to(folder).as_posix()}": path
            for name, folder in folders.items()
            for path in folder.rglob("*")
            if path.is_file()
        }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return an sdist of a copy of the checkout and the wheel built from that sdist."""
    checkout = tmp_path_factory.mktemp("source") / "checkout"
    shutil.copytree(ROOT, checkout, symlinks=True, ignore=NOT_COPIED)
    # Without isolation: the pinned setuptools of this environment, so nothing is downloaded.
    build = (sys.executable, "-m", "build", "--no-isolation")
    _run(*build, cwd=checkout, PYTHONWARNINGS="error::UserWarning")
    (sdist,) = (checkout / "dist").glob("*.tar.gz")
    (wheel,) = (checkout / "dist").glob("*.whl")
    return Built(checkout, sdist, wheel)


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment that holds the wheel and its core dependencies, not even pip."""
    environment = tmp_path_factory.mktemp("environment")
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment), cwd=environment)
    python = environment / "bin" / "python"
    site_packages = Path(_run(str(python), "-c", "import site; print(site.getsitepackages()[0])").strip())
    for name in _closure(built.project["project"]["dependencies"]):
        _copy_installed(name, site_packages)
    _pip(python, "install", "--no-index", "--no-deps", str(built.wheel))
    _pip(python, "check")
    return python


def _run(*command: str, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command and return its output; fail the test when it fails."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _pip(python: Path, *arguments: str) -> None:
    _run(sys.executable, "-m", "pip", "--python", str(python), *arguments)


def _closure(requirements: Sequence[str]) -> set[str]:
    """Return the names of the distributions that the requirements need here, directly or not."""
    names: set[str] = set()
    ahead = [Requirement(text) for text in requirements]
    while ahead:
        requirement = ahead.pop()
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and requirement.name not in names:
            names.add(requirement.name)
            ahead += [Requirement(text) for text in distribution(requirement.name).requires or ()]
    return names


def _copy_installed(name: str, site_packages: Path) -> None:
    """Copy a distribution of this environment to another one of the same Python, without an index."""
    for file in distribution(name).files or ():
        if ".." not in file.parts:
            target = site_packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(str(file.locate())), target)


def _quick_start() -> str:
    """Return the first Python example of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert block, "README.md has no ```python block"
    return block[1]


def test_the_wheel_holds_every_source_file_and_one_package(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == set(built.sources)
    assert {name.partition("/")[0] for name in names} == {"sharedroutes"}


def test_the_wheel_carries_types_scripts_and_the_licence(built: Built) -> None:
    version = built.project["project"]["version"]
    with zipfile.ZipFile(built.wheel) as wheel:
        names = wheel.namelist()
        licence = wheel.read(f"sharedroutes-{version}.dist-info/licenses/LICENSE")
    assert "sharedroutes/py.typed" in names
    assert "sharedroutes/registry/lua/_common.lua" in names
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_the_sdist_carries_the_scripts(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {f"registry/lua/{path.name}" for path in (built.checkout / "registry" / "lua").iterdir()} <= names


def test_the_quick_start_runs_on_the_installed_wheel(installed: Path, tmp_path: Path) -> None:
    output = _run(
        *(str(installed), "-I", "-W", "error", "-c", _quick_start()),
        cwd=tmp_path,
        SHAREDROUTES_REDIS_SERVER=find_server(),  # the environment has no server of its own
    )
    assert "broker-a" in output


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_base_installation_has_help_and_version(installed: Path, tmp_path: Path, option: str) -> None:
    text = _run(str(installed.with_name("sharedroutes")), option, cwd=tmp_path)
    assert text.startswith(("Usage: sharedroutes", "sharedroutes, version "))


@pytest.mark.parametrize(
    ("words", "missing", "extras"),
    [
        (["topics"], "click and rich", "cli"),
        (["agent", "--help"], "click, h11, jinja2 and watchdog", "agent"),
    ],
)
def test_a_command_names_all_that_it_lacks_with_the_pip_command_that_installs_it(
    built: Built, installed: Path, tmp_path: Path, words: list[str], missing: str, extras: str
) -> None:
    command = [str(installed.with_name("sharedroutes")), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    told = re.fullmatch(r"Error: `(.+?)` needs (.+): run `(.+)`\n", done.stderr)
    assert told, done.stderr
    assert (told[1], told[2]) == (words[0], missing)
    python, *pip = shlex.split(told[3])
    assert python == str(installed)
    assert pip == ["-m", "pip", "install", f"sharedroutes[{extras}] @ {built.wheel.as_uri()}"]
    # pip takes it so; what the extras bring is not looked for, since there is no index here.
    _pip(installed, *pip[2:], "--dry-run", "--no-deps", "--no-index")


@pytest.mark.parametrize(("module", "extra"), [("prometheus", "metrics"), ("otel", "otel")])
def test_without_its_extra_an_observer_says_what_to_install(
    installed: Path, tmp_path: Path, module: str, extra: str
) -> None:
    program = f"import sharedroutes.client.observers.{module}"
    command = [str(installed), "-I", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"pip install 'sharedroutes[{extra}] @ file:" in done.stderr


def test_no_folder_of_the_checkout_is_importable_by_its_bare_name(installed: Path, tmp_path: Path) -> None:
    bare = [path.name for path in ROOT.iterdir() if path.is_dir() and path.name.isidentifier()]
    program = "import sys, importlib.util as u; print([name for name in sys.argv[1:] if u.find_spec(name)])"
    assert {"registry", "client", "broker_agent", "cli"} <= set(bare)
    assert _run(str(installed), "-I", "-c", program, *bare, cwd=tmp_path) == "[]\n"
