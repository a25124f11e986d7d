"""What a release is checked for; `make release-check` makes and proves one."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from sharedroutes import __version__
from tools import release

HOME = "https://example.org/home"
PROJECT = tomllib.loads((release.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize(
    ("link", "on_an_index"),
    [
        ("[a](docs/agent.md#limits)", f"[a]({HOME}/blob/v1.2/docs/agent.md#limits)"),
        ("![a](docs/page.png)", f"![a]({HOME}/raw/v1.2/docs/page.png)"),
        ("[a](https://redis.io) [b](#here)", "[a](https://redis.io) [b](#here)"),
        ("f(x) and [a]", "f(x) and [a]"),
    ],
)
def test_links_of_the_readme_work_on_an_index(link: str, on_an_index: str) -> None:
    assert release.with_absolute_links(link, HOME, "1.2") == on_an_index


def test_each_extra_of_the_library_alone_is_an_extra_of_the_project() -> None:
    assert release._IMPORTED.keys() <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize(
    "said", ["Requires-Python: >=3.11", "Project-URL: Source, https://elsewhere.example"]
)
def test_a_wheel_that_does_not_say_what_the_project_does_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str
) -> None:
    monkeypatch.setattr(release, "_run", lambda *_: "")
    wheel = tmp_path / "sharedroutes-0.1.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as packed:
        packed.writestr("sharedroutes-0.1.0.dist-info/METADATA", f"{said}\n\n")
    with pytest.raises(SystemExit, match=r"does not say what pyproject\.toml says"):
        release.check_metadata(PROJECT, tmp_path / "sdist", wheel)


def test_the_script_that_a_wheel_installs_is_run_and_has_to_answer() -> None:
    environment, wheel = Path(sys.prefix), Path(f"sharedroutes-{__version__}-py3-none-any.whl")
    assert release._script(environment, wheel, asks=False) == "sharedroutes --version"
    assert release._script(environment, wheel, asks=True) == "sharedroutes --version, topics, doctor"
    with pytest.raises(SystemExit, match=f"--version says 'sharedroutes, version {__version__}"):
        release._script(environment, Path("sharedroutes-9.9-py3-none-any.whl"), asks=False)


def test_a_script_that_cannot_answer_ends_the_release(tmp_path: Path) -> None:
    says_its_version = f"[ $1 = --version ] && echo sharedroutes, version {__version__}"
    programs = {"python": f'exec {sys.executable} "$@"', "sharedroutes": says_its_version}
    (tmp_path / "bin").mkdir()
    for name, code in programs.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
        program.chmod(0o755)
    with pytest.raises(SystemExit, match=r"'topics', .* ended with 1"):
        release._script(tmp_path, Path(f"sharedroutes-{__version__}-py3-none-any.whl"), asks=True)
