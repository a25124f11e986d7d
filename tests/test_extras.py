"""How to install what is missing: a command that works where the package came from."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement

from sharedroutes.extras import MODULES, check, installing, lacking, requirement

ROOT: Final = Path(__file__).resolve().parents[1]
EXTRAS: Final[dict[str, list[str]]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["optional-dependencies"]
MODULE_OF: Final = {"prometheus-client": "prometheus_client", "opentelemetry-api": "opentelemetry"}
"""Where the module is not named as the distribution."""

WHEEL: Final = "file:///tmp/sharedroutes-0.1.0-py3-none-any.whl"
GIT: Final = "https://example.org/sharedroutes.git"


def test_each_extra_is_known_by_the_modules_that_it_brings() -> None:
    brought = {
        extra: tuple(
            sorted(MODULE_OF.get(name, name) for name in (Requirement(r).name for r in requirements))
        )
        for extra, requirements in EXTRAS.items()
    }
    assert brought == MODULES


def test_nothing_is_said_where_nothing_is_missing() -> None:
    assert lacking("the demo", "agent", "cli") is None
    check("the demo", "agent", "cli")


def test_all_that_is_missing_is_said_at_once_and_no_extra_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("watchdog", "h11", "pyspark"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        check("it", "spark", "agent", "cli")
    assert str(caught.value) == f"it needs h11, pyspark and watchdog: run `{installing('agent', 'spark')}`"


def test_the_pip_of_this_python_is_named_unless_it_is_the_one_on_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert installing("cli", "agent") == "pip install -e '.[agent,cli]'"
    monkeypatch.setenv("PATH", "")
    assert installing("cli") == f"{sys.executable} -m pip install -e '.[cli]'"


def test_away_from_the_checkout_its_path_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert installing("cli").endswith(f" install -e '{ROOT}[cli]'")


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, "sharedroutes[agent,cli]"),
        ({"url": WHEEL, "archive_info": {}}, f"sharedroutes[agent,cli] @ {WHEEL}"),
        (
            {"url": GIT, "vcs_info": {"vcs": "git", "commit_id": "8a3f"}},
            f"sharedroutes[agent,cli] @ git+{GIT}@8a3f",
        ),
        ({"url": ROOT.as_uri(), "dir_info": {}}, f"{ROOT}[agent,cli]"),
        ({"url": "file:///gone/for/good", "dir_info": {}}, "<a checkout of sharedroutes>[agent,cli]"),
    ],
)
def test_what_pip_is_given_says_where_the_package_came_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: Mapping[str, Any] | None, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert requirement(["cli", "agent"], origin) == expected


@pytest.mark.parametrize("origin", [None, {"url": WHEEL, "archive_info": {}}])
def test_an_installed_package_tells_by_its_metadata_where_it_came_from(
    tmp_path: Path, origin: Mapping[str, Any] | None
) -> None:
    package = tmp_path / "sharedroutes"
    package.mkdir()
    (package / "__init__.py").touch()
    source = ROOT / "src" / "sharedroutes" / "extras.py"
    (package / "extras.py").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    metadata = tmp_path / "sharedroutes-0.1.0.dist-info"
    metadata.mkdir()
    if origin is not None:
        (metadata / "direct_url.json").write_text(json.dumps(origin))
    done = subprocess.run(
        [sys.executable, "-c", "from sharedroutes.extras import installing; print(installing('cli'))"],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = "'sharedroutes[cli]'" if origin is None else f"'sharedroutes[cli] @ {WHEEL}'"
    assert done.stdout == f"{sys.executable} -m pip install {expected}\n"
