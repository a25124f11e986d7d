"""What `make` sets up for whom, and what a person sees meanwhile; nothing is installed here."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
FOR_DEMO: Final = "--editable '.[agent,cli,embedded]'"
ALL: Final = "--group test"
PYPROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

PIP_SAYS: Final = """\
Collecting pyspark<5,>=4.2 (from sharedroutes==0.1.0)
  Downloading pyspark-4.3.0.tar.gz (434.1 MB)
  Downloading wsproto-1.3.2-py3-none-any.whl (24 kB)
Using cached numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl (16.9 MB)
Building wheels for collected packages: pyspark
  Building wheel for pyspark (pyproject.toml): started
  Building wheel for pyspark (pyproject.toml): still running...
  Building wheel for pyspark (pyproject.toml): finished with status 'done'
  Building editable for sharedroutes (pyproject.toml): started
Installing collected packages: wsproto, numpy, pyspark, sharedroutes

Successfully installed numpy-2.4.6
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder with what a fresh clone has of the files that make looks at."""
    for name in ("Makefile", "pyproject.toml", "requirements/constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    return tmp_path


def make(folder: Path, *arguments: str, given: str = "") -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("target", ["demo", "nameserver-demo"])
def test_the_demos_install_only_what_they_need(clone: Path, target: str) -> None:
    plan = make(clone, "-n", target)
    assert FOR_DEMO in plan
    assert ALL not in plan
    (clone / ".venv" / ".demo").touch()
    assert "pip install" not in make(clone, "-n", target)


@pytest.mark.parametrize(
    "target",
    ["test", "lint", "bench", "pipeline-demo", "cluster-test", "faults", "soak", "agent-faults", "interop"],
)
def test_everything_else_installs_all_of_it_also_after_a_demo(clone: Path, target: str) -> None:
    assert ALL in make(clone, "-n", target)
    (clone / ".venv" / ".demo").touch()
    assert ALL in make(clone, "-n", target)


def test_all_of_it_is_every_extra(clone: Path) -> None:
    extras = sorted(PYPROJECT["project"]["optional-dependencies"])
    assert f"--editable '.[{','.join(extras)}]' {ALL}" in make(clone, "-n", "test")


def test_the_site_has_tools_of_its_own_and_needs_nothing_else(clone: Path) -> None:
    plan = make(clone, "-n", "docs")
    assert "--group docs" in plan
    assert ALL not in plan


def test_where_all_is_installed_the_demo_uses_that(clone: Path) -> None:
    (clone / ".venv" / ".ready").touch()
    assert "install" not in make(clone, "-n", "demo")
    later_s = (clone / ".venv" / ".ready").stat().st_mtime + 10
    os.utime(clone / "pyproject.toml", (later_s, later_s))
    renewed = make(clone, "-n", "demo")
    assert ALL in renewed
    assert FOR_DEMO not in renewed


def test_of_what_pip_says_the_slow_steps_are_shown(clone: Path) -> None:
    (clone / "show.mk").write_text("include Makefile\nshow:\n\t@$(progress)\n", encoding="utf-8")
    assert make(clone, "-f", "show.mk", "show", given=PIP_SAYS).splitlines() == [
        "  pyspark-4.3.0.tar.gz (434.1 MB)",
        "  numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl (16.9 MB)",
        "  building pyspark",
        "  building sharedroutes",
        "  unpacking 4 packages",
    ]
